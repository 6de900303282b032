"""The four timeouts of an activity: what they count from, their precedence, and which are retried."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dw_core.engine.inputs import SweepTask
from dw_core.engine.rows import TaskKind
from tests.unit.engine.commands import activity, retrying
from tests.unit.engine.world import World, accepted, rejected


def scheduled(**fields: Any) -> tuple[World, str]:
    """A world whose run has one activity pending."""
    world = World()
    run_id = world.start()
    world.decide_with(activity(**fields))
    return world, run_id


@pytest.mark.parametrize(
    ("fields", "is_claimed", "kind"),
    [
        ({"schedule_to_start_timeout": 10}, False, "schedule_to_start"),
        ({"schedule_to_close_timeout": 10}, False, "schedule_to_close"),
        ({"schedule_to_close_timeout": 10}, True, "schedule_to_close"),
        ({"start_to_close_timeout": 10}, True, "start_to_close"),
        ({"heartbeat_timeout": 10}, True, "heartbeat"),
        ({"heartbeat_timeout": 10, "start_to_close_timeout": 10}, True, "heartbeat"),
        ({"start_to_close_timeout": 10, "schedule_to_close_timeout": 10}, True, "schedule_to_close"),
        ({"schedule_to_start_timeout": 10, "schedule_to_close_timeout": 10}, False, "schedule_to_close"),
    ],
)
def test_a_passed_deadline_ends_the_activity_and_wakes_the_run(
    fields: dict[str, int], is_claimed: bool, kind: str
) -> None:
    world, run_id = scheduled(**fields)
    if is_claimed:
        world.claim_activity()
    world.later(9.999999)
    assert world.sweep() == []
    world.later(0.000001)
    ended = {"outcome": "timed_out", "timeout_kind": kind, "has_retry": False}
    assert [accepted(reply) for reply in world.sweep()] == [ended]
    event = world.events(run_id)[-1]
    payload = event["payload"]
    assert event["event_type"] == "ActivityTimedOut"
    assert (payload["timeout_kind"], payload["failure_category"]) == (kind, "timeout")
    assert (payload["exception_type"], payload["message"]) == ("ActivityTimedOut", f"Activity timed out: {kind}.")
    assert payload["exception"] == {"type": "ActivityTimedOut", "message": f"Activity timed out: {kind}."}
    assert world.activity(run_id, 1).status == "failed"
    assert world.tasks(run_id, TaskKind.ACTIVITY) == []
    assert world.workflow_task(run_id) is not None


def test_the_terminal_event_names_the_deadlines() -> None:
    world, run_id = scheduled(heartbeat_timeout=10, start_to_close_timeout=20, schedule_to_close_timeout=30)
    world.claim_activity()
    world.later(30)
    world.sweep()
    payload = world.events(run_id)[-1]["payload"]
    assert payload["timeout_kind"] == "schedule_to_close"
    assert payload["heartbeat_deadline_at"] == "2026-11-30T18:00:10.000000Z"
    assert payload["close_deadline_at"] == "2026-11-30T18:00:20.000000Z"
    assert payload["schedule_to_close_deadline_at"] == "2026-11-30T18:00:30.000000Z"


@pytest.mark.parametrize("field", ["schedule_to_start_timeout", "start_to_close_timeout", "heartbeat_timeout"])
def test_timeouts_of_an_attempt_are_retried_until_the_attempts_are_used_up(field: str) -> None:
    world, run_id = scheduled(**{field: 10, "retry_policy": retrying(3, 5)})
    for attempt in (1, 2, 3):
        if field != "schedule_to_start_timeout":
            assert world.claim_activity().task.attempt == attempt
        world.later(10)
        world.sweep()
        world.later(5)
    assert world.types(run_id).count("ActivityRetryScheduled") == 2
    assert world.types(run_id)[-1] == "ActivityTimedOut"
    rows = world.memory.of_run("attempts", run_id)
    assert [(row["attempt"], row["status"]) for row in rows] == [(1, "failed"), (2, "failed"), (3, "failed")]
    assert world.activity(run_id, 1).attempt_count == 3


def test_an_attempt_after_one_that_nobody_started_has_the_next_number() -> None:
    world, run_id = scheduled(schedule_to_start_timeout=10, retry_policy=retrying(2))
    world.later(10)
    world.sweep()
    task = world.claim_activity().task
    assert task.attempt == 2
    accepted(world.complete_activity(task))
    assert world.activity(run_id, 1).attempt_count == 2


def test_a_retry_counts_the_time_to_start_from_the_end_of_its_pause() -> None:
    world, run_id = scheduled(schedule_to_start_timeout=10, retry_policy=retrying(3, 60))
    world.fail_activity(world.claim_activity().task)
    (retry,) = world.tasks(run_id)
    assert retry.schedule_to_start_at == world.now + timedelta(seconds=70)


def test_the_time_to_close_counts_from_the_schedule_across_attempts() -> None:
    world, run_id = scheduled(schedule_to_close_timeout=100, retry_policy=retrying(None, 30))
    for _ in range(3):
        world.fail_activity(world.claim_activity().task)
        world.later(30)
    (retry,) = world.tasks(run_id)
    assert retry.schedule_to_close_at == world.now + timedelta(seconds=10)
    world.later(10)
    world.sweep()
    assert world.types(run_id)[-1] == "ActivityTimedOut"


def test_a_retry_that_could_only_start_after_the_close_deadline_times_out_at_once() -> None:
    world, run_id = scheduled(schedule_to_close_timeout=30, retry_policy=retrying(None, 30))
    reply = accepted(world.fail_activity(world.claim_activity().task))
    assert reply["outcome"] == "failed"
    event = world.events(run_id)[-1]
    assert (event["event_type"], event["payload"]["timeout_kind"]) == ("ActivityTimedOut", "schedule_to_close")
    assert world.workflow_task(run_id) is not None


@pytest.mark.parametrize("report", [World.complete_activity, World.fail_activity])
def test_a_report_after_a_passed_deadline_times_the_attempt_out_and_is_stale(report: Any) -> None:
    world, run_id = scheduled(start_to_close_timeout=10)
    task = world.claim_activity().task
    world.later(10)
    refusal = rejected(report(world, task))
    assert (refusal.reason, refusal.fields["recorded"]) == ("stale_attempt", False)
    assert world.types(run_id)[-1] == "ActivityTimedOut"
    image = world.memory.image()
    assert rejected(report(world, task)).reason == "stale_attempt"
    assert world.memory.image() == image


def test_a_redelivered_activity_counts_its_time_to_start_again() -> None:
    world, run_id = scheduled(schedule_to_start_timeout=10)
    world.claim_activity()
    world.later(300)
    world.sweep()
    (task,) = world.tasks(run_id)
    assert task.schedule_to_start_at == world.now + timedelta(seconds=10)
    assert (task.start_to_close_at, task.heartbeat_at) == (None, None)


def test_a_sweep_that_comes_too_late_changes_nothing() -> None:
    world, run_id = scheduled(heartbeat_timeout=10)
    task = world.claim_activity().task
    world.later(10)
    found = world.due()
    world.later(-1)
    world.heartbeat_activity(task)
    world.later(1)
    image = world.memory.image()
    assert rejected(world.submit(found[0])).reason == "task_not_leased"
    accepted(world.complete_activity(task))
    assert rejected(world.submit(found[0])).reason == "task_not_found"
    assert image != world.memory.image()
    assert rejected(world.submit(SweepTask(run_id=world.new_id(), task_number=1))).reason == "task_not_found"
    assert world.types(run_id)[-1] == "ActivityCompleted"


def test_an_overdue_task_is_not_handed_out() -> None:
    world, run_id = scheduled(schedule_to_start_timeout=10)
    world.later(10)
    assert world.poll(TaskKind.ACTIVITY) == []
    assert rejected(world.claim_by_id(run_id, 2)).reason == "task_not_claimable"
