"""The twelve checks of coordination health and the documents made of them (topology §3.4)."""

from __future__ import annotations

from dw_core.coordination.counters import (
    ActivityPath,
    BackendCapabilities,
    CoordinationCounters,
    MatchingFacts,
    SchedulerRole,
    TaskTransport,
    WakeAcceleration,
    WorkerCompatibility,
)
from dw_core.coordination.health import blocked_health, evaluated_health, workflow_v2_check

FACTS = MatchingFacts(
    queue_wake_enabled=True, matching_shape="in_worker", wake_owner="worker_loop", task_dispatch_mode="poll"
)
NAMES = [
    "backend_capabilities",
    "run_summary_projection",
    "selected_run_projections",
    "history_retention_invariant",
    "command_contract_snapshots",
    "task_transport",
    "activity_path",
    "routing_health",
    "durable_resume_paths",
    "worker_compatibility",
    "scheduler_role",
    "long_poll_wake_acceleration",
]
NOW = "2026-11-30T10:00:00.000000Z"


def test_nothing_wrong_is_ok_with_twelve_checks_in_the_frozen_order() -> None:
    document = evaluated_health(CoordinationCounters(), FACTS, generated_at=NOW)
    assert [check["name"] for check in document["checks"]] == NAMES
    assert (document["status"], document["http_status"], document["version"]) == ("ok", 200, 2)
    assert document["categories"] == {
        "correctness": {"status": "ok", "check_count": 11},
        "acceleration": {"status": "ok", "check_count": 1},
    }
    assert document["routing_drains"]["queues"] == ()


def test_counters_above_zero_warn_and_name_their_checks() -> None:
    counters = CoordinationCounters(
        tasks=TaskTransport(unhealthy_tasks=2, dispatch_overdue_tasks=2),
        activities=ActivityPath(timeout_overdue=1),
        schedules=SchedulerRole(missed=3),
        wake=WakeAcceleration(multi_node=True, backend="none"),
    )
    document = evaluated_health(counters, FACTS, generated_at=NOW)
    assert document["warning_checks"] == [
        "task_transport",
        "activity_path",
        "routing_health",
        "scheduler_role",
        "long_poll_wake_acceleration",
    ]
    assert (document["status"], document["http_status"], document["error_checks"]) == ("warning", 200, [])
    routing = next(check for check in document["checks"] if check["name"] == "routing_health")
    assert routing["data"]["dispatch_overdue_tasks"] == 2
    assert routing["data"]["wake_owner"] == "worker_loop"


def test_a_lacking_backend_is_an_error() -> None:
    backend = BackendCapabilities(severity="error", issue_count=1, issues=("skip_locked",))
    document = evaluated_health(CoordinationCounters(backend=backend), FACTS, generated_at=NOW)
    assert (document["status"], document["http_status"]) == ("error", 503)
    assert document["error_checks"] == ["backend_capabilities"]


def test_a_missing_compatible_worker_is_an_error_only_in_mode_fail() -> None:
    warned = workflow_v2_check(
        BackendCapabilities(), WorkerCompatibility(required_compatibility="b7"), generated_at=NOW
    )
    assert (warned["status"], warned["warning_checks"]) == ("warning", ["worker_compatibility"])
    strict = WorkerCompatibility(required_compatibility="b7", validation_mode="fail")
    failed = workflow_v2_check(BackendCapabilities(), strict, generated_at=NOW)
    assert (failed["status"], failed["http_status"]) == ("error", 503)
    assert all("data" not in check for check in failed["checks"])


def test_a_blocked_node_names_what_blocks_it() -> None:
    document = blocked_health(["database"], generated_at=NOW)
    assert (document["status"], document["http_status"], document["checks"]) == ("blocked", 503, [])
    assert document["blocked_by"] == ["database"]
    assert document["routing_drains"]["queues_with_drains"] == 0
