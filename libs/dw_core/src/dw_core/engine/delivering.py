"""Delivering a cancellation request into one durable call, and the end of the activities it stops (engine §6.12).

What a run's code has opened and the delivery interrupts is closed here: timers, the condition wait and activities, each
activity and child by its own policy.
"""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine import activities
from dw_core.engine.activity_ends import resolve
from dw_core.engine.children import ask_to_cancel, cancel_call
from dw_core.engine.closing import cancel_activity, close_attempt
from dw_core.engine.commands.groups import Path, is_selection
from dw_core.engine.inputs import AcknowledgeCancellation, DeliverCancellation
from dw_core.engine.ownership import guard, identify, settled_elsewhere
from dw_core.engine.rows import Cancellation, Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity, Attempt, ChildCall, Receipt
from dw_core.engine.selections import close_leaf, remove_wait
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stopping import RECEIPT_STOPPED, cancelled_members, receipt
from dw_core.engine.timer_events import CONDITION_TIMEOUT, cancel, timeout_timer
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.waits import close_wait
from dw_core.engine.workflow_tasks import close_task
from dw_core.engine.writer import CANCELLATION_REQUESTED, RunWriter
from dw_core.ids import event_id

ABANDON, WAIT = "abandon", "wait_cancellation_completed"
_ECHOED = ("request_id", "sequence", "call_kind", "sequence_span", "operation_sequence", "operation_sequence_span")


def decide_deliver(snapshot: Snapshot, report: DeliverCancellation, now: datetime) -> Outcome:
    """Interrupt the named call, or release the claim while an activity has yet to stop.

    The lease goes on after a delivery: the worker reads the history anew and replays the cleanup on the same claim.
    """
    held = guard(snapshot, report, now)
    if isinstance(held, Rejection):
        return held
    run = snapshot.run
    assert run is not None
    if isinstance(held, Receipt):
        is_again = held.reply is not None and held.reply.get("claim_released") is True
        return Transition(run=run, reply=held.reply or {}) if is_again else settled_elsewhere(run, report, held)
    asked = {name: getattr(report, name) for name in _ECHOED}
    refused = _refuse(run, held, report, asked, now)
    if refused is not None:
        return refused
    request = run.cancellation
    assert request is not None, "refused otherwise"
    if request.delivery is not None:
        return Transition(run=run, reply=_delivered(run, report, asked))
    writer = RunWriter(snapshot, now)
    interrupted = _interrupted(writer, report)
    children = _interrupted_children(writer, report)
    slow = [task for activity, task in interrupted if _must_stop_first(activity, task)]
    slow_children = [call for call in children if call.cancellation_policy == WAIT]
    if slow or slow_children:
        return _wait_for(writer, held, report, slow, slow_children)
    _deliver(writer, held, report, asked, interrupted, children)
    return writer.finish(_delivered(writer.run, report, asked))


def _refuse(
    run: Run, task: Task, report: DeliverCancellation, asked: dict[str, Any], now: datetime
) -> Rejection | None:
    base = identify(report) | {"workflow_run_id": run.run_id, "delivered": False}
    request = run.cancellation
    if request is None or request.request_id != report.request_id:
        return Rejection("cancellation_not_requested", "The run has no such cancellation request.", base)
    if not task.is_cooperative:
        message = "The worker that holds this task has not declared cooperative cancellation."
        return Rejection("active_claim_cancellation_not_supported", message, base)
    if request.delivery is not None:
        if request.delivery == asked:
            return None
        return Rejection("cancellation_already_delivered", "The request was delivered into another call.", base)
    if run.ends_at is not None and run.ends_at <= now:
        return Rejection("run_timed_out", "The run has passed its deadline.", base)
    wrong = _call_complaint(run, report)
    if wrong is None:
        return None
    return Rejection("validation_failed", "The request is invalid.", base | {"errors": {"sequence": [wrong]}})


