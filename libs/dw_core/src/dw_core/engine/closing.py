"""Closing a run: by its own code, by its deadline, from outside (engine §6.10, §6.13)."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from dw_core.engine.children import let_go, tell_parent
from dw_core.engine.commands.groups import group_members
from dw_core.engine.commands.parsed import CompleteWorkflow, ContinueAsNew, FailWorkflow
from dw_core.engine.inputs import TimeOutRun
from dw_core.engine.rows import Cancellation, Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity, Attempt
from dw_core.engine.service_calls import end_calls
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.successors import retry, succeed
from dw_core.engine.timers import cancel_timers
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.update_outcomes import fail_open_updates
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.payloads.envelope import bare, payload_of
from dw_core.protocol.timestamps import wire_time

CANCELLED_EXCEPTION = "WorkflowCancelled"
"""The type of the exception that a delivered cancellation raises in the workflow's code."""


def complete(writer: RunWriter, task: Task, command: CompleteWorkflow) -> None:
    """``complete_workflow``: signals and updates that arrived meanwhile are kept, open activities cancelled."""
    writer.flush_commands()
    cancel_open_work(writer, None)
    writer.append(
        "WorkflowCompleted",
        {"output": bare(command.result), "payload_codec": "avro"},
        workflow_task_id=task_id(task.run_id, task.task_number),
    )
    writer.run.output = command.result
    _close_run(writer, "completed", "completed", {"output": bare(command.result), "payload_codec": "avro"})


def continue_as_new(writer: RunWriter, task: Task, command: ContinueAsNew) -> None:
    """``continue_as_new``: open work is cancelled, children run on, the next run gets what is still to be seen.

    That are the buffered signals, and the open updates that were not meant for this very run.
    """
    arrived = writer.take_commands()
    cancel_open_work(writer, None)
    successor = succeed(writer, command, arrived)
    writer.append(
        "WorkflowContinuedAsNew",
        {
            "sequence": writer.run.next_workflow_sequence,
            "continued_to_run_id": successor.run_id,
            "continued_to_run_number": successor.run_number,
            "workflow_link_id": f"{writer.run.run_id}.n",
            "closed_reason": "continued",
        },
        workflow_task_id=task_id(task.run_id, task.task_number),
    )
    _close_run(writer, "completed", "continued", None)


def fail(writer: RunWriter, task: Task, command: FailWorkflow) -> None:
    """``fail_workflow``; code that lets a delivered cancellation through ends its run as cancelled (engine §6.12)."""
    writer.flush_commands()
    request = writer.run.cancellation
    if request is not None and request.delivery is not None and command.exception_type == CANCELLED_EXCEPTION:
        _finish_cancelled(writer, task, request)
        return
    cancel_open_work(writer, None)
    failed_by = command.failed_activity_execution_id
    payload: dict[str, Any] = {
        "failure_id": f"{writer.run.run_id}.f",
        "source_kind": "activity_execution" if failed_by else "workflow_run",
        "source_id": failed_by or writer.run.run_id,
        "failure_category": "activity" if failed_by else "application",
        "non_retryable": command.non_retryable,
        "exception_type": command.exception_type,
        "exception_class": command.exception_class or command.exception_type or "WorkflowFailed",
        "message": command.message,
        "exception": command.exception or {"type": command.exception_type, "message": command.message},
        "failed_step_sequence": command.failed_step_sequence,
    }
    known = {key: value for key, value in payload.items() if value is not None}
    writer.append("WorkflowFailed", known, workflow_task_id=task_id(task.run_id, task.task_number))
    is_retried = not command.non_retryable and retry(writer, command.exception_type, command.exception_class)
    _close_run(writer, "failed", "failed", None if is_retried else known)


