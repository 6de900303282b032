"""Cancelling a run: at once, or by a request that its code gets to see (engine §6.10, §6.12)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.rows import TaskKind
from dw_core.history.paging import encode_page_token
from tests.unit.engine.commands import activity, continued, finish, give_up, group, side_effect, timer, wait
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import Json, World, accepted, rejected

CANCELLED: Json = {"exception_type": "WorkflowCancelled", "message": "workflow cancellation was requested"}


def requested(world: World, **changes: Any) -> str:
    """The id of an accepted request."""
    return str(accepted(world.request_cancellation(**changes))["cancellation_request"]["request_id"])


def payload(world: World, run_id: str, event_type: str) -> Json:
    """The payload of the only event of a type."""
    (found,) = [event["payload"] for event in world.events(run_id) if event["event_type"] == event_type]
    return dict(found)


# -- at once ---------------------------------------------------------------------------------------------------------


def test_cancel_closes_the_run_with_everything_that_is_open() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity(), timer(5), wait(timeout_seconds=9))
    running = world.claim_activity().task
    reply = accepted(world.cancel(reason="enough"))
    assert reply["outcome"] == "cancelled"
    assert world.types(run_id)[-5:] == [
        "CancelRequested",
        "ActivityCancelled",
        "TimerCancelled",
        "TimerCancelled",
        "WorkflowCancelled",
    ]
    last = world.events(run_id)[-1]
    assert (last["payload"]["reason"], last["payload"]["message"]) == ("enough", "Workflow cancelled: enough")
    assert last["workflow_command_id"] == last["payload"]["workflow_command_id"] == reply["command_id"]
    beat = accepted(world.heartbeat_activity(running))
    assert (beat["can_continue"], beat["cancel_requested"], beat["reason"]) == (False, True, "run_cancelled")
    Watch(world).look()


def test_a_worker_learns_that_its_run_was_cancelled() -> None:
    world = World()
    world.start()
    task = world.claim_workflow().task
    accepted(world.cancel())
    refused = rejected(world.complete(task, finish()))
    assert refused.reason == "run_closed"
    assert (refused.fields["stop_reason"], refused.fields["cancel_requested"]) == ("run_cancelled", True)


def test_a_repeated_cancel_gets_its_first_answer() -> None:
    world = World()
    world.start()
    first = accepted(world.cancel(request_id="r"))
    assert accepted(world.cancel(request_id="r")) == first | {"retained": True}
    assert rejected(world.cancel()).reason == "run_not_active"


# -- the request -----------------------------------------------------------------------------------------------------


def test_a_request_is_an_event_and_a_wake() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(wait())
    reply = accepted(world.request_cancellation(seconds=60, reason="late"))
    shown = reply["cancellation_request"]
    assert (reply["accepted"], reply["duplicate"], reply["run_status"]) == (True, False, "waiting")
    assert list(shown) == [
        "request_id",
        "requested_at",
        "cleanup_deadline_at",
        "delivery_sequence",
        "delivered_at",
        "history_refresh_page_token",
    ]
    assert shown["history_refresh_page_token"] == encode_page_token(0)
    event = world.events(run_id)[-1]
    assert event["event_type"] == "CooperativeCancellationRequested"
    assert event["workflow_command_id"] == event["payload"]["workflow_command_id"] == shown["request_id"]
    context = event["payload"]["cancellation"]
    assert (context["reason"], context["requester"], context["parent_request_id"]) == (
        "late",
        {"type": "operator"},
        None,
    )
    assert world.claim_workflow().run.cancellation is not None


def test_the_first_request_wins_and_its_deadline_never_moves() -> None:
    world = World()
    run_id = world.start()
    first = accepted(world.request_cancellation(seconds=60))
    world.later(5)
    again = accepted(world.request_cancellation(seconds=3_600, reason="again"))
    assert again == first | {"duplicate": True}
    assert world.types(run_id).count("CooperativeCancellationRequested") == 1


def test_a_request_waits_for_the_end_of_a_lease_and_a_heartbeat_tells_of_it() -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow().task
    assert "cancellation_request" not in accepted(world.heartbeat(task))
    request_id = requested(world)
    assert accepted(world.heartbeat(task))["cancellation_request"]["request_id"] == request_id
    assert world.types(run_id)[-1] == "WorkflowStarted"
    accepted(world.complete(task, activity()))
    assert world.types(run_id)[-2:] == ["ActivityScheduled", "CooperativeCancellationRequested"]
    assert world.workflow_task(run_id) is not None
    Watch(world).look()


def test_a_claim_of_a_worker_that_cannot_cancel_keeps_the_request_out() -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow(is_cooperative=False).task
    refused = rejected(world.request_cancellation())
    assert (refused.reason, refused.fields["workflow_task_attempt"]) == ("active_claim_cancellation_not_supported", 1)
    assert world.run(run_id).cancellation is None
    accepted(world.complete(task, activity()))
    requested(world)


def test_only_workers_that_can_cancel_are_given_the_run() -> None:
    world = World()
    run_id = world.start()
    requested(world)
    assert world.poll(TaskKind.WORKFLOW, is_cooperative=False) == []
    assert rejected(world.claim_by_id(run_id, 1)).reason == "task_not_claimable"
    lost = world.claim_workflow().task
    assert lost.is_cooperative
    world.later(301)
    world.sweep()
    assert world.poll(TaskKind.WORKFLOW, is_cooperative=False) == []
    accepted(world.fail(world.claim_workflow().task, "boom", "KeyError"))
    world.later(3)
    assert world.poll(TaskKind.WORKFLOW, is_cooperative=False) == []
    world.claim_workflow()


def test_requests_for_what_is_not_there_or_over_are_refused() -> None:
    world = World()
    run_id = world.start()
    assert rejected(world.request_cancellation("nobody")).reason == "instance_not_found"
    other: dict[str, Any] = {"target_scope": "run", "run_id": "other"}
    assert rejected(world.request_cancellation(**other)).reason == "selected_run_not_current"
    accepted(world.request_cancellation(target_scope="run", run_id=run_id))
    world.terminate()
    refused = rejected(world.request_cancellation())
    assert (refused.reason, refused.fields["run_status"]) == ("run_not_active", "terminated")


# -- the delivery ----------------------------------------------------------------------------------------------------


def test_a_delivery_cancels_what_it_interrupts_and_keeps_the_claim() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(*group(1, ["a", "b"]), timer(5))
    world.complete_activity(world.claim_activity().task)
    request_id = requested(world)
    claimed = world.claim_workflow().task
    reply = accepted(world.deliver(claimed, request_id, 1, "parallel", sequence_span=2))
    assert (reply["delivered"], reply["sequence"], reply["sequence_span"]) == (True, 1, 2)
    assert world.types(run_id)[-3:] == [
        "CooperativeCancellationRequested",
        "CooperativeCancellationDelivered",
        "ActivityCancelled",
    ]
    assert payload(world, run_id, "ActivityCancelled")["parallel_group_path"]
    assert world.run(run_id).open_activity_count == 0
    assert world.run(run_id).open_timer_count == 1, "what is not interrupted goes on"
    assert accepted(world.check(claimed))["claimed_history_sequence"] == world.run(run_id).last_history_sequence
    Watch(world).look()
    accepted(world.complete(claimed, give_up(**CANCELLED)))
    last = world.events(run_id)[-1]
    assert (last["event_type"], last["payload"]["workflow_command_id"]) == ("WorkflowCancelled", request_id)
    assert world.run(run_id).status == "cancelled"
    Watch(world).look()


def test_a_repeated_delivery_is_acknowledged_and_another_one_refused() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity())
    request_id = requested(world)
    task = world.claim_workflow().task
    first = accepted(world.deliver(task, request_id, 1, "activity"))
    image = world.memory.image()
    assert accepted(world.deliver(task, request_id, 1, "activity")) == first
    assert rejected(world.deliver(task, request_id, 2, "timer")).reason == "cancellation_already_delivered"
    assert world.memory.image() == image
    assert world.types(run_id).count("CooperativeCancellationDelivered") == 1


def test_a_call_that_was_never_recorded_takes_its_number_with_it() -> None:
    world = World()
    run_id = world.start()
    request_id = requested(world)
    task = world.claim_workflow().task
    accepted(world.deliver(task, request_id, 1, "parallel", sequence_span=3))
    accepted(world.complete(task, activity("undo")))
    assert payload(world, run_id, "ActivityScheduled")["sequence"] == 4
    Watch(world).look()


def test_a_delivery_during_the_lease_goes_before_what_else_has_arrived() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(timer(0), activity())
    running = world.claim_activity().task
    task = world.claim_workflow().task
    accepted(world.signal())
    accepted(world.complete_activity(running))
    request_id = requested(world)
    accepted(world.deliver(task, request_id, 2, "activity"))
    assert world.types(run_id)[-2:] == ["CooperativeCancellationRequested", "CooperativeCancellationDelivered"]
    Watch(world).look()
    accepted(world.complete(task, finish("cleaned up")))
    assert world.types(run_id)[-2:] == ["SignalReceived", "WorkflowCompleted"]
    Watch(world).look()


def test_a_delivery_into_a_condition_consumes_the_wait_and_its_timeout() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=30))
    request_id = requested(world)
    task = world.claim_workflow().task
    accepted(world.deliver(task, request_id, 1, "condition"))
    assert world.types(run_id)[-3:] == [
        "ConditionWaitSatisfied",
        "TimerCancelled",
        "CooperativeCancellationDelivered",
    ]
    assert world.run(run_id).open_wait is None
    Watch(world).look()


def test_decisions_from_before_the_delivery_are_recorded_first() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(timer(50), activity())
    world.complete_activity(world.claim_activity().task)
    request_id = requested(world)
    accepted(world.complete(world.claim_workflow().task, side_effect()))
    task = world.claim_workflow().task
    accepted(world.deliver(task, request_id, 4, "timer"))
    assert world.run(run_id).next_workflow_sequence == 5
    Watch(world).look()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"request_id": "other"}, "cancellation_not_requested"),
        ({"sequence": 5}, "validation_failed"),
        ({"sequence_span": 2}, "validation_failed"),
        ({"operation_sequence": 1}, "validation_failed"),
        ({"call_kind": "selection_handle"}, "validation_failed"),
        ({"lease_owner": "eve"}, "lease_owner_mismatch"),
        ({"attempt": 9}, "workflow_task_attempt_mismatch"),
    ],
)
def test_a_delivery_that_does_not_fit_changes_nothing(changes: Json, reason: str) -> None:
    world = World()
    world.start()
    world.decide_with(activity())
    request_id = requested(world)
    task = world.claim_workflow().task
    image = world.memory.image()
    named: dict[str, Any] = {"request_id": request_id, "sequence": 1, "call_kind": "activity"} | changes
    assert rejected(world.deliver(task, **named)).reason == reason
    assert world.memory.image() == image


def test_without_a_request_nothing_is_delivered() -> None:
    world = World()
    world.start()
    task = world.claim_workflow().task
    assert rejected(world.deliver(task, "r", 1, "activity")).reason == "cancellation_not_requested"


# -- activities ------------------------------------------------------------------------------------------------------


def test_an_attempt_that_began_during_the_lease_is_recorded_before_its_end() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity())
    request_id = requested(world)
    task = world.claim_workflow().task
    world.claim_activity()
    accepted(world.signal())
    accepted(world.deliver(task, request_id, 1, "activity"))
    assert world.types(run_id)[-3:] == ["ActivityStarted", "CooperativeCancellationDelivered", "ActivityCancelled"]
    Watch(world).look()
    accepted(world.complete(task, finish("cleaned up")))
    assert world.types(run_id)[-2:] == ["SignalReceived", "WorkflowCompleted"]
    Watch(world).look()


def stopping(world: World, policy: str | None) -> tuple[str, str, Any, Any]:
    """A run whose running activity a delivery is about to interrupt: run, request, activity task, workflow task."""
    run_id = world.start()
    fields: dict[str, Any] = {} if policy is None else {"cancellation_policy": policy, "schedule_to_close_timeout": 500}
    world.decide_with(activity(retry_policy={"max_attempts": 3}, **fields))
    running = world.claim_activity().task
    request_id = requested(world)
    return run_id, request_id, running, world.claim_workflow().task


def test_an_activity_is_cancelled_at_once_and_its_worker_hears_of_it() -> None:
    world = World()
    run_id, request_id, running, task = stopping(world, None)
    accepted(world.deliver(task, request_id, 1, "activity"))
    beat = accepted(world.heartbeat_activity(running))
    assert (beat["can_continue"], beat["cancel_requested"], beat["reason"]) == (False, True, "activity_cancelled")
    status = accepted(world.check_activity(running))
    receipt = status["cancellation_acknowledgement"]
    (cancelled,) = [event for event in world.events(run_id) if event["event_type"] == "ActivityCancelled"]
    assert receipt["cancellation_history_event_id"] == cancelled["id"]
    assert (receipt["request_id"], receipt["callback_state"]) == (request_id, "unknown")
    refused = rejected(world.fail_activity(running, {"message": "activity cancelled", "type": "ActivityCancelled"}))
    assert refused.reason == "stale_attempt"
    first = accepted(world.acknowledge(running, request_id))
    assert (first["acknowledged"], first["duplicate"], first["history_event_id"]) == (True, False, cancelled["id"])
    assert accepted(world.acknowledge(running, request_id)) == first | {"duplicate": True}
    assert accepted(world.check_activity(running))["cancellation_acknowledgement"]["callback_state"] == "stopped"
    assert rejected(world.acknowledge(running, "other")).reason == "activity_cancellation_not_requested"
    Watch(world).look()


def test_an_abandoned_activity_runs_on() -> None:
    world = World()
    run_id, request_id, running, task = stopping(world, "abandon")
    accepted(world.deliver(task, request_id, 1, "activity"))
    assert accepted(world.heartbeat_activity(running))["can_continue"]
    accepted(world.complete(task, timer(5)))
    accepted(world.complete_activity(running))
    assert "ActivityCompleted" in world.types(run_id)
    Watch(world).look()


@pytest.mark.parametrize("end", ["acknowledged", "failed", "completed", "lost", "given back"])
def test_a_delivery_waits_for_an_activity_that_must_stop_first(end: str) -> None:
    world = World()
    run_id, request_id, running, task = stopping(world, "wait_cancellation_completed")
    reply = accepted(world.deliver(task, request_id, 1, "activity"))
    assert (reply["delivered"], reply["claim_released"], reply["sequence"]) == (False, True, None)
    assert reply["reason"] == "cancellation_waiting_for_activity"
    assert accepted(world.deliver(task, request_id, 1, "activity")) == reply
    assert world.workflow_task(run_id) is None
    assert accepted(world.heartbeat_activity(running))["reason"] == "activity_cancelled"
    status = accepted(world.check_activity(running))
    assert (status["can_continue"], status["cancellation_acknowledgement"]["callback_state"]) == (False, "unknown")
    if end == "acknowledged":
        assert not accepted(world.acknowledge(running, request_id))["duplicate"]
        assert accepted(world.acknowledge(running, request_id))["duplicate"]
    elif end == "failed":
        accepted(world.fail_activity(running, {"message": "activity cancelled", "type": "ActivityCancelled"}))
    elif end == "completed":
        accepted(world.complete_activity(running))
    elif end == "lost":
        world.later(301)
        world.sweep()
    else:
        accepted(world.fail_activity(running, {"message": "other", "type": "ValueError"}))
    kinds = {"completed": "ActivityCompleted", "given back": "ActivityFailed"}
    assert world.types(run_id)[-1] == kinds.get(end, "ActivityCancelled")
    assert world.run(run_id).open_activity_count == 0, "nothing is tried again"
    again = world.claim_workflow().task
    assert accepted(world.deliver(again, request_id, 1, "activity"))["delivered"]
    Watch(world).look()


def test_an_activity_that_nobody_runs_is_cancelled_whatever_its_policy() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(activity(cancellation_policy="wait_cancellation_completed"))
    assert payload(world, run_id, "ActivityScheduled")["cancellation_policy"] == "wait_cancellation_completed"
    request_id = requested(world)
    assert accepted(world.deliver(world.claim_workflow().task, request_id, 1, "activity"))["delivered"]
    assert world.types(run_id)[-1] == "ActivityCancelled"


# -- the end ---------------------------------------------------------------------------------------------------------


def test_code_that_swallows_the_cancellation_completes() -> None:
    world = World()
    run_id = world.start()
    request_id = requested(world)
    task = world.claim_workflow().task
    accepted(world.deliver(task, request_id, 1, "timer"))
    accepted(world.complete(task, finish("done")))
    assert world.run(run_id).status == "completed"


def test_a_cancellation_that_was_never_delivered_is_a_failure_like_any_other() -> None:
    world = World()
    run_id = world.start()
    requested(world)
    accepted(world.complete(world.claim_workflow().task, give_up(**CANCELLED)))
    assert world.run(run_id).status == "failed"


@pytest.mark.parametrize("is_delivered", [True, False])
def test_the_end_of_the_cleanup_time_cancels_the_run(is_delivered: bool) -> None:
    world = World()
    run_id = world.start(run_timeout=3_600)
    world.decide_with(activity())
    request_id = requested(world, seconds=60, reason="late")
    task = world.claim_workflow().task
    if is_delivered:
        accepted(world.deliver(task, request_id, 1, "activity"))
        accepted(world.complete(task, activity("undo")))
        task = world.claim_activity().task
    world.later(60)
    if not is_delivered:
        assert rejected(world.complete(task, timer(5))).reason == "run_timed_out"
    world.sweep()
    last = world.events(run_id)[-1]
    assert (last["event_type"], last["payload"]["reason"]) == ("WorkflowCancelled", "late")
    assert last["payload"]["workflow_command_id"] == request_id
    assert "CancelRequested" not in world.types(run_id)
    Watch(world).look()


def test_an_earlier_run_deadline_wins_over_the_cleanup() -> None:
    world = World()
    run_id = world.start(run_timeout=30)
    requested(world, seconds=60)
    world.later(61)
    world.sweep()
    assert world.types(run_id)[-1] == "WorkflowTimedOut"


def test_a_request_that_a_run_has_not_seen_goes_on_to_its_successor() -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow().task
    shown = accepted(world.request_cancellation(seconds=60))["cancellation_request"]
    accepted(world.complete(task, continued()))
    follower = str(world.run(run_id).continued_to_run_id)
    assert world.types(follower) == ["WorkflowStarted", "CooperativeCancellationRequested"]
    context = payload(world, follower, "CooperativeCancellationRequested")["cancellation"]
    assert (context["request_id"], context["root_workflow_run_id"]) == (shown["request_id"], follower)
    again = accepted(world.request_cancellation())
    assert (again["run_id"], again["duplicate"], again["cancellation_request"]) == (follower, True, shown)
    claimed = world.claim_workflow().task
    assert claimed.run_id == follower
    accepted(world.deliver(claimed, shown["request_id"], 1, "activity"))
    Watch(world).look()


def test_a_delivered_request_ends_with_its_run() -> None:
    world = World()
    run_id = world.start()
    request_id = requested(world)
    task = world.claim_workflow().task
    accepted(world.deliver(task, request_id, 1, "activity"))
    accepted(world.complete(task, continued()))
    assert world.run(str(world.run(run_id).continued_to_run_id)).cancellation is None
