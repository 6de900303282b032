"""Reports on a leased workflow task: complete, fail, heartbeat, and the end of a lease (engine §3.3, §4)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.cancellation import is_undelivered, observation
from dw_core.engine.commands.apply import apply_commands
from dw_core.engine.commands.apply_update import apply_update, invalid_commands
from dw_core.engine.commands.parsed import Parsed
from dw_core.engine.history_limits import exceeded, is_full, over_transaction
from dw_core.engine.inputs import (
    CheckWorkflowTask,
    CompleteWorkflowTask,
    FailWorkflowTask,
    HeartbeatWorkflowTask,
)
from dw_core.engine.message_streams import refuse_positions
from dw_core.engine.ownership import guard, identify, settled_elsewhere
from dw_core.engine.redriving import take_over_results
from dw_core.engine.rows import Run, Task, TaskState
from dw_core.engine.run_rows import Receipt
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.sticky import refuse_claim, remember
from dw_core.engine.timers import end_lease
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.update_tasks import update_of
from dw_core.engine.updates import release_updates
from dw_core.engine.writer import SIGNAL_RECEIVED, RunWriter
from dw_core.ids import task_id
from dw_core.leases.durations import expires_at, redelivery_backoff_seconds
from dw_core.limits import REPLAY_BLOCKED_AFTER_FAILURES, SECONDS_MAX, Limits
from dw_core.protocol.timestamps import wire_time

WAITING_FOR_HISTORY = "WorkflowTaskWaitingForHistory"
"""The failure type that means "nothing to do yet" (engine §0.1 rule 3)."""

_REPLAY_FAILURES = frozenset(
    {
        "NonDeterministicReplayError",
        "InvalidWorkflowDefinition",
        "WorkflowEntryArgumentsMismatchError",
        "WorkflowPayloadDecodeError",
    }
)
_UNREGISTERED = "no workflow registered for type"
_NOTHING_NEW = invalid_commands({"commands": ["record nothing new, and the run has nothing to wait for"]})
"""Such a run would never be woken again; a refused completion is reported as failed and redelivered (engine §4.6)."""


def decide_check(snapshot: Snapshot, report: CheckWorkflowTask, now: datetime) -> Outcome:
    """Answer whether the lease is good, changing nothing."""
    held = guard(snapshot, report, now)
    if isinstance(held, Rejection):
        return held
    assert snapshot.run is not None
    if isinstance(held, Receipt):
        return settled_elsewhere(snapshot.run, report, held)
    return Transition(
        run=snapshot.run,
        reply=identify(report) | {"claimed_history_sequence": held.claimed_history_sequence},
    )


def decide_heartbeat(snapshot: Snapshot, report: HeartbeatWorkflowTask, now: datetime) -> Outcome:
    """Renew the lease to ``now`` + the lease length."""
    held = guard(snapshot, report, now)
    if isinstance(held, Rejection):
        return held
    assert snapshot.run is not None
    if isinstance(held, Receipt):
        return settled_elsewhere(snapshot.run, report, held)
    writer = RunWriter(snapshot, now)
    task = copy.copy(held)
    task.lease_expires_at = expires_at(now, report.lease_seconds)
    writer.put_task(task)
    request = observation(writer.run.cancellation) if task.is_cooperative else None
    return writer.finish(
        identify(report)
        | {
            "lease_owner": task.lease_owner,
            "renewed": True,
            "lease_expires_at": wire_time(task.lease_expires_at),
            "run_status": writer.run.status,
            "task_status": "leased",
            "reason": None,
        }
        | ({} if request is None else {"cancellation_request": request})
    )


def decide_complete(snapshot: Snapshot, report: CompleteWorkflowTask, now: datetime, limits: Limits) -> Outcome:
    """Apply the commands, close the task and open the follow-up, or refuse the whole batch (engine §3.3, §3.4).

    A run past its deadline refuses the batch with ``run_timed_out``; the caller then submits the time-out itself.
    """
    held = guard(snapshot, report, now)
    if isinstance(held, Rejection):
        return held
    assert snapshot.run is not None
    if isinstance(held, Receipt):
        return _repeat(snapshot, report, held, "completed")
    writer = RunWriter(snapshot, now)
    if report.parsed is None:
        return _refuse(report, invalid_commands(report.errors or {}))
    ends_at = writer.run.ends_at
    if ends_at is not None and ends_at <= now:
        return Rejection(
            "run_timed_out",
            "The run has passed its deadline.",
            identify(report) | {"outcome": "rejected", "recorded": False},
        )
    refused = refuse_claim(writer.run, report.sticky, report.lease_owner) or refuse_positions(snapshot, report.parsed)
    if refused is not None:
        return _refuse(report, refused)
    if update_of(held) is not None:
        refused = apply_update(writer, held, report.parsed)
    else:
        refused = _full(writer, report.parsed, limits)
        refused = refused or apply_commands(writer, held, report.parsed, limits) or over_transaction(writer, limits)
    if refused is None and not writer.transition.events and not _has_something_to_wait_for(snapshot, held):
        refused = _NOTHING_NEW
    if refused is not None:
        return _refuse(report, refused)
    run = writer.run
    remember(run, report.sticky, now)
    if not run.is_terminal:
        run.status = "waiting"
        if run.redrive_of is not None:
            take_over_results(writer)
        if is_undelivered(run) and writer.transition.events:
            # What was decided before the cancellation could be delivered is recorded now; the next claim delivers it.
            context = {} if update_of(held) is not None else held.resume or {}
            writer.wake_for_recorded(run.last_history_sequence, context)
    _succeed(run)
    reply = identify(report) | {
        "outcome": "completed",
        "recorded": True,
        "run_id": run.run_id,
        "run_status": run.status,
        "created_task_ids": writer.new_task_ids,
        "reason": None,
    }
    return close_task(writer, held, "completed", reply)


def _full(writer: RunWriter, batch: Parsed, limits: Limits) -> Rejection | None:
    """A full history takes the end of its run and nothing else; the caller then has the run ended."""
    if batch.is_terminal or not is_full(writer.run, limits):
        return None
    return exceeded("history_events", writer.run.last_history_sequence, limits.history_events_max)


def _refuse(report: CompleteWorkflowTask, refused: Rejection) -> Rejection:
    return Rejection(refused.reason, refused.message, identify(report) | refused.fields)


def decide_fail(snapshot: Snapshot, report: FailWorkflowTask, now: datetime) -> Outcome:
    """Close the task: as a plain acknowledgement, or as failed with a replacement after a back-off."""
    held = guard(snapshot, report, now)
    if isinstance(held, Rejection):
        return held
    assert snapshot.run is not None
    if isinstance(held, Receipt):
        is_waiting = report.failure_type == WAITING_FOR_HISTORY
        return _repeat(snapshot, report, held, *(("waiting_for_history", "failed") if is_waiting else ("failed",)))
    writer = RunWriter(snapshot, now)
    is_acknowledged = report.failure_type == WAITING_FOR_HISTORY and update_of(held) is None
    if is_acknowledged and _has_something_to_wait_for(snapshot, held):
        _succeed(writer.run)
        return close_task(writer, held, "waiting_for_history", _failed_reply(report, "waiting_for_history"))
    return _fail(writer, held, report)


def _succeed(run: Run) -> None:
    run.task_failure_count, run.replay_blocked, run.blocked_build_id = 0, False, None


def _has_something_to_wait_for(snapshot: Snapshot, task: Task) -> bool:
    """Whether the run will be woken again: a signal wakes only a run with an open condition wait, an update any run."""
    run = snapshot.run
    assert run is not None
    will_wake = any(event.resume is not None and event.event_type != SIGNAL_RECEIVED for event in snapshot.inbox)
    is_updated = any(update.closed_at is None for update in snapshot.updates.values())
    return run.is_waiting or will_wake or is_updated or run.last_wake_sequence > task.claimed_history_sequence


def _failed_reply(report: FailWorkflowTask, outcome: str) -> dict[str, Any]:
    return identify(report) | {"outcome": outcome, "recorded": True, "reason": None, "next_task_id": None}


def close_task(writer: RunWriter, task: Task, outcome: str, reply: dict[str, Any]) -> Transition:
    """Close a task, append what was buffered, open the follow-up. A plain task has also consumed its wakes."""
    run = writer.run
    if run.status == "pending":
        run.status = "waiting"
    is_plain = update_of(task) is None
    if is_plain:
        run.consumed_wake_sequence = max(run.consumed_wake_sequence, task.claimed_history_sequence)
    writer.close_workflow_task(task, outcome, reply)
    if not run.is_terminal:
        if is_plain:
            release_updates(writer)
            run.pending_signal_count = len(writer.buffered_signals)
        end_lease(writer)
    transition = writer.finish(reply)
    if "created_task_ids" in reply:
        reply["created_task_ids"] = writer.new_task_ids
    if "next_task_id" in reply and writer.workflow_task is not None:
        reply["next_task_id"] = task_id(run.run_id, writer.workflow_task.task_number)
    return transition


def _fail(writer: RunWriter, task: Task, report: FailWorkflowTask) -> Transition:
    run = writer.run
    run.task_failure_count += 1
    remember(run, None, writer.now)
    seconds = redelivery_backoff_seconds(run.task_failure_count)
    is_replay = report.failure_type in _REPLAY_FAILURES or _UNREGISTERED in report.message
    if is_replay and run.task_failure_count >= REPLAY_BLOCKED_AFTER_FAILURES:
        # Nobody retries until an operator repairs the run or a worker of another build comes (engine §4.6).
        run.replay_blocked, run.blocked_build_id = True, report.build_id
        seconds = SECONDS_MAX
    reply = _failed_reply(report, "failed")
    writer.close_workflow_task(task, "failed", reply)
    end_lease(writer)
    due = writer.now + timedelta(seconds=seconds)
    replacement = writer.open_workflow_task(writer.newest_resume(task.resume), available_at=due)
    replacement.repair_count = task.repair_count
    reply["next_task_id"] = task_id(run.run_id, replacement.task_number)
    return writer.finish(reply)


def _repeat(
    snapshot: Snapshot, report: CompleteWorkflowTask | FailWorkflowTask, receipt: Receipt, *outcomes: str
) -> Outcome:
    """The same report once more: the stored answer, without doing anything again."""
    assert snapshot.run is not None
    if receipt.outcome in outcomes and receipt.reply is not None:
        return Transition(run=snapshot.run, reply=receipt.reply)
    return settled_elsewhere(snapshot.run, report, receipt)


def return_to_ready(writer: RunWriter, task: Task) -> None:
    """The lease is over without a report: the same task becomes claimable again (engine §4.5)."""
    free = copy.copy(task)
    free.state = TaskState.READY
    free.lease_owner = free.leased_at = free.lease_expires_at = free.poll_request_id = None
    free.available_at = writer.now
    free.needs_cooperation, free.is_cooperative = writer.run.cancellation is not None, None
    free.reserved_for = free.reserved_until = None
    free.repair_count += 1
    writer.put_task(free)
    end_lease(writer)
