"""The catalogue: complete, unambiguous, and found by path."""

from __future__ import annotations

import re

import pytest

from dw_core.routes.catalogue import ROUTES, match, plane_of, route
from dw_core.routes.matching import Matched, MethodNotAllowed, NotFound, Table
from dw_core.routes.route import Plane, Route


def test_every_route_is_found_by_its_own_path_and_gets_its_parameters_back() -> None:
    for entry in ROUTES:
        names = re.findall(r"{(\w+)}", entry.path)
        found = match(entry.method, re.sub(r"{(\w+)}", r"value-of-\1", entry.path))
        assert isinstance(found, Matched), entry.path
        assert found.route is entry
        assert dict(found.params) == {name: f"value-of-{name}" for name in names}


def test_names_are_unique_snake_case() -> None:
    names = [entry.name for entry in ROUTES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


def test_worker_routes_need_matching_and_control_routes_need_ingress_and_control_plane() -> None:
    expected = {Plane.WORKER: ("matching",), Plane.CONTROL: ("api_ingress", "control_plane"), Plane.DISCOVERY: ()}
    for entry in ROUTES:
        assert entry.required_roles == expected[entry.plane], entry.name
        assert plane_of(entry.path) is entry.plane, entry.name


def test_discovery_passes_no_gate() -> None:
    for name in ("livez", "health", "ready", "cluster_info"):
        entry = route(name)
        assert (entry.version_gate, entry.bootstrap_gate, entry.namespace_gate) == (False, False, False)
    assert route("health").principals == ()
    assert route("cluster_info").principals == ("worker", "operator", "admin")


def test_the_bootstrap_gate_covers_workers_workflows_and_schedule_mutations_but_not_schedule_reads() -> None:
    for entry in ROUTES:
        if entry.path.startswith(("/api/workflows", "/api/worker/", "/api/activities", "/api/bridge-adapters")):
            assert entry.bootstrap_gate, entry.name
        if entry.path.startswith("/api/schedules"):
            assert entry.bootstrap_gate is (entry.method != "GET"), entry.name
        if entry.path.startswith(("/api/namespaces", "/api/workers", "/api/system", "/api/search-attributes")):
            assert not entry.bootstrap_gate, entry.name


def test_only_namespace_routes_and_discovery_skip_the_namespace_check() -> None:
    for entry in ROUTES:
        skips = entry.plane is Plane.DISCOVERY or entry.path.startswith(("/api/namespaces", "/api/system/audit"))
        assert entry.namespace_gate is not skips, entry.name


def test_system_and_namespace_mutations_are_for_admins() -> None:
    for entry in ROUTES:
        if entry.path.startswith("/api/system/") or (
            entry.path.startswith("/api/namespaces") and entry.method != "GET"
        ):
            assert entry.principals == ("admin",), entry.name
    assert route("worker_remove").principals == ("admin",)
    assert route("workflow_start").principals == ("operator", "admin")


def test_both_forms_of_a_command_carry_the_same_operation() -> None:
    for command in ("signal", "query", "update", "cancel", "terminate", "repair", "archive"):
        assert route(f"workflow_{command}").operation == command
        assert route(f"workflow_run_{command}").operation == command


def test_the_bearer_of_an_encoded_slash_is_one_segment_decoded_once() -> None:
    found = match("GET", "/api/workflows/a%2Fb%2525")
    assert isinstance(found, Matched)
    assert found.params == {"workflow_id": "a/b%25"}


def test_a_parameter_that_is_not_utf8_matches_nothing() -> None:
    assert match("GET", "/api/workflows/%ff") == NotFound()


def test_an_empty_segment_is_no_parameter() -> None:
    assert match("GET", "/api/workflows/") == NotFound()
    assert match("GET", "/api/workflows//runs") == NotFound()


def test_a_workflow_may_be_called_like_a_fixed_segment() -> None:
    found = match("GET", "/api/workflows/import/runs")
    assert isinstance(found, Matched)
    assert (found.route.name, found.params) == ("workflow_runs", {"workflow_id": "import"})


def test_a_wrong_method_names_the_methods_of_the_path() -> None:
    assert match("PATCH", "/api/workflows") == MethodNotAllowed(("GET", "POST"))
    assert match("GET", "/api/worker/workflow-tasks/t1/complete") == MethodNotAllowed(("POST",))


def test_head_is_answered_by_the_get_route() -> None:
    found = match("HEAD", "/api/health")
    assert isinstance(found, Matched)
    assert found.route.name == "health"


@pytest.mark.parametrize("path", ["/api/nothing", "/", "", "api/health", "/api/health/", "/api/workerregister"])
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert match("GET", path) == NotFound()


def test_an_unknown_worker_path_still_belongs_to_the_worker_plane() -> None:
    assert plane_of("/api/worker/nothing") is Plane.WORKER
    assert plane_of("/api/workers") is Plane.CONTROL


def test_two_routes_with_one_method_and_path_are_refused() -> None:
    entry = Route(method="GET", path="/a/{x}", name="one", plane=Plane.CONTROL)
    with pytest.raises(ValueError, match="two routes answer GET /a/"):
        Table([entry, Route(method="GET", path="/a/{y}", name="two", plane=Plane.CONTROL)])