def _call_complaint(run: Run, report: DeliverCancellation) -> str | None:
    """What keeps the report from naming one call: recorded, or the next one that would have been."""
    following = report.sequence + report.sequence_span
    if report.sequence > run.next_workflow_sequence or report.sequence < run.next_workflow_sequence < following:
        return "must name a recorded call or the next one"
    if report.call_kind != "parallel" and report.sequence_span != 1:
        return "must be one call, unless it is a parallel group"
    operation, span = report.operation_sequence, report.operation_sequence_span
    if report.call_kind == "selection_handle":
        return None if operation is not None and operation + span <= report.sequence else "must follow its operation"
    return None if operation is None and span == 1 else "names an operation that only a selection handle has"


def _range(report: DeliverCancellation) -> range:
    if report.operation_sequence is not None:
        return range(report.operation_sequence, report.operation_sequence + report.operation_sequence_span)
    return range(report.sequence, report.sequence + report.sequence_span)


def _interrupted(writer: RunWriter, report: DeliverCancellation) -> list[tuple[Activity, Task]]:
    """The open activities that the delivery stops, with their tasks, in order; those to be abandoned are left out."""
    named = _range(report)
    tasks = {t.activity_sequence: t for t in writer.open_tasks() if t.kind is TaskKind.ACTIVITY}
    found = [(writer.snapshot.activities[sequence], tasks[sequence]) for sequence in sorted(tasks) if sequence in named]
    return [(activity, task) for activity, task in found if activity.cancellation_policy != ABANDON]


def _interrupted_children(writer: RunWriter, report: DeliverCancellation) -> list[ChildCall]:
    """The open children that are asked to cancel too, in order; those to be abandoned are left out."""
    named = _range(report)
    return [
        call
        for call in writer.open_children()
        if call.sequence in named and (call.cancellation_policy or ABANDON) != ABANDON
    ]


class _Place(msgspec.Struct, frozen=True):
    """Which call an event is about."""

    sequence: int


_decode_place = msgspec.json.Decoder(_Place).decode

OF_ATTEMPTS = frozenset({"ActivityStarted", "ActivityHeartbeatRecorded", "ActivityRetryScheduled"})
"""What is recorded of attempts before an activity ends."""


def _must_stop_first(activity: Activity, task: Task) -> bool:
    return activity.cancellation_policy == WAIT and task.state is TaskState.LEASED


def _wait_for(
    writer: RunWriter, task: Task, report: DeliverCancellation, slow: list[Task], slow_children: list[ChildCall]
) -> Transition:
    """Tell activities and children to stop; the end of each wakes the run, and the next claim delivers again."""
    for call in slow_children:
        ask_to_cancel(writer, call, None)
    for running in slow:
        told = copy.copy(running)
        told.is_cancel_requested = True
        writer.put_task(told)
    reply = (
        identify(report)
        | {"workflow_run_id": writer.run.run_id, "delivered": False, "claim_released": True}
        | {"reason": f"cancellation_waiting_for_{'child' if slow_children else 'activity'}"}
        | dict.fromkeys(_ECHOED)
    )
    return close_task(writer, task, "waiting_for_history", reply)


def _deliver(
    writer: RunWriter,
    task: Task,
    report: DeliverCancellation,
    asked: dict[str, Any],
    interrupted: list[tuple[Activity, Task]],
    children: list[ChildCall],
) -> None:
    """The request, if it still waits for the lease to end, goes before everything else that waits: what the code is
    told next is the cancellation, and no decision has seen the rest. What waits of the attempts that are stopped goes
    before their end."""
    stopped = {activity.sequence for activity, _ in interrupted}
    writer.append_waiting(lambda event: event.event_type == CANCELLATION_REQUESTED)
    writer.append_waiting(
        lambda event: event.event_type in OF_ATTEMPTS and _decode_place(event.payload).sequence in stopped
    )
    run, named = writer.run, _range(report)
    request = run.cancellation
    assert request is not None
    close_wait(writer)
    payload = {
        "workflow_command_id": request.request_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "sequence": report.sequence,
        "call_kind": report.call_kind,
        "sequence_span": report.sequence_span,
        "cancellation": request.context,
    }
    if report.operation_sequence is not None:
        payload["operation_sequence"] = report.operation_sequence
        payload["operation_sequence_span"] = report.operation_sequence_span
    writer.append("CooperativeCancellationDelivered", payload, workflow_command_id=request.request_id)
    changed = copy.copy(request)
    changed.delivery, changed.delivered_at = asked, writer.now
    run.cancellation = changed
    _close_selected_waits(writer, named)
    for timer in writer.pending_timers():
        if timer.sequence in named and timer.kind != CONDITION_TIMEOUT:
            cancel(writer, timer)
            _leave_group(writer, timer.group_base, timer.parallel_group_path)
    for activity, open_task in interrupted:
        _stop(writer, changed, activity, open_task)
    for call in children:
        ask_to_cancel(writer, call, None)
        cancel_call(writer, call)
        _leave_group(writer, call.group_base, call.parallel_group_path)
    if report.sequence == run.next_workflow_sequence:
        run.next_workflow_sequence += report.sequence_span
    seen = copy.copy(task)
    seen.claimed_history_sequence = run.last_history_sequence
    writer.put_task(seen)