def close_host(writer: RunWriter, activity: Activity, event_type: str, outcome: dict[str, Any]) -> None:
    """The activity of a standalone run has ended with this event: so does its run (engine §5)."""
    if event_type == "ActivityCompleted":
        output = {"output": outcome["result"], "payload_codec": "avro"}
        writer.append("WorkflowCompleted", output)
        writer.run.output = payload_of(outcome["result"])
        _close_run(writer, "completed", "completed", output)
        return
    members = ("failure_category", "non_retryable", "exception_type", "exception_class", "message", "exception")
    payload: dict[str, Any] = {
        "failure_id": f"{writer.run.run_id}.f",
        "source_kind": "activity_execution",
        "source_id": execution_id(activity.run_id, activity.sequence),
        "timeout_kind": outcome.get("timeout_kind"),
        **{name: outcome.get(name) for name in members},
    }
    known = {key: value for key, value in payload.items() if value is not None}
    writer.append("WorkflowFailed", known)
    _close_run(writer, "failed", "failed", known)


def _finish_cancelled(writer: RunWriter, task: Task, request: Cancellation) -> None:
    cancel_open_work(writer, request.request_id)
    members = ended_by_command(writer.run, "cancelled", request.request_id, request.reason)
    writer.append(
        "WorkflowCancelled",
        members,
        workflow_task_id=task_id(task.run_id, task.task_number),
        workflow_command_id=request.request_id,
    )
    _close_run(writer, "cancelled", "cancelled", members)


def time_out(writer: RunWriter) -> None:
    """Close a run whose deadline has passed; the execution deadline wins a tie."""
    run = writer.run
    execution, single = run.execution_deadline_at, run.run_deadline_at
    is_execution = execution is not None and (single is None or execution <= single)
    kind = "execution_timeout" if is_execution else "run_timeout"
    payload = {
        "failure_id": f"{run.run_id}.f",
        "timeout_kind": kind,
        "failure_category": "timeout",
        "message": f"Workflow timed out: {kind}.",
        "exception_class": "WorkflowTimedOut",
        "execution_deadline_at": wire_time(execution),
        "run_deadline_at": wire_time(single),
    }
    known = {key: value for key, value in payload.items() if value is not None}
    _close_open_work(writer, None)
    writer.append("WorkflowTimedOut", known)
    is_retried = not is_execution and retry(writer, "WorkflowTimedOut")
    _close_run(writer, "failed", "timed_out", None if is_retried else known)


def decide_time_out(snapshot: Snapshot, due: TimeOutRun, now: datetime) -> Outcome:
    """Re-check a sweeper's finding under the lock."""
    run = snapshot.run
    if run is None or run.is_terminal or run.ends_at is None or run.ends_at > now:
        return Rejection("run_not_active", "The run is closed or its deadline has not passed.")
    writer = RunWriter(snapshot, now)
    if run.cancellation is not None and run.ends_at != run.deadline_at:
        _end_cleanup(writer, run.cancellation)
        return writer.finish({"run_id": run.run_id, "outcome": "cancelled"})
    time_out(writer)
    return writer.finish({"run_id": run.run_id, "outcome": "timed_out"})


def _end_cleanup(writer: RunWriter, request: Cancellation) -> None:
    """The time to clean up is over: the run is cancelled as it stands (engine §6.12)."""
    reason = request.reason or "The time to clean up was over."
    members = ended_by_command(writer.run, "cancelled", request.request_id, reason)
    close_from_outside(writer, "WorkflowCancelled", members, "cancelled", "cancelled", request.request_id)


def ended_by_command(run: Run, status: str, command_id: str, reason: str | None) -> dict[str, Any]:
    """The members of ``WorkflowCancelled`` or ``WorkflowTerminated``, as ``status`` says (engine §2.3)."""
    return {
        "workflow_command_id": command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "reason": reason,
        "failure_id": f"{run.run_id}.f",
        "failure_category": status,
        "closed_reason": status,
        "exception_class": f"Workflow{status.capitalize()}",
        "message": f"Workflow {status}" + (f": {reason}" if reason else "."),
    }


