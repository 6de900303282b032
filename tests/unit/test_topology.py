"""The manifest of each node, and the configurations a process refuses to boot with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dw_core.topology.manifest import SUMMARY_KEYS, DiscoveryLimits, manifest, summary
from dw_core.topology.placement import ENTRY_POINTS, BootRefused, resolve
from dw_core.topology.roles import PROCESS_CLASSES, Role, Shape

STANDALONE, SPLIT = Shape.STANDALONE_SERVER, Shape.SPLIT_CONTROL_EXECUTION


@pytest.mark.parametrize(
    ("shape", "process_class"),
    [
        (STANDALONE, "server_http_node"),
        (SPLIT, "control_plane_node"),
        (SPLIT, "matching_node"),
        (SPLIT, "scheduler_node"),
    ],
)
def test_the_manifest_of_each_of_our_processes_is_the_published_one(shape: Shape, process_class: str) -> None:
    expected = json.loads((Path(__file__).parent / "data" / f"topology-{shape}-{process_class}.json").read_text())
    wake = shape is STANDALONE
    built = manifest(shape, process_class, queue_wake=wake, limits=DiscoveryLimits())
    assert json.loads(json.dumps(built)) == expected
    assert list(built) == list(expected)
    assert summary(shape, process_class, queue_wake=wake, limits=DiscoveryLimits()) == {
        key: expected[key] for key in SUMMARY_KEYS
    }


def test_the_manifest_shows_the_effective_lease_durations() -> None:
    limits = DiscoveryLimits(workflow_task_lease_seconds=2, activity_task_lease_seconds=3)
    shown = manifest(STANDALONE, "server_http_node", queue_wake=True, limits=limits)["matching_role"]
    assert shown["discovery_limits"]["workflow_task_lease_seconds"] == 2
    assert shown["discovery_limits"]["activity_task_lease_seconds"] == 3


@pytest.mark.parametrize("unset", [None, "", "  "])
def test_unset_values_give_the_pair_of_the_entry_point(unset: str | None) -> None:
    for entry_point, pairs in ENTRY_POINTS.items():
        placed = resolve(unset, unset, entry_point)
        assert (placed.shape, placed.process_class) == pairs[0]
        assert placed.roles == PROCESS_CLASSES[placed.shape][placed.process_class]


def test_the_scheduler_runs_beside_either_shape() -> None:
    assert resolve("standalone_server", None, "scheduler").shape is STANDALONE
    assert resolve("split_control_execution", "scheduler_node", "scheduler").shape is SPLIT


@pytest.mark.parametrize(
    ("shape", "process_class", "entry_point"),
    [
        ("mesh", None, "standalone"),
        ("embedded", None, "standalone"),
        ("embedded", "application_process", "standalone"),
        ("standalone_server", "matching_node", "matching"),
        ("split_control_execution", "server_http_node", "standalone"),
        ("split_control_execution", "control_plane_node", "scheduler"),
        ("split_control_execution", "matching_node", "api-ingress"),
        ("split_control_execution", "ingress_node", "api-ingress"),
        ("standalone_server", None, "api-ingress"),
        ("standalone_server", "worker_node", "standalone"),
        (None, "execution_node", "matching"),
    ],
)
def test_an_illegal_combination_is_refused_in_one_line_naming_both_variables(
    shape: str | None, process_class: str | None, entry_point: str
) -> None:
    with pytest.raises(BootRefused) as refused:
        resolve(shape, process_class, entry_point)
    text = str(refused.value)
    assert refused.value.exit_code == 78
    assert "\n" not in text
    for part in ("DW_SERVER_TOPOLOGY_SHAPE", "DW_SERVER_PROCESS_CLASS", "server_http_node", "matching_node"):
        assert part in text


def test_the_only_dispatch_mode_is_poll() -> None:
    assert resolve(None, None, "standalone", dispatch_mode="poll").process_class == "server_http_node"
    with pytest.raises(BootRefused, match="DW_TASK_DISPATCH_MODE"):
        resolve(None, None, "standalone", dispatch_mode="queue")


def test_missing_roles_keep_the_order_of_the_declaration() -> None:
    placed = resolve(None, None, "matching")
    assert placed.missing(("api_ingress", "control_plane")) == ("api_ingress", "control_plane")
    assert placed.missing(("matching",)) == ()
    assert placed.roles == (Role.MATCHING,)


def test_sweeps_leave_the_serving_processes_in_the_split_shape() -> None:
    assert resolve(None, None, "standalone").queue_wake_default
    assert not resolve(None, None, "matching").queue_wake_default
