"""Claiming by poll and by id, and giving leases back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dw_core.engine.inputs import RecoverLeases, ReleaseClaim
from dw_core.engine.rows import Task, TaskKind, TaskState
from tests.unit.engine.commands import activity, finish, retrying
from tests.unit.engine.world import NAMESPACE, World, accepted, poll, rejected


@pytest.fixture
def world() -> World:
    return World()


def test_a_workflow_claim_remembers_how_much_history_its_worker_sees(world: World) -> None:
    run_id = world.start()
    claimed = world.claim_workflow()
    task = claimed.task
    assert (task.state, task.attempt, task.lease_owner) == (TaskState.LEASED, 1, "worker")
    assert (task.leased_at, task.lease_expires_at) == (world.now, world.now + timedelta(seconds=300))
    assert (task.claimed_history_sequence, task.sweep_at) == (2, task.lease_expires_at)
    assert world.workflow_task(run_id) == task
    assert claimed.arguments == world.memory.details[run_id]["arguments"]
    assert claimed.history.events == ",".join(row["body"] for row in world.memory.of_run("events", run_id)).encode()


def test_polls_take_due_tasks_by_priority_and_age(world: World) -> None:
    runs = [world.start("late", priority=9), world.start("first", priority=1)]
    world.later(1)
    runs.append(world.start("second", priority=1))
    claimed = world.poll(TaskKind.WORKFLOW, slots=5)
    assert [found.run.workflow_id for found in claimed] == ["first", "second", "late"]
    assert world.poll(TaskKind.WORKFLOW) == []
    assert len(runs) == 3


def test_activities_of_one_run_are_claimed_in_one_pass(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    claimed = world.poll(TaskKind.ACTIVITY, slots=3)
    assert [found.task.task_type for found in claimed] == ["a", "b"]
    assert world.types(run_id)[-2:] == ["ActivityStarted", "ActivityStarted"]


def test_a_task_that_is_opened_while_a_poll_waits_is_leased_in_the_same_transaction(world: World) -> None:
    world.held = [poll(TaskKind.WORKFLOW), poll(TaskKind.ACTIVITY), poll(TaskKind.WORKFLOW)]
    run_id = world.start()
    (first,) = world.dispatched
    assert (first.task.state, first.task.attempt) == (TaskState.LEASED, 1)
    assert first.task.claimed_history_sequence == 2
    world.complete(first.task, activity("a"), activity("b"))
    assert [found.task.task_type for found in world.dispatched] == ["greet", "a"]
    assert world.types(run_id)[-1] == "ActivityStarted"
    world.complete_activity(world.dispatched[1].task)
    woken = world.dispatched[2]
    assert woken.history.events == ",".join(row["body"] for row in world.memory.of_run("events", run_id)).encode()
    assert woken.arguments == first.arguments


def test_a_claim_by_id_leases_the_named_task(world: World) -> None:
    run_id = world.start()
    assert accepted(world.claim_by_id(run_id, 1)) == {
        "task_id": f"{run_id}.t1",
        "claimed": True,
        "attempt": 1,
        "lease_owner": "worker",
        "lease_expires_at": "2026-11-30T18:05:00.000000Z",
    }


def test_a_claim_by_id_of_an_activity_starts_its_attempt(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity(start_to_close_timeout=400))
    reply = accepted(world.claim_by_id(run_id, 2))
    assert reply["lease_expires_at"] == "2026-11-30T18:06:40.000000Z"
    assert world.types(run_id)[-1] == "ActivityStarted"


def test_claims_by_id_are_refused_for_what_cannot_be_claimed(world: World) -> None:
    run_id = world.start()
    assert rejected(world.claim_by_id(world.new_id(), 1)).reason == "task_not_found"
    assert rejected(world.claim_by_id(run_id, 2)).reason == "task_not_found"
    world.claim_workflow()
    assert rejected(world.claim_by_id(run_id, 1)).reason == "task_not_claimable"
    world.later(300)
    world.sweep()
    world.decide_with(activity(retry_policy=retrying(2, 5)))
    world.fail_activity(world.claim_activity().task)
    refusal = rejected(world.claim_by_id(run_id, 3))
    assert (refusal.reason, refusal.fields["retry_after_seconds"]) == ("task_not_due", 5)
    assert rejected(world.claim_by_id(run_id, 2)).reason == "task_not_claimable"
    world.terminate()
    refusal = rejected(world.claim_by_id(run_id, 3))
    assert (refusal.reason, refusal.fields["run_status"]) == ("run_closed", "terminated")


def release(task: Task, **changes: object) -> ReleaseClaim:
    """Give the lease of a task back."""
    fields: dict[str, object] = {
        "run_id": task.run_id,
        "task_number": task.task_number,
        "activity_sequence": task.activity_sequence,
        "attempt": task.attempt,
        "lease_owner": task.lease_owner,
    }
    return ReleaseClaim(**(fields | changes))  # type: ignore[arg-type]  # fields by name


def test_a_released_workflow_claim_is_ready_again_and_what_waited_is_appended(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    world.complete_activity(world.claim_activity().task)
    task = world.claim_workflow().task
    world.complete_activity(world.claim_activity().task)
    accepted(world.submit(release(task)))
    assert world.types(run_id)[-2:] == ["ActivityStarted", "ActivityCompleted"]
    again = world.claim_workflow().task
    assert (again.task_number, again.attempt) == (task.task_number, 2)
    assert again.claimed_history_sequence == world.run(run_id).last_history_sequence


def test_a_released_activity_claim_costs_no_failure(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    task = world.claim_activity().task
    accepted(world.submit(release(task)))
    again = world.claim_activity().task
    assert again.attempt == 2
    accepted(world.complete_activity(again))
    assert world.activity(run_id, 1).attempt_count == 2


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"lease_owner": "stranger"}, {"task_number": 9}])
def test_a_release_of_a_lease_that_is_not_held_changes_nothing(world: World, changes: dict[str, object]) -> None:
    world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    assert rejected(world.submit(release(task, **changes))).reason == "task_not_leased"
    assert world.memory.image() == image


def test_a_deregistered_owner_gives_its_workflow_task_back(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow("gone").task
    assert rejected(world.submit(RecoverLeases(run_id=run_id, lease_owner="other"))).reason == "task_not_leased"
    assert accepted(world.submit(RecoverLeases(run_id=run_id, lease_owner="gone"))) == {"recovered": 1}
    assert rejected(world.submit(RecoverLeases(run_id=run_id, lease_owner="gone"))).reason == "task_not_leased"
    assert rejected(world.complete(task, finish())).reason == "task_not_leased"
    world.decide_with(finish())
    assert world.run(run_id).status == "completed"
    assert world.run(run_id).namespace == NAMESPACE


def test_a_clock_that_steps_back_leaves_history_in_order(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    world.later(-5)
    accepted(world.complete(task, finish()))
    times = [event["recorded_at"] for event in world.events(run_id)]
    assert times == ["2026-11-30T18:00:00.000000Z"] * 3


def test_a_claimed_activity_has_started_in_time(world: World) -> None:
    world.start()
    world.decide_with(activity(schedule_to_start_timeout=10))
    assert world.claim_activity().task.schedule_to_start_at is None


def test_a_released_attempt_takes_its_deadlines_with_it(world: World) -> None:
    world.start()
    world.decide_with(activity(start_to_close_timeout=20, heartbeat_timeout=10))
    task = world.claim_activity().task
    world.heartbeat_activity(task, {"done": 1})
    accepted(world.submit(release(task)))
    (ready,) = world.tasks(task.run_id)
    assert (ready.start_to_close_at, ready.heartbeat_at, ready.last_heartbeat_at) == (None, None, None)
    assert (ready.heartbeat_details, ready.sweep_at) == ({"done": 1}, None)
