"""Cluster info: the published envelope, and what the SDK insists on before it starts a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from dw_core.discovery.coordination import CHECKS, Blocked, Check, coordination_health
from dw_core.discovery.envelope import DynamicParts, NodeIdentity, cluster_info, static_parts
from dw_core.discovery.fleet import FleetWorker, worker_fleet
from dw_core.discovery.repair import task_repair
from dw_core.limits import (
    Limits,
    history_budget,
    pending_activities_max,
    pending_children_max,
    request_limits,
    structural_limits,
)
from dw_core.protocol.capabilities import server_capabilities
from dw_core.topology.manifest import DiscoveryLimits, manifest
from dw_core.topology.roles import Shape

SCHEMA = json.loads((Path(__file__).parent / "data" / "cluster-info-envelope.schema.json").read_text())
NOW = "2026-11-30T18:00:00.000000Z"
WORKER = FleetWorker(worker_id="py-1", queues=["orders"], build_ids=["b1"], recorded_at=NOW, expires_at=NOW)


def document(namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    static = static_parts(
        NodeIdentity(server_id="node-1", version="0.1.0", default_namespace="default"),
        topology=manifest(Shape.STANDALONE_SERVER, "server_http_node", queue_wake=True, limits=DiscoveryLimits()),
        server_capabilities=server_capabilities(),
    )
    dynamic = DynamicParts(
        coordination_health=coordination_health({}, generated_at=NOW),
        worker_fleet=worker_fleet("default", [WORKER]),
        task_repair=task_repair(),
        namespace=namespace,
    )
    built: dict[str, Any] = json.loads(json.dumps(cluster_info(static, dynamic)))
    return built


def violations(built: dict[str, Any]) -> set[str]:
    """Paths that break the envelope schema; sibling schemas of other catalogue entries are not part of it."""
    siblings: dict[str, Any] = {
        "worker-sessions-runtime.schema.json": {"$defs": {"workerSessionRuntimeContract": True}},
        "local-activity-runtime.schema.json": {"$defs": {"localActivityRuntimeContract": True}},
    }
    registry: Registry[Any] = Registry()
    for name, content in siblings.items():
        whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}
        registry = registry.with_resource(f"https://specs.invalid/{name}", Resource.from_contents(whole))
    schema = {**SCHEMA, "$id": "https://specs.invalid/cluster-info-envelope.schema.json"}
    found = Draft202012Validator(schema, registry=registry).iter_errors(built)
    return {".".join(str(part) for part in error.absolute_path) or error.message for error in found}


def test_the_document_follows_the_envelope_but_for_the_three_deliberate_differences() -> None:
    assert violations(document()) == {
        "control_plane.version",
        "worker_protocol.version",
        "worker_fleet.active_worker_scopes",
    }


def test_the_schema_test_notices_a_missing_key() -> None:
    built = document()
    del built["task_repair"]
    assert any("task_repair" in text for text in violations(built))


def test_the_sdk_finds_everything_it_checks_before_it_starts_a_worker() -> None:
    built = document()
    control, worker, auth = built["control_plane"], built["worker_protocol"], built["auth_composition_contract"]
    assert control["version"] == "2"
    assert control["request_contract"]["schema"] == "durable-workflow.v2.control-plane-request.contract"
    assert control["request_contract"]["version"] == 1
    update = control["request_contract"]["operations"]["update"]
    assert update["fields"]["wait_for"]["canonical_values"] == ["accepted", "completed"]
    assert worker["version"] == "1.20"
    assert worker["server_capabilities"] == server_capabilities()
    assert (auth["schema"], auth["version"]) == ("durable-workflow.v2.auth-composition.contract", 1)
    assert isinstance(auth["precedence"]["connection_values"], list)
    assert isinstance(auth["precedence"]["profile_selection"], list)
    assert auth["canonical_environment"] == {
        "server_url": "DURABLE_WORKFLOW_SERVER_URL",
        "namespace": "DURABLE_WORKFLOW_NAMESPACE",
        "auth_token": "DURABLE_WORKFLOW_AUTH_TOKEN",
        "tls_verify": "DURABLE_WORKFLOW_TLS_VERIFY",
        "profile": "DW_ENV",
    }
    token = auth["auth_material"]["token"]
    assert (token["status"], token["effective_config_value"]) == ("supported", "redacted")
    assert auth["auth_material"]["mtls"] == auth["auth_material"]["signed_headers"] == {"status": "reserved"}
    required = {"server_url", "namespace", "profile", "auth", "tls", "identity"}
    assert required <= set(auth["effective_config"]["required_fields"])
    never = {"bearer_tokens", "private_keys", "raw_authorization_headers"}
    assert never <= set(auth["redaction"]["never_echo"])
    assert built["capabilities"]["payload_codecs"] == ["avro"]


def test_nothing_looks_like_a_reference_and_only_a_policy_promises_a_transport() -> None:
    text = json.dumps(document())
    assert '"external_payload":' not in text
    assert "external_payload_storage" not in text


def test_an_unknown_namespace_is_left_out() -> None:
    assert "namespace" not in document()
    assert document({"name": "default"})["namespace"] == {"name": "default"}


def test_the_verdict_is_the_worst_check_and_the_checks_keep_their_order() -> None:
    checks = {"scheduler_role": Check(status="warning"), "backend_capabilities": Check(status="error", message="x")}
    health = coordination_health(checks, generated_at=NOW)
    assert (health["status"], health["http_status"]) == ("error", 503)
    assert [check["name"] for check in health["checks"]] == list(CHECKS)
    assert (health["warning_checks"], health["error_checks"]) == (["scheduler_role"], ["backend_capabilities"])
    assert health["categories"] == {
        "correctness": {"status": "error", "check_count": 11},
        "acceleration": {"status": "ok", "check_count": 1},
    }
    assert health["routing_drains"]["queues"] == []


def test_a_blocked_server_says_why() -> None:
    blocked = Blocked(blocked_by=["migrations"], message="Migrations are outstanding.", remediation="Run them.")
    health = coordination_health({}, generated_at=NOW, blocked=blocked)
    assert (health["status"], health["http_status"], health["blocked_by"]) == ("blocked", 503, ["migrations"])
    assert "blocked_by" not in coordination_health({}, generated_at=NOW)


def test_a_check_needs_a_published_name() -> None:
    with pytest.raises(AssertionError):
        coordination_health({"mood": Check()}, generated_at=NOW)


def test_the_fleet_lists_at_most_a_hundred_workers() -> None:
    many = [
        FleetWorker(worker_id=f"w{n}", queues=["q", "r"], build_ids=[], recorded_at=NOW, expires_at=NOW)
        for n in range(101)
    ]
    fleet = worker_fleet("default", many)
    assert (fleet["active_workers"], fleet["active_worker_scopes"]) == (101, 202)
    assert (len(fleet["workers"]), fleet["workers_truncated"]) == (100, True)
    assert fleet["queues"] == ["q", "r"]


def test_limits_are_published_with_their_defaults() -> None:
    assert request_limits() == {
        "max_payload_bytes": 2097152,
        "max_memo_bytes": 262144,
        "max_search_attributes": 100,
        "max_search_attribute_key_length": 128,
        "max_search_attribute_value_bytes": 2048,
        "max_operation_name_length": 256,
        "max_pending_activities": 2000,
        "max_pending_children": 2000,
    }
    assert structural_limits() == {
        "pending_activity_count": 2000,
        "pending_child_count": 1000,
        "pending_timer_count": 2000,
        "pending_signal_count": 5000,
        "pending_update_count": 500,
        "command_batch_size": 1000,
        "payload_size_bytes": 2097152,
        "memo_size_bytes": 262144,
        "search_attribute_size_bytes": 40960,
        "history_transaction_size": 5000,
        "warning_threshold_percent": 80,
    }
    assert history_budget()["event_threshold"] == 10000


def test_the_lower_of_two_published_bounds_is_enforced_and_zero_means_none() -> None:
    assert (pending_children_max(), pending_activities_max()) == (1000, 2000)
    assert pending_children_max(Limits(pending_child_count=0)) == 2000
    assert pending_children_max(Limits(pending_child_count=0, max_pending_children=0)) == 0
