"""Attempts of an activity: the guard, retries, heartbeats, status."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.payloads.codec import encode_blob
from tests.unit.engine.commands import activity, envelope, retrying
from tests.unit.engine.world import Reply, World, accepted, rejected

Call = Callable[..., Reply]


@pytest.fixture
def world() -> World:
    return World()


def running(world: World, **fields: Any) -> Task:
    """The leased task of the first attempt of a run's only activity."""
    world.start()
    world.decide_with(activity(**fields))
    return world.claim_activity().task


CALLS: list[Call] = [
    World.complete_activity,
    World.fail_activity,
    World.heartbeat_activity,
    World.check_activity,
    World.renew_activity_lease,
]


@pytest.fixture(params=CALLS, ids=lambda call: str(call.__name__))
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task_number": 99}, "task_not_found"),
        ({"namespace": "other"}, "task_not_found"),
        ({"attempt": 2}, "attempt_not_found"),
        ({"sequence": 2}, "attempt_not_found"),
        ({"task_number": 1}, "task_mismatch"),
        ({"lease_owner": "stranger"}, "lease_owner_mismatch"),
    ],
)
def test_a_report_that_does_not_fit_is_refused_and_changes_nothing(
    world: World, call: Call, changes: dict[str, Any], reason: str
) -> None:
    task = running(world)
    image = world.memory.image()
    refusal = rejected(call(world, task, **changes))
    assert refusal.reason == reason
    assert refusal.fields["activity_attempt_id"].startswith(f"{task.run_id}.a")
    assert refusal.fields.get("lease_owner") == ("worker" if reason == "lease_owner_mismatch" else None)
    assert world.memory.image() == image


@pytest.mark.parametrize("report", [World.complete_activity, World.fail_activity])
def test_the_same_report_again_gets_the_stored_answer_and_changes_nothing(world: World, report: Call) -> None:
    task = running(world, retry_policy=retrying(2))
    reply = accepted(report(world, task))
    image = world.memory.image()
    assert report(world, task) == reply
    assert world.memory.image() == image


def test_the_other_report_on_a_closed_attempt_is_stale(world: World) -> None:
    task = running(world)
    accepted(world.complete_activity(task))
    refusal = rejected(world.fail_activity(task))
    assert refusal.reason == "stale_attempt"
    assert refusal.fields == {
        "task_id": f"{task.run_id}.t2",
        "activity_attempt_id": f"{task.run_id}.a1.1",
        "outcome": "failed",
        "recorded": False,
        "cancel_requested": False,
        "can_continue": False,
        "run_status": "waiting",
        "run_closed_reason": None,
        "run_closed_at": None,
        "activity_status": "completed",
        "attempt_status": "completed",
        "task_status": "closed",
        "lease_owner": "worker",
        "lease_expires_at": None,
    }
    assert rejected(world.complete_activity(task, lease_owner="stranger")).reason == "lease_owner_mismatch"


def test_a_report_on_a_terminated_run_is_ignored_with_the_reason(world: World) -> None:
    task = running(world)
    world.terminate()
    refusal = rejected(world.complete_activity(task))
    assert refusal.reason == "run_terminated"
    assert (refusal.fields["outcome"], refusal.fields["cancel_requested"]) == ("ignored", True)
    assert (refusal.fields["activity_status"], refusal.fields["attempt_status"]) == ("cancelled", "cancelled")


def test_a_failure_is_recorded_with_its_neutral_fields(world: World) -> None:
    task = running(world)
    failure = {
        "message": "declined",
        "type": "CardDeclined",
        "class": "billing.CardDeclined",
        "code": 402,
        "non_retryable": True,
        "details": envelope({"k": 2}),
        "stack_trace": "secret",
        "diagnostics": {"line": 3},
    }
    world.fail_activity(task, failure)
    payload = world.events(task.run_id)[-1]["payload"]
    assert payload == {
        "sequence": 1,
        "activity_type": "work",
        "activity_execution_id": f"{task.run_id}.a1",
        "activity_attempt_id": f"{task.run_id}.a1.1",
        "attempt_number": 1,
        "failure_id": f"{task.run_id}.a1.f",
        "failure_category": "activity",
        "non_retryable": True,
        "exception_type": "CardDeclined",
        "exception_class": "billing.CardDeclined",
        "message": "declined",
        "code": 402,
        "exception": {
            "type": "CardDeclined",
            "message": "declined",
            "code": 402,
            "non_retryable": True,
            "details": {"codec": "avro", "blob": encode_blob({"k": 2})},
            "details_payload_codec": "avro",
            "diagnostics": {"line": 3},
        },
    }


