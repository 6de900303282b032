"""Terminating runs, deadlines, and what closing does to open work."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.inputs import TerminateWorkflow, TimeOutRun
from tests.unit.engine.commands import activity, finish, give_up
from tests.unit.engine.world import NAMESPACE, World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def test_terminate_cancels_open_and_leased_work_in_order(world: World) -> None:
    run_id = world.start("order-1")
    world.decide_with(activity("a"), activity("b"), activity("c"))
    running = world.claim_activity().task
    world.complete_activity(world.claim_activity().task)
    leased = world.claim_workflow().task
    reply = accepted(world.terminate("order-1", "enough"))
    assert (reply["outcome"], reply["command_status"], reply["command_sequence"]) == ("terminated", "accepted", 2)
    requested, first, third, terminated = world.events(run_id)[-4:]
    assert [e["event_type"] for e in (requested, first, third, terminated)] == [
        "TerminateRequested",
        "ActivityCancelled",
        "ActivityCancelled",
        "WorkflowTerminated",
    ]
    command_id = reply["command_id"]
    assert first["payload"] == {
        "workflow_command_id": command_id,
        "activity_execution_id": f"{run_id}.a1",
        "activity_attempt_id": f"{run_id}.a1.1",
        "activity_type": "a",
        "sequence": 1,
        "attempt_number": 1,
        "cancelled_at": "2026-11-30T18:00:00.000000Z",
        "message": "Activity cancelled because its workflow run closed.",
    }
    assert "activity_attempt_id" not in third["payload"] and third["payload"]["sequence"] == 3
    assert terminated["workflow_command_id"] == command_id
    assert terminated["payload"] == {
        "workflow_command_id": command_id,
        "workflow_instance_id": "order-1",
        "workflow_run_id": run_id,
        "reason": "enough",
        "failure_id": f"{run_id}.f",
        "failure_category": "terminated",
        "closed_reason": "terminated",
        "exception_class": "WorkflowTerminated",
        "message": "Workflow terminated: enough",
    }
    assert world.tasks(run_id) == []
    assert [world.activity(run_id, n).status for n in (1, 2, 3)] == ["cancelled", "completed", "cancelled"]
    assert [world.activity(run_id, n).attempt_count for n in (1, 2, 3)] == [1, 1, 0]
    statuses = [(row["sequence"], row["status"]) for row in world.memory.of_run("attempts", run_id)]
    assert statuses == [(1, "cancelled"), (2, "completed")]
    receipt = world.memory.tables["receipts"][run_id, leased.task_number]
    assert (receipt["outcome"], receipt["lease_owner"]) == ("cancelled", "worker")
    stopped = accepted(world.heartbeat_activity(running))
    assert (stopped["can_continue"], stopped["cancel_requested"], stopped["reason"]) == (False, True, "run_terminated")


def test_terminate_of_a_closed_run_is_recorded_and_refused(world: World) -> None:
    run_id = world.start()
    world.decide_with(finish())
    types = world.types(run_id)
    refusal = rejected(world.terminate())
    assert (refusal.reason, refusal.fields["outcome"]) == ("run_not_active", "rejected_not_active")
    assert world.types(run_id) == types
    assert world.run(run_id).next_command_sequence == 3


def test_terminate_of_an_unknown_workflow_is_not_found(world: World) -> None:
    assert rejected(world.terminate("nobody")).reason == "instance_not_found"


@pytest.mark.parametrize("is_current", [True, False])
def test_terminate_of_a_named_run_needs_the_current_one(world: World, is_current: bool) -> None:
    run_id = world.start()
    named = run_id if is_current else world.new_id()
    image = world.memory.image()
    reply = world.submit(
        TerminateWorkflow(
            namespace=NAMESPACE, workflow_id="w", run_id=named, command_id=world.new_id(), target_scope="run"
        )
    )
    if is_current:
        assert (accepted(reply)["requested_run_id"], world.run(run_id).status) == (run_id, "terminated")
    else:
        assert rejected(reply).reason == "historical_run_command_rejected"
        assert world.memory.image() == image


@pytest.mark.parametrize(
    ("timeouts", "kind"),
    [
        ({"run_timeout": 10}, "run_timeout"),
        ({"execution_timeout": 10}, "execution_timeout"),
        ({"run_timeout": 10, "execution_timeout": 10}, "execution_timeout"),
        ({"run_timeout": 10, "execution_timeout": 20}, "run_timeout"),
    ],
)
def test_a_run_past_its_earlier_deadline_is_closed_by_a_sweep(
    world: World, timeouts: dict[str, Any], kind: str
) -> None:
    run_id = world.start(**timeouts)
    world.decide_with(activity())
    world.later(9.999999)
    assert world.due() == []
    world.later(0.000001)
    world.sweep()
    run = world.run(run_id)
    assert (run.status, run.closed_reason) == ("failed", "timed_out")
    assert world.types(run_id)[-2:] == ["ActivityCancelled", "WorkflowTimedOut"]
    payload = world.events(run_id)[-1]["payload"]
    assert (payload["timeout_kind"], payload["exception_class"]) == (kind, "WorkflowTimedOut")
    assert payload["failure_category"] == "timeout"


def test_a_completion_past_the_deadline_is_refused_and_the_run_can_then_be_timed_out(world: World) -> None:
    run_id = world.start(run_timeout=10)
    task = world.claim_workflow().task
    world.later(10)
    image = world.memory.image()
    refusal = rejected(world.complete(task, finish()))
    assert refusal.reason == "run_timed_out"
    assert (refusal.fields["outcome"], refusal.fields["recorded"]) == ("rejected", False)
    assert world.memory.image() == image
    accepted(world.submit(TimeOutRun(run_id=run_id)))
    assert world.types(run_id)[-1] == "WorkflowTimedOut"
    image = world.memory.image()
    rejected(world.submit(TimeOutRun(run_id=run_id)))
    assert world.memory.image() == image


def test_a_deadline_that_has_not_passed_is_refused(world: World) -> None:
    run_id = world.start(run_timeout=10)
    assert rejected(world.submit(TimeOutRun(run_id=run_id))).reason == "run_not_active"
    assert rejected(world.submit(TimeOutRun(run_id=world.new_id()))).reason == "run_not_active"


@pytest.mark.parametrize("closing", [finish(), give_up()])
def test_activities_scheduled_by_the_batch_that_closes_the_run_are_cancelled(
    world: World, closing: dict[str, Any]
) -> None:
    run_id = world.start()
    world.decide_with(activity("late"), closing)
    assert world.types(run_id)[2:4] == ["ActivityScheduled", "ActivityCancelled"]
    assert world.tasks(run_id) == []
    assert world.activity(run_id, 1).status == "cancelled"
    assert world.run(run_id).open_activity_count == 0


def test_completing_cancels_activities_that_are_still_open(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    world.complete_activity(world.claim_activity().task)
    running = world.claim_activity().task
    world.decide_with(finish())
    assert world.types(run_id)[-2:] == ["ActivityCancelled", "WorkflowCompleted"]
    stopped = accepted(world.heartbeat_activity(running))
    assert (stopped["reason"], stopped["cancel_requested"]) == ("run_closed", False)
    assert (stopped["run_closed_reason"], stopped["run_closed_at"]) == ("completed", "2026-11-30T18:00:00.000000Z")
    late = rejected(world.complete_activity(running))
    assert (late.reason, late.fields["outcome"], late.fields["recorded"]) == ("run_closed", "completed", False)


def test_a_terminate_that_is_sent_again_gets_its_first_receipt(world: World) -> None:
    world.start()
    first = accepted(world.terminate(reason="enough", request_id="r-1"))
    before = world.memory.image()
    again = accepted(world.terminate(reason="enough", request_id="r-1"))
    assert again == first | {"retained": True, "intent_verified": True}
    assert world.memory.image() == before


def test_a_rejected_terminate_that_is_sent_again_is_rejected_again(world: World) -> None:
    world.start()
    world.terminate()
    first = rejected(world.terminate(request_id="r-1"))
    again = rejected(world.terminate(request_id="r-1"))
    assert (first.reason, again.reason) == ("run_not_active", "run_not_active")
    assert again.fields == first.fields | {"retained": True, "intent_verified": True}


def test_a_request_id_used_for_another_intent_is_a_conflict(world: World) -> None:
    world.start()
    command_id = accepted(world.terminate(reason="enough", request_id="r-1"))["command_id"]
    conflict = rejected(world.terminate(reason="other", request_id="r-1"))
    assert conflict.reason == "request_id_conflict"
    assert conflict.fields == {
        "workflow_id": "w",
        "request_id": "r-1",
        "retained": True,
        "intent_verified": False,
        "retained_command_type": "terminate",
        "retained_command_id": command_id,
    }
