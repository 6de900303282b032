"""Children and successors: what each side records, and what becomes of the other when one closes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dw_core.engine.inputs import TakeDeliveries
from dw_core.engine.rows import TaskKind
from dw_core.engine.run_rows import ChildCall
from dw_core.limits import Limits
from tests.unit.engine.commands import activity, child, children, continued, finish, give_up, retrying, timer, wait
from tests.unit.engine.world import Json, Reply, World, accepted, completion, rejected


@pytest.fixture
def world() -> World:
    return World()


def call(world: World, run_id: str, sequence: int = 1) -> ChildCall:
    """The call of a child as its parent sees it."""
    return msgspec.convert(world.memory.tables["children"][run_id, sequence], ChildCall)


def last(world: World, run_id: str, event_type: str) -> Json:
    """The payload of the newest event of a type."""
    return next(e["payload"] for e in reversed(world.events(run_id)) if e["event_type"] == event_type)


def test_a_child_starts_with_its_parent_s_decision(world: World) -> None:
    run_id = world.start()
    world.decide_with(child("kid", run_timeout_seconds=60, parent_close_policy="terminate"))
    started = call(world, run_id)
    assert world.types(run_id)[-2:] == ["ChildWorkflowScheduled", "ChildRunStarted"]
    assert world.types(started.child_run_id) == ["WorkflowStarted"]
    opening = last(world, started.child_run_id, "WorkflowStarted")
    assert (opening["parent_workflow_run_id"], opening["parent_sequence"]) == (run_id, 1)
    scheduled = last(world, run_id, "ChildWorkflowScheduled")
    assert scheduled["child_workflow_run_id"] == started.child_run_id
    assert scheduled["parent_close_policy"] == "terminate"
    assert world.workflow_task(run_id) is None, "the parent waits"
    assert world.claim_workflow().run.run_id == started.child_run_id


def test_the_result_wakes_the_parent_once(world: World) -> None:
    run_id = world.start()
    world.decide_with(child())
    world.decide_with(finish(7))
    assert world.workflow_task(run_id) is None, "nothing reaches the parent before the delivery"
    (taken,) = world.sweep()
    assert accepted(taken)["taken"] == 1
    assert rejected(world.submit(TakeDeliveries(run_id=run_id))).reason == "task_not_found"
    assert world.types(run_id).count("ChildRunCompleted") == 1
    task = world.workflow_task(run_id)
    assert task is not None and task.resume is not None
    assert task.resume["workflow_wait_kind"] == "child"
    assert task.resume["child_call_id"] == last(world, run_id, "ChildRunCompleted")["child_call_id"]


def test_a_result_waits_for_the_end_of_the_parent_s_lease(world: World) -> None:
    run_id = world.start()
    world.decide_with(child())
    child_task = world.claim_workflow().task
    world.signal("w")
    world.complete(child_task, finish(7))
    run = world.run(run_id)
    assert run.open_wait is None
    world.sweep()
    assert world.claim_workflow().run.run_id == run_id


@pytest.mark.parametrize(
    ("policy", "status", "asked"),
    [("terminate", "terminated", "TerminateRequested"), ("request_cancel", "cancelled", "CancelRequested")],
)
def test_the_close_policy_reaches_the_child(policy: str, status: str, asked: str, world: World) -> None:
    run_id = world.start()
    world.decide_with(child(parent_close_policy=policy), timer(1))
    started = call(world, run_id)
    world.decide_with(activity(), timer(50))
    world.later(1)
    world.sweep()
    world.decide_with(finish())
    assert last(world, run_id, "ParentClosePolicyApplied") == {
        "child_instance_id": started.child_workflow_id,
        "child_run_id": started.child_run_id,
        "policy": policy,
        "reason": "completed",
    }
    world.sweep()
    closed = world.run(started.child_run_id)
    assert (closed.status, closed.open_activity_count, closed.open_timer_count) == (status, 0, 0)
    assert asked in world.types(started.child_run_id)
    assert world.memory.deliveries == [] or world.sweep()
    assert world.memory.deliveries == [], "the end of such a child is of no interest to the closed parent"


def test_an_abandoned_child_runs_on(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(), timer(1))
    started = call(world, run_id)
    world.decide_with(activity())
    world.later(1)
    world.sweep()
    world.decide_with(finish())
    world.sweep()
    assert not world.run(started.child_run_id).is_terminal
    assert call(world, run_id).status == "abandoned"
    world.complete_activity(world.claim_activity().task)
    world.decide_with(finish())
    before = world.events(run_id)
    world.sweep()
    assert world.events(run_id) == before, "a closed parent hears nothing more"


def test_a_group_of_children_wakes_when_the_last_is_done(world: World) -> None:
    run_id = world.start()
    world.decide_with(*children(1, 2))
    world.decide_with(finish(1))
    world.sweep()
    assert world.workflow_task(run_id) is None
    world.decide_with(give_up("no"))
    world.sweep()
    assert world.types(run_id)[-2:] == ["ChildRunCompleted", "ChildRunFailed"]
    assert world.workflow_task(run_id) is not None
    paths = sorted(e["payload"]["parallel_group_path"][0]["parallel_group_index"] for e in world.events(run_id)[-2:])
    assert paths == [0, 1]


def test_a_failed_child_is_tried_again_as_often_as_its_policy_says(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(retry_policy=retrying(2, 10)))
    first = call(world, run_id).child_run_id
    world.decide_with(give_up("once"))
    world.sweep()
    second = call(world, run_id).current_run_id
    assert second != first
    again = last(world, run_id, "ChildRunStarted")
    assert (again["retry_attempt"], again["retry_of_child_workflow_run_id"]) == (2, first)
    assert (again["child_workflow_run_id"], again["resolved_child_workflow_run_id"]) == (first, second)
    assert world.poll(world.tasks(second)[0].kind) == [], "the pause is kept"
    world.later(10)
    world.decide_with(give_up("twice"))
    world.sweep()
    failed = last(world, run_id, "ChildRunFailed")
    assert (failed["message"], failed["child_workflow_run_id"]) == ("twice", first)
    assert world.types(run_id).count("ChildRunFailed") == 1


def test_a_failure_that_is_ruled_out_is_not_tried_again(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(retry_policy=retrying(5, 0, types=["Fatal"])))
    world.decide_with(give_up("no", exception_type="Fatal"))
    world.sweep()
    assert world.types(run_id)[-1] == "ChildRunFailed"


def test_a_child_past_its_run_timeout_fails_and_may_be_tried_again(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(run_timeout_seconds=5, retry_policy=retrying(2, 0)))
    for _ in range(2):
        world.later(5)
        world.sweep()
        world.sweep()
    assert world.types(run_id).count("ChildRunStarted") == 2
    assert last(world, run_id, "ChildRunFailed")["failure_category"] == "timeout"


def test_the_next_run_takes_the_signals_that_nobody_has_seen(world: World) -> None:
    run_id = world.start(run_timeout=100, execution_timeout=300)
    task = world.claim_workflow().task
    world.signal("w", "first")
    world.later(10)
    accepted(world.complete(task, continued(workflow_type="other")))
    old = world.run(run_id)
    assert (old.status, old.closed_reason) == ("completed", "continued")
    new = world.run(old.continued_to_run_id or "")
    assert (new.run_number, new.workflow_type, new.pending_signal_count) == (2, "other", 1)
    assert world.types(new.run_id) == ["WorkflowStarted", "SignalReceived"]
    assert new.execution_deadline_at == old.execution_deadline_at
    assert new.run_deadline_at is not None and old.run_deadline_at is not None
    assert (new.run_deadline_at - old.run_deadline_at).total_seconds() == 10
    assert accepted(world.signal("w", "second"))["run_id"] == new.run_id
    refused = rejected(world.signal("w", "third", run_id=run_id, target_scope="run"))
    assert refused.reason == "historical_run_command_rejected"


def test_signals_behind_a_continuation_in_one_transaction_meet_the_next_run(world: World) -> None:
    world.start()
    task = world.claim_workflow().task
    replies = world.transact([completion(task, continued()), world.signal_input("w")])
    new = world.memory.instances["default", "w"]
    assert accepted(replies[1])["run_id"] == new
    assert world.types(new) == ["WorkflowStarted", "SignalReceived"]


def test_a_continuation_closes_open_work_and_leaves_children_alone(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(parent_close_policy="terminate"), activity(), timer(0), timer(50))
    kid = call(world, run_id).child_run_id
    claimed = next(c for c in world.poll(TaskKind.WORKFLOW, slots=2) if c.run.run_id == run_id)
    accepted(world.complete(claimed.task, continued()))
    assert world.types(run_id)[-3:] == ["ActivityCancelled", "TimerCancelled", "WorkflowContinuedAsNew"]
    world.sweep()
    assert not world.run(kid).is_terminal
    assert call(world, run_id).status == "abandoned"


def test_a_close_policy_follows_a_child_that_continued_as_new(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(parent_close_policy="terminate"), timer(0))
    kid = call(world, run_id).child_run_id
    by_run = {c.run.run_id: c.task for c in world.poll(TaskKind.WORKFLOW, slots=2)}
    accepted(world.complete(by_run[kid], continued()))
    accepted(world.complete(by_run[run_id], finish()))  # it has not heard of the continuation yet
    for _ in range(3):
        world.sweep()
    successor = world.run(kid).continued_to_run_id
    assert successor is not None and world.run(successor).status == "terminated"


def test_an_open_condition_of_a_parent_is_not_consumed_by_a_child(world: World) -> None:
    run_id = world.start()
    world.decide_with(child(), wait("ready"))
    world.decide_with(finish())
    world.sweep()
    assert world.run(run_id).open_wait is not None
    assert world.workflow_task(run_id) is not None


def test_too_many_children_are_refused_and_start_none() -> None:
    world = World(Limits(pending_child_count=1))
    world.start()
    task = world.claim_workflow().task
    refused = rejected(world.complete(task, *children(1, 2)))
    assert refused.fields["limit_kind"] == "pending_child_count"
    assert len(world.memory.tables["runs"]) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"parent_close_policy": "cancel"},
        {"cancellation_policy": "request_cancel"},
        {"run_timeout_seconds": 9, "execution_timeout_seconds": 8},
        {"workflow_type": ""},
    ],
)
def test_an_invalid_child_start_is_refused(fields: Json, world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    refused = rejected(world.complete(task, child() | fields))
    assert refused.reason == "validation_failed"
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted"]


def asked(world: World, run_id: str) -> Json:
    """The context of the cancellation request that a run has been sent."""
    return dict(last(world, run_id, "CooperativeCancellationRequested")["cancellation"])


def interrupted(world: World, **fields: Any) -> tuple[str, str, str, Reply]:
    """A parent that is asked to cancel while it waits for a child: both runs, the request, the answer to delivery."""
    run_id = world.start()
    world.decide_with(child(**fields))
    request = accepted(world.request_cancellation(seconds=60))["cancellation_request"]["request_id"]
    by_run = {c.run.run_id: c.task for c in world.poll(TaskKind.WORKFLOW, slots=2)}
    kid = call(world, run_id).child_run_id
    accepted(world.complete(by_run[kid], timer(9999)))
    return run_id, kid, request, world.deliver(by_run[run_id], request, 1, "child")


def test_a_child_is_told_of_the_cancellation_of_its_parent() -> None:
    world = World()
    run_id, kid, request, reply = interrupted(world, cancellation_policy="try_cancel")
    assert accepted(reply)["delivered"] is True
    assert world.types(run_id)[-2:] == ["CooperativeCancellationDelivered", "ChildRunCancelled"]
    world.sweep()
    context = asked(world, kid)
    assert (context["root_request_id"], context["parent_request_id"]) == (request, request)
    assert context["root_workflow_run_id"] == run_id
    assert [one["workflow_run_id"] for one in context["lineage"]] == [run_id, kid]
    assert context["cleanup_deadline_at"] == asked(world, run_id)["cleanup_deadline_at"]


def test_a_delivery_waits_for_a_child_that_must_end_first() -> None:
    world = World()
    run_id, kid, request, reply = interrupted(world, cancellation_policy="wait_cancellation_completed")
    assert accepted(reply)["reason"] == "cancellation_waiting_for_child"
    world.sweep()
    assert asked(world, kid)["root_request_id"] == request
    task = next(c.task for c in world.poll(TaskKind.WORKFLOW, slots=2) if c.run.run_id == kid)
    accepted(world.complete(task, finish("cleaned")))
    world.sweep()
    again = world.claim_workflow().task
    assert accepted(world.deliver(again, request, 1, "child"))["delivered"] is True
    assert world.types(run_id).count("ChildRunCompleted") == 1


def test_an_abandoned_child_hears_nothing_of_the_cancellation() -> None:
    world = World()
    _, kid, _, reply = interrupted(world)
    assert accepted(reply)["delivered"] is True
    world.sweep()
    assert "CooperativeCancellationRequested" not in world.types(kid)


def test_a_closed_parent_may_ask_its_child_to_cancel() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(child(parent_close_policy="request_cancellation"), timer(0))
    kid = call(world, run_id).child_run_id
    tasks = {c.run.run_id: c.task for c in world.poll(TaskKind.WORKFLOW, slots=2)}
    accepted(world.complete(tasks[run_id], finish()))
    world.sweep()
    context = asked(world, kid) if "CooperativeCancellationRequested" in world.types(kid) else None
    if context is None:  # the child's lease keeps it waiting
        accepted(world.complete(tasks[kid], timer(9)))
        world.sweep()
        context = asked(world, kid)
    assert context["parent_request_id"] is None
    assert context["requester"] == {"type": "workflow", "id": run_id}