def test_without_a_policy_there_is_one_attempt(world: World) -> None:
    task = running(world)
    world.fail_activity(task)
    assert world.types(task.run_id)[-1] == "ActivityFailed"
    assert world.workflow_task(task.run_id) is not None


def test_a_retry_is_a_new_task_after_its_pause_and_no_wake(world: World) -> None:
    task = running(world, retry_policy=retrying(3, 5))
    reply = accepted(world.fail_activity(task))
    assert reply["next_task_id"] == f"{task.run_id}.t3"
    (retry,) = world.tasks(task.run_id)
    assert (retry.task_number, retry.attempt, retry.state) == (3, 1, TaskState.READY)
    assert retry.available_at == world.now + timedelta(seconds=5)
    assert world.activity(task.run_id, 1).attempt_count == 1
    assert world.events(task.run_id)[-1]["payload"] == {
        "activity_execution_id": f"{task.run_id}.a1",
        "activity_attempt_id": f"{task.run_id}.a1.1",
        "activity_type": "work",
        "sequence": 1,
        "retry_task_id": f"{task.run_id}.t3",
        "retry_of_task_id": f"{task.run_id}.t2",
        "retry_available_at": "2026-11-30T18:00:05.000000Z",
        "retry_backoff_seconds": 5,
        "retry_after_attempt_id": f"{task.run_id}.a1.1",
        "retry_after_attempt": 1,
        "max_attempts": 3,
        "retry_policy": {"max_attempts": 3, "backoff_seconds": [5], "non_retryable_error_types": []},
        "failure_category": "activity",
        "exception_type": "ValueError",
        "message": "no",
        "exception": {"type": "ValueError", "message": "no"},
    }
    assert world.poll(TaskKind.ACTIVITY) == []
    world.later(5)
    assert world.claim_activity().task.attempt == 2


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        (retrying(4, 1, 5), [1, 5, 5]),
        (retrying(3), [0, 0]),
        (retrying(1, 7), []),
        ({}, [0] * 20),
        ({"backoff_seconds": [2]}, [2] * 20),
    ],
)
def test_retries_follow_the_policy(world: World, policy: dict[str, Any], pauses: list[int]) -> None:
    task = running(world, retry_policy=policy)
    seen: list[float] = []
    while len(seen) < 20:
        world.fail_activity(task)
        tasks = world.tasks(task.run_id, TaskKind.ACTIVITY)
        if not tasks:
            break
        seen.append((tasks[0].available_at - world.now).total_seconds())
        world.later(seen[-1])
        task = world.claim_activity().task
    assert seen == pauses


@pytest.mark.parametrize(
    "failure",
    [
        {"message": "no", "non_retryable": True},
        {"message": "no", "retryable": False},
        {"message": "no", "type": "CardDeclined"},
        {"message": "no", "type": "X", "class": "CardDeclined"},
    ],
)
def test_a_failure_that_must_not_be_retried_is_final(world: World, failure: dict[str, Any]) -> None:
    task = running(world, retry_policy=retrying(None, 1, types=["CardDeclined"]))
    world.fail_activity(task, failure)
    assert world.types(task.run_id)[-1] == "ActivityFailed"


def test_a_report_after_the_lease_has_expired_wins_until_a_sweep(world: World) -> None:
    task = running(world)
    world.later(1000)
    accepted(world.complete_activity(task, "late"))
    assert world.types(task.run_id)[-1] == "ActivityCompleted"


def test_a_report_after_the_sweep_is_stale_and_the_task_is_out_again(world: World) -> None:
    task = running(world)
    world.later(300)
    world.sweep()
    refusal = rejected(world.complete_activity(task))
    assert (refusal.reason, refusal.fields["attempt_status"]) == ("stale_attempt", "expired")
    assert refusal.fields["activity_status"] == "pending"
    stopped = accepted(world.heartbeat_activity(task))
    assert (stopped["can_continue"], stopped["reason"]) == (False, "attempt_closed")
    again = world.claim_activity("second").task
    assert (again.task_number, again.attempt) == (task.task_number, 2)
    assert rejected(world.complete_activity(task)).reason == "stale_attempt"
    accepted(world.complete_activity(again))


def test_a_late_report_is_told_that_the_next_attempt_is_running(world: World) -> None:
    task = running(world, retry_policy=retrying(2))
    world.fail_activity(task)
    world.claim_activity()
    refusal = rejected(world.complete_activity(task))
    assert (refusal.reason, refusal.fields["activity_status"]) == ("stale_attempt", "running")


