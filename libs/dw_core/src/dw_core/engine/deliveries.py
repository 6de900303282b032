"""What other runs have done to this one: taken from its mail under its own lock (architecture §2, the inbox)."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.cancellation import take_forwarded
from dw_core.engine.children import call_members, resume_context
from dw_core.engine.inputs import TakeDeliveries, TerminateWorkflow
from dw_core.engine.intake import accept
from dw_core.engine.run_rows import Delivery
from dw_core.engine.service_calls import end_service_wait
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.terminating import stop
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import RunWriter
from dw_core.ids import derived_ulid

_CHILD_EVENTS = {
    "completed": "ChildRunCompleted",
    "failed": "ChildRunFailed",
    "cancelled": "ChildRunCancelled",
    "terminated": "ChildRunTerminated",
}
_STOPS = {"request_cancel": "cancel", "terminate": "terminate"}


def decide_deliveries(snapshot: Snapshot, change: TakeDeliveries, now: datetime) -> Outcome:
    """Take everything that has been left for the run, in order; what no longer matters is dropped."""
    if snapshot.run is None or not snapshot.deliveries:
        return Rejection("task_not_found", "Nothing has been left for this run.")
    writer = RunWriter(snapshot, now)
    for delivery in snapshot.deliveries:
        if not _take(writer, delivery):
            continue
        writer.transition.deliveries_taken.append(delivery.ordinal)
    if not writer.transition.deliveries_taken:
        return Rejection("task_not_leased", "What has been left for this run can only be taken later.")
    return writer.finish({"run_id": change.run_id, "taken": len(writer.transition.deliveries_taken)})


def _take(writer: RunWriter, delivery: Delivery) -> bool:
    """Act on one; False when it has to stay for now, to be found by the sweep."""
    match delivery.kind:
        case "child_closed":
            _child_closed(writer, delivery)
        case "child_continued":
            _child_continued(writer, delivery)
        case "parent_closed":
            _parent_closed(writer, delivery)
        case "cancellation":
            return _asked_to_cancel(writer, delivery)
        case "service_call_closed":
            end_service_wait(writer, delivery)
        case _:
            raise AssertionError(f"no such delivery: {delivery.kind}")
    return True


def _child_closed(writer: RunWriter, delivery: Delivery) -> None:
    """The end of a call: once, and only while somebody waits for it."""
    call = writer.child(delivery.sequence)
    if writer.run.is_terminal or call is None or call.closed_at is not None:
        return
    body = dict(delivery.body)
    run_id, run_number, status = body.pop("run_id"), body.pop("run_number"), body["child_status"]
    closed = copy.copy(call)
    closed.status, closed.closed_at, closed.current_run_id = status, writer.now, run_id
    writer.put_child(closed)
    writer.run.open_child_count -= 1
    event_type = _CHILD_EVENTS[status]
    wake = resume_context(closed, event_type) if writer.ends_group(call.group_base, call.parallel_group_path) else None
    writer.record(event_type, call_members(call, run_number, run_id) | body, wake=wake)


def _child_continued(writer: RunWriter, delivery: Delivery) -> None:
    """The call goes on in another run, after a retry or a continue-as-new."""
    call = writer.child(delivery.sequence)
    if writer.run.is_terminal or call is None or call.closed_at is not None:
        return
    body: dict[str, Any] = dict(delivery.body)
    run_id, run_number = body.pop("run_id"), body.pop("run_number")
    moved = copy.copy(call)
    moved.current_run_id = run_id
    writer.put_child(moved)
    writer.record("ChildRunStarted", call_members(call, run_number, run_id) | body)


def _parent_closed(writer: RunWriter, delivery: Delivery) -> None:
    """The policy of this run's start, now that its parent has closed; it follows the run to its successor."""
    run = writer.run
    if run.is_terminal:
        _send_on(writer, delivery)
        return
    body = delivery.body
    command_type = _STOPS[body["policy"]]
    command = TerminateWorkflow(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        command_id=derived_ulid(writer.now, run.run_id, "parent_closed"),
        reason="The parent workflow has closed.",
        context={"source": "parent_close_policy"} | body,
    )
    accept(writer, command, command_type, {"reason": command.reason}, {}, _OUTCOMES[command_type])
    stop(writer, command.command_id, command_type, command.reason)


def _asked_to_cancel(writer: RunWriter, delivery: Delivery) -> bool:
    """The parent was asked to cancel, or has closed with the policy to ask its child."""
    if writer.run.is_terminal:
        _send_on(writer, delivery)
        return True
    return take_forwarded(writer, delivery.body)


def _send_on(writer: RunWriter, delivery: Delivery) -> None:
    """What is meant for a child reaches the run that has followed it."""
    if writer.run.continued_to_run_id is not None:
        moved = msgspec.structs.replace(delivery, run_id=writer.run.continued_to_run_id, ordinal=0)
        writer.transition.deliveries.append(moved)


_OUTCOMES = {"cancel": "cancelled", "terminate": "terminated"}