def _stop(writer: RunWriter, request: Cancellation, activity: Activity, task: Task) -> None:
    message = "Activity cancelled because its workflow was asked to cancel."
    sequence = cancel_activity(writer, activity, task, request.request_id, message)
    writer.run.open_activity_count -= 1
    _leave_group(writer, activity.group_base, activity.parallel_group_path)
    for attempt in writer.transition.attempts:
        if (attempt.sequence, attempt.attempt) == (activity.sequence, task.attempt):
            attempt.cancellation = receipt(request, event_id(writer.run.run_id, sequence))


def _leave_group(writer: RunWriter, base: int | None, path: Path | None) -> None:
    """One leaf fewer to wait for; whether it was the last does not matter, the code has been told already."""
    if path is not None and is_selection(path):
        close_leaf(writer, path)
    else:
        writer.completes_group(base)


def _close_selected_waits(writer: RunWriter, named: range) -> None:
    """Selected conditions that the delivery interrupts are neither met nor over: they are no longer waited for."""
    for wait in [wait for wait in writer.run.selected_waits if wait.sequence in named]:
        timer = timeout_timer(writer.run, wait)
        if timer is not None:
            cancel(writer, timer)
        remove_wait(writer.run, wait)
        _leave_group(writer, None, wait.path)


def _delivered(run: Run, report: DeliverCancellation, asked: dict[str, Any]) -> dict[str, Any]:
    return identify(report) | asked | {"workflow_run_id": run.run_id, "delivered": True, "reason": None}


def decide_acknowledge(snapshot: Snapshot, report: AcknowledgeCancellation, now: datetime) -> Outcome:
    """Keep that the callback of an attempt has stopped; an activity that was waited for ends with it."""
    held = activities.guard(snapshot, report)
    if isinstance(held, Rejection):
        return held
    run = snapshot.run
    assert run is not None
    known = _known_receipt(run, held)
    if known is None or known["request_id"] != report.request_id:
        message = "The attempt was not asked to stop by this request."
        return Rejection("activity_cancellation_not_requested", message, activities.identify(report))
    reply = activities.identify(report) | {
        "lease_owner": report.lease_owner,
        "request_id": report.request_id,
        "acknowledged": True,
        "duplicate": known["callback_state"] == "stopped",
        "reason": None,
        "history_event_id": known["cancellation_history_event_id"],
        "heartbeat_recorded": False,
    }
    if reply["duplicate"]:
        return Transition(run=run, reply=reply)
    writer = RunWriter(snapshot, now)
    stopped = known | RECEIPT_STOPPED
    if isinstance(held, Attempt):
        kept = copy.copy(held)
        kept.cancellation = stopped
        writer.transition.acknowledged.append(kept)
        return writer.finish(reply)
    attempt = close_attempt(held, "cancelled", now, None)
    attempt.cancellation = stopped
    writer.transition.attempts.append(attempt)
    activity = snapshot.activities[report.sequence]
    resolve(writer, activity, held, "cancelled", "ActivityCancelled", cancelled_members(run, writer.now))
    return writer.finish(reply)


def _known_receipt(run: Run, held: Task | Attempt) -> dict[str, Any] | None:
    if isinstance(held, Attempt):
        return held.cancellation
    request = run.cancellation
    if request is None or not held.is_cancel_requested:
        return None
    return receipt(request, event_id(run.run_id, request.history_sequence))
