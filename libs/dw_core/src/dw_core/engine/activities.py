"""Reports on an activity attempt: complete, fail, heartbeat, status (engine §5, worker-plane §12)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dw_core.engine.activity_ends import resolve
from dw_core.engine.activity_outcomes import Failure, expired_timeout, settle_failure, settle_timeout
from dw_core.engine.activity_sessions import renew_session, session_of
from dw_core.engine.closing import close_attempt
from dw_core.engine.commands.groups import group_members
from dw_core.engine.inputs import (
    ActivityInput,
    CheckActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
)
from dw_core.engine.ownership import stop_reason, was_cancelled
from dw_core.engine.rows import Run, Task, TaskState
from dw_core.engine.run_rows import Attempt
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stopping import cancelled_members, receipt
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, event_id, execution_id, task_id
from dw_core.leases.durations import activity_lease_seconds, expires_at, is_expired
from dw_core.limits import HEARTBEAT_EVENT_INTERVAL_SECONDS
from dw_core.payloads.envelope import bare
from dw_core.protocol.timestamps import wire_time


def identify(report: ActivityInput) -> dict[str, Any]:
    """The members every answer about an attempt repeats."""
    return {
        "task_id": task_id(report.run_id, report.task_number),
        "activity_attempt_id": attempt_id(report.run_id, report.sequence, report.attempt),
    }


def guard(snapshot: Snapshot, report: ActivityInput) -> Task | Attempt | Rejection:
    """The live attempt's task, the record of a closed attempt, or a rejection (worker-plane §12.2).

    A report may still win after its lease has expired, until a sweep or another claim has moved the task on.
    """
    run = snapshot.run
    base = identify(report)
    if run is None or run.namespace != report.namespace or not 0 < report.task_number < run.next_task_number:
        return Rejection("task_not_found", "There is no such activity task.", base)
    task = snapshot.tasks.get(report.task_number)
    closed = snapshot.attempts.get((report.sequence, report.attempt))
    live = snapshot.activity_task(report.sequence)
    if report.sequence not in snapshot.activities:
        return Rejection("attempt_not_found", "There is no such attempt.", base)
    if live is not None and live.state is TaskState.LEASED and live.attempt == report.attempt:
        if live.task_number != report.task_number:
            return Rejection("task_mismatch", "The attempt belongs to another task.", base)
        return _owned(live.lease_owner, report, base) or live
    if closed is None:
        reason = "attempt_not_found" if task is None or task.activity_sequence == report.sequence else "task_mismatch"
        return Rejection(reason, "There is no such attempt of this task.", base)
    if closed.task_number != report.task_number:
        return Rejection("task_mismatch", "The attempt belongs to another task.", base)
    return _owned(closed.lease_owner, report, base) or closed


def _owned(owner: str | None, report: ActivityInput, base: dict[str, Any]) -> Rejection | None:
    if owner == report.lease_owner:
        return None
    return Rejection("lease_owner_mismatch", "Another worker holds this attempt.", base | {"lease_owner": owner})


def decide_complete(snapshot: Snapshot, report: CompleteActivity, now: datetime) -> Outcome:
    """Record the result and wake the run, once."""
    closed = _close_attempt(snapshot, report, now, "completed")
    if not isinstance(closed, _Closed):
        return closed
    payload = {"result": bare(report.result), "payload_codec": "avro"}
    activity = snapshot.activities[report.sequence]
    resolve(closed.writer, activity, closed.task, "completed", "ActivityCompleted", payload)
    return _finish(closed.writer, closed.reply)


def decide_fail(snapshot: Snapshot, report: FailActivity, now: datetime) -> Outcome:
    """Schedule the next attempt, or record the failure and wake the run."""
    closed = _close_attempt(snapshot, report, now, "failed")
    if not isinstance(closed, _Closed):
        return closed
    activity = snapshot.activities[report.sequence]
    if closed.task.is_cancel_requested and _has_stopped(report.failure):
        members = cancelled_members(closed.writer.run, closed.writer.now)
        resolve(closed.writer, activity, closed.task, "cancelled", "ActivityCancelled", members)
        return _finish(closed.writer, closed.reply)
    settle_failure(closed.writer, activity, closed.task, Failure.reported(report.failure))
    return _finish(closed.writer, closed.reply)


def _has_stopped(failure: dict[str, Any]) -> bool:
    """Whether an activity that was told to stop reports that it did."""
    return failure.get("cancelled") is True or failure.get("type") == "ActivityCancelled"


class _Closed(NamedTuple):
    """A report that counts: its attempt is closed, and what follows from it is up to the caller."""

    writer: RunWriter
    task: Task
    reply: dict[str, Any]


def _close_attempt(snapshot: Snapshot, report: ActivityInput, now: datetime, outcome: str) -> _Closed | Outcome:
    held = guard(snapshot, report)
    if isinstance(held, Rejection):
        return held
    if isinstance(held, Attempt):
        return _repeat(snapshot, report, held, outcome)
    writer = RunWriter(snapshot, now)
    late = _refuse_overdue(writer, report, held, outcome)
    if late is not None:
        return late
    reply = _recorded(report, outcome)
    writer.transition.attempts.append(close_attempt(held, outcome, now, reply))
    return _Closed(writer, held, reply)


def decide_heartbeat(snapshot: Snapshot, report: HeartbeatActivity, now: datetime) -> Outcome:
    """Renew lease and heartbeat deadline and keep the progress, or say that the attempt should stop."""
    held = guard(snapshot, report)
    if isinstance(held, Rejection):
        return held
    run = snapshot.run
    assert run is not None
    if isinstance(held, Attempt):
        return Transition(run=run, reply=_stopped(run, report, late_reason(run, held)))
    if expired_timeout(held, now) is not None:
        return Transition(run=run, reply=_stopped(run, report, "activity_not_running"))
    if held.is_cancel_requested:
        return Transition(run=run, reply=_stopped(run, report, "activity_cancelled"))
    writer = RunWriter(snapshot, now)
    activity = snapshot.activities[report.sequence]
    task = copy.copy(held)
    seconds = activity_lease_seconds(report.lease_seconds, activity.timeouts.start_to_close_timeout)
    task.lease_expires_at = expires_at(now, seconds)
    if activity.timeouts.heartbeat_timeout:
        task.heartbeat_at = now + timedelta(seconds=activity.timeouts.heartbeat_timeout)
    if report.progress:
        task.heartbeat_details = report.progress
    if _is_event_due(held, now) and not writer.is_buffering:
        writer.append(
            "ActivityHeartbeatRecorded",
            {
                "activity_execution_id": execution_id(report.run_id, report.sequence),
                "activity_attempt_id": attempt_id(report.run_id, report.sequence, report.attempt),
                "activity_type": activity.activity_type,
                "sequence": report.sequence,
                "attempt_number": report.attempt,
                "heartbeat_at": wire_time(now),
                "lease_expires_at": wire_time(task.lease_expires_at),
                "progress": report.progress,
            }
            | group_members(activity.parallel_group_path),
        )
    task.last_heartbeat_at = now
    writer.put_task(task)
    return writer.finish(renew_session(writer, task, _continuing(report, task, heartbeat_recorded=True)))


def decide_status(snapshot: Snapshot, report: CheckActivity, now: datetime) -> Outcome:
    """What a heartbeat would say, without renewing or writing anything (worker-plane §12.9)."""
    held = guard(snapshot, report)
    if isinstance(held, Rejection):
        return held
    run = snapshot.run
    assert run is not None
    if isinstance(held, Attempt):
        reply = _stopped(run, report, late_reason(run, held))
        attempt_status, task_status = held.status, "closed"
        acknowledgement = held.cancellation
    else:
        lapsed = is_expired(held.lease_expires_at, now)
        request = run.cancellation if held.is_cancel_requested else None
        acknowledgement = None if request is None else receipt(request, event_id(run.run_id, request.history_sequence))
        if acknowledgement is not None:
            reply = _stopped(run, report, "activity_cancelled")
        elif lapsed or expired_timeout(held, now) is not None:
            reply = _stopped(run, report, "task_not_leased" if lapsed else "activity_not_running")
        else:
            reply = _continuing(report, held, heartbeat_recorded=False)
        attempt_status, task_status = "running", "leased"
    live = snapshot.activity_task(report.sequence)
    return Transition(
        run=run,
        reply=reply
        | {
            "run_status": run.status,
            "activity_status": activity_status(snapshot, report.sequence),
            "attempt_status": attempt_status,
            "task_status": task_status,
            "deadlines": deadlines(live) if live else {},
            "worker_session": session_of(snapshot, live),
        }
        | ({} if acknowledgement is None else {"cancellation_acknowledgement": acknowledgement}),
    )


def activity_status(snapshot: Snapshot, sequence: int) -> str:
    """``pending``, ``running`` or the terminal status of an execution."""
    live = snapshot.activity_task(sequence)
    if live is None:
        return snapshot.activities[sequence].status
    return "running" if live.state is TaskState.LEASED else "pending"


def deadlines(task: Task) -> dict[str, str]:
    """The configured deadlines of an activity task, by timeout kind."""
    known = {
        "schedule_to_start": task.schedule_to_start_at if task.state is TaskState.READY else None,
        "schedule_to_close": task.schedule_to_close_at,
        "start_to_close": task.start_to_close_at,
        "heartbeat": task.heartbeat_at,
    }
    return {kind: wire_time(at) for kind, at in known.items() if at is not None}


def _is_event_due(task: Task, now: datetime) -> bool:
    """History keeps the first heartbeat of an attempt and of every interval of its life."""
    last, start = task.last_heartbeat_at, task.leased_at
    if last is None or start is None:
        return True
    interval = timedelta(seconds=HEARTBEAT_EVENT_INTERVAL_SECONDS)
    return (now - start) // interval > (last - start) // interval


def _recorded(report: ActivityInput, outcome: str) -> dict[str, Any]:
    return identify(report) | {"outcome": outcome, "recorded": True, "reason": None, "next_task_id": None}


def _finish(writer: RunWriter, reply: dict[str, Any]) -> Transition:
    transition = writer.finish(reply)
    created = writer.new_task_ids
    reply["next_task_id"] = created[-1] if created else None
    return transition


def _refuse_overdue(writer: RunWriter, report: ActivityInput, task: Task, outcome: str) -> Transition | None:
    """A deadline that has passed is enforced before a late report is looked at."""
    kind = expired_timeout(task, writer.now)
    if kind is None:
        return None
    settle_timeout(writer, writer.snapshot.activities[report.sequence], task, kind)
    reply = _refusal(writer.run, report, outcome, "stale_attempt", f"The attempt passed its {kind} deadline.", {})
    return writer.finish(reply)


def _repeat(snapshot: Snapshot, report: ActivityInput, closed: Attempt, outcome: str) -> Outcome:
    """A report on a closed attempt: the stored answer when it is the same report, else why it lost."""
    run = snapshot.run
    assert run is not None
    if closed.status == outcome and closed.reply is not None:
        return Transition(run=run, reply=closed.reply)
    statuses = {
        "activity_status": activity_status(snapshot, report.sequence),
        "attempt_status": closed.status,
        "task_status": "closed",
        "lease_owner": closed.lease_owner,
        "lease_expires_at": None,
    }
    reason = late_reason(run, closed)
    reason = "stale_attempt" if reason in ("attempt_closed", "activity_cancelled") else reason
    return _refusal(run, report, outcome, reason, "The attempt is no longer running.", statuses)


def late_reason(run: Run, closed: Attempt) -> str:
    """Why a report on a closed attempt comes too late."""
    if closed.status == "cancelled" and run.is_terminal:
        return stop_reason(run) if was_cancelled(run) else "run_closed"
    return "activity_cancelled" if closed.cancellation is not None else "attempt_closed"


def _refusal(
    run: Run, report: ActivityInput, outcome: str, reason: str, message: str, statuses: dict[str, Any]
) -> Rejection:
    members = identify(report) | {
        "outcome": "ignored" if was_cancelled(run) else outcome,
        "recorded": False,
        "cancel_requested": was_cancelled(run),
        "can_continue": False,
        "run_status": run.status,
        "run_closed_reason": run.closed_reason,
        "run_closed_at": wire_time(run.closed_at),
    }
    return Rejection(reason, message, members | statuses)


def _stopped(run: Run, report: ActivityInput, reason: str) -> dict[str, Any]:
    """A stop answer is a normal 200 (worker-plane §12.3)."""
    return identify(report) | {
        "lease_owner": report.lease_owner,
        "can_continue": False,
        "cancel_requested": reason in ("run_cancelled", "run_terminated", "activity_cancelled", "task_cancelled"),
        "reason": reason,
        "heartbeat_recorded": False,
        "run_closed_reason": run.closed_reason,
        "run_closed_at": wire_time(run.closed_at),
        "worker_session": None,
        "lease_expires_at": None,
        "last_heartbeat_at": None,
    }


def _continuing(report: ActivityInput, task: Task, *, heartbeat_recorded: bool) -> dict[str, Any]:
    return identify(report) | {
        "lease_owner": task.lease_owner,
        "can_continue": True,
        "cancel_requested": False,
        "reason": None,
        "heartbeat_recorded": heartbeat_recorded,
        "run_closed_reason": None,
        "run_closed_at": None,
        "worker_session": None,
        "lease_expires_at": wire_time(task.lease_expires_at),
        "last_heartbeat_at": wire_time(task.last_heartbeat_at),
    }