def close_from_outside(
    writer: RunWriter,
    event_type: str,
    payload: dict[str, Any],
    status: str,
    closed_reason: str,
    command_id: str | None = None,
) -> None:
    """Close a run whose code has no say: keep waiting outcomes, cancel the leased task and open activities."""
    _close_open_work(writer, command_id)
    writer.append(event_type, payload, workflow_command_id=command_id)
    _close_run(writer, status, closed_reason, payload)


def _close_open_work(writer: RunWriter, command_id: str | None) -> None:
    writer.end_lease()
    task = writer.workflow_task
    if task is not None:
        writer.close_workflow_task(task, "cancelled", None)
    cancel_open_work(writer, command_id)


def cancel_open_work(writer: RunWriter, command_id: str | None) -> None:
    """Close every open activity and pending timer of a run that is about to close."""
    _cancel_activities(writer, command_id)
    cancel_timers(writer)


def _cancel_activities(writer: RunWriter, command_id: str | None) -> None:
    """Close every open activity with one ``ActivityCancelled`` each, in sequence order."""
    if writer.run.open_activity_count == 0:
        return
    known = writer.snapshot.activities | writer.transition.activities
    open_tasks = {t.activity_sequence: t for t in writer.open_tasks() if t.kind is TaskKind.ACTIVITY}
    for sequence in sorted(open_tasks):
        cancel_activity(writer, known[sequence], open_tasks[sequence], command_id)
    writer.run.open_activity_count = 0


def cancel_activity(
    writer: RunWriter,
    activity: Activity,
    task: Task,
    command_id: str | None,
    message: str = "Activity cancelled because its workflow run closed.",
) -> int:
    """Close one open activity with its event, whose history sequence is returned; the caller counts it."""
    now = writer.now
    closed = copy.copy(activity)
    closed.status, closed.closed_at, closed.attempt_count = "cancelled", now, task.attempt
    writer.put_activity(closed)
    writer.close_task(task)
    is_running = task.state is TaskState.LEASED
    if is_running:
        writer.transition.attempts.append(close_attempt(task, "cancelled", now, None))
    payload = {
        "workflow_command_id": command_id,
        "activity_execution_id": execution_id(activity.run_id, activity.sequence),
        "activity_attempt_id": attempt_id(activity.run_id, activity.sequence, task.attempt) if is_running else None,
        "activity_type": activity.activity_type,
        "sequence": activity.sequence,
        "attempt_number": task.attempt or None,
        "cancelled_at": wire_time(now),
        "message": message,
    }
    known = {key: value for key, value in payload.items() if value is not None}
    return writer.append("ActivityCancelled", known | group_members(activity.parallel_group_path))


def close_attempt(task: Task, status: str, now: datetime, reply: dict[str, Any] | None) -> Attempt:
    """The record that a leased activity task's live attempt leaves behind."""
    return Attempt(
        run_id=task.run_id,
        sequence=task.activity_sequence,
        attempt=task.attempt,
        task_number=task.task_number,
        status=status,
        lease_owner=task.lease_owner,
        reply=reply,
        started_at=task.leased_at,
        closed_at=now,
    )


_FAILURE_MEMBERS = ("failure_id", "failure_category", "exception_type", "exception_class", "message", "exception")
_OUTCOME_MEMBERS = (*_FAILURE_MEMBERS, "output", "payload_codec")


def _close_run(writer: RunWriter, status: str, closed_reason: str, outcome: dict[str, Any] | None) -> None:
    """``outcome`` are the members of the terminal event that a parent is told; None when another run follows."""
    run = writer.run
    run.status, run.closed_reason, run.closed_at = status, closed_reason, writer.now
    run.open_wait, run.selected_waits, run.service_wait = None, [], None
    fail_open_updates(writer)
    let_go(writer, is_continued=closed_reason == "continued")
    end_calls(writer, closed_reason, outcome)
    if outcome is not None:
        told = {name: outcome[name] for name in _OUTCOME_MEMBERS if outcome.get(name) is not None}
        about = {"child_status": status, "closed_reason": closed_reason, "closed_at": wire_time(run.closed_at)}
        tell_parent(writer, "child_closed", about | told)