def test_lost_leases_never_use_up_the_activity(world: World) -> None:
    task = running(world, retry_policy=retrying(2))
    for attempt in range(2, 6):
        world.later(300)
        world.sweep()
        task = world.claim_activity().task
        assert task.attempt == attempt
    rows = world.memory.of_run("attempts", task.run_id)
    assert [row["status"] for row in rows] == ["expired"] * 4
    accepted(world.fail_activity(task))
    assert world.types(task.run_id)[-1] == "ActivityFailed"
    assert world.activity(task.run_id, 1).attempt_count == 5


def test_a_lease_is_as_long_as_the_attempt_may_take(world: World) -> None:
    task = running(world, start_to_close_timeout=1000)
    assert task.lease_expires_at == world.now + timedelta(seconds=1000)
    assert running_lease(World(), start_to_close_timeout=10) == 300


def running_lease(world: World, **fields: Any) -> float:
    """The seconds of a first lease."""
    task = running(world, **fields)
    assert task.lease_expires_at is not None
    return (task.lease_expires_at - world.now).total_seconds()


def test_a_heartbeat_renews_the_lease_and_its_own_deadline_only(world: World) -> None:
    task = running(world, heartbeat_timeout=10, start_to_close_timeout=60)
    world.later(9)
    reply = accepted(world.heartbeat_activity(task, {"done": 3}))
    assert reply == {
        "task_id": f"{task.run_id}.t2",
        "activity_attempt_id": f"{task.run_id}.a1.1",
        "lease_owner": "worker",
        "can_continue": True,
        "cancel_requested": False,
        "reason": None,
        "heartbeat_recorded": True,
        "run_closed_reason": None,
        "run_closed_at": None,
        "worker_session": None,
        "lease_expires_at": "2026-11-30T18:05:09.000000Z",
        "last_heartbeat_at": "2026-11-30T18:00:09.000000Z",
    }
    (stored,) = world.tasks(task.run_id)
    assert stored.heartbeat_at == world.now + timedelta(seconds=10)
    assert stored.start_to_close_at == world.now + timedelta(seconds=51)
    payload = world.events(task.run_id)[-1]["payload"]
    assert (payload["attempt_number"], payload["progress"]) == (1, {"done": 3})


def test_history_keeps_a_heartbeat_a_minute(world: World) -> None:
    task = running(world)
    for _ in range(10):
        accepted(world.heartbeat_activity(task))
        world.later(20)
    beats = [e["payload"]["heartbeat_at"] for e in world.events(task.run_id)[4:]]
    assert [beat[11:19] for beat in beats] == ["18:00:00", "18:01:00", "18:02:00", "18:03:00"]


def test_progress_is_handed_to_the_next_attempt(world: World) -> None:
    task = running(world, retry_policy=retrying(3))
    world.heartbeat_activity(task, {"done": 3})
    world.heartbeat_activity(task)
    world.fail_activity(task)
    assert world.claim_activity().task.heartbeat_details == {"done": 3}
    world.later(300)
    world.sweep()
    assert world.claim_activity().task.heartbeat_details == {"done": 3}


def test_the_status_of_a_running_attempt_changes_nothing(world: World) -> None:
    task = running(world, heartbeat_timeout=10, schedule_to_close_timeout=100)
    image = world.memory.image()
    reply = accepted(world.check_activity(task))
    assert (reply["can_continue"], reply["heartbeat_recorded"]) == (True, False)
    assert (reply["run_status"], reply["activity_status"]) == ("waiting", "running")
    assert (reply["attempt_status"], reply["task_status"]) == ("running", "leased")
    assert reply["deadlines"] == {
        "schedule_to_close": "2026-11-30T18:01:40.000000Z",
        "heartbeat": "2026-11-30T18:00:10.000000Z",
    }
    assert world.memory.image() == image


@pytest.mark.parametrize(("seconds", "reason"), [(10, "activity_not_running"), (300, "task_not_leased")])
def test_the_status_says_stop_once_a_deadline_or_the_lease_has_passed(world: World, seconds: int, reason: str) -> None:
    task = running(world, **({"heartbeat_timeout": 10} if seconds == 10 else {}))
    world.later(seconds)
    reply = accepted(world.check_activity(task))
    assert (reply["can_continue"], reply["cancel_requested"], reply["reason"]) == (False, False, reason)


def test_a_heartbeat_after_a_passed_deadline_stops_the_attempt(world: World) -> None:
    task = running(world, heartbeat_timeout=10)
    world.later(10)
    image = world.memory.image()
    reply = accepted(world.heartbeat_activity(task))
    assert (reply["can_continue"], reply["reason"]) == (False, "activity_not_running")
    assert world.memory.image() == image
