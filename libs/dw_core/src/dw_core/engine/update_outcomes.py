"""What becomes of an accepted update: applied by a worker, or failed because its run has closed (engine §6.9)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.commands.parsed import CompleteUpdate, FailUpdate
from dw_core.engine.rows import Run
from dw_core.engine.selections import satisfy
from dw_core.engine.service_calls import end_update_call
from dw_core.engine.update_rows import Update
from dw_core.engine.writer import RunWriter
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope

UPDATE_APPLIED = "UpdateApplied"
UPDATE_COMPLETED = "UpdateCompleted"


def complete_update(writer: RunWriter, update: Update, command: CompleteUpdate, source: str) -> None:
    """The handler returned. What it did may meet the condition its run waits for, so the run is woken (engine §4.3).

    A selected condition is taken as met, as after a signal (engine §3.5).
    """
    run = writer.run
    selected = writer.lowest_selected_wait if run.open_wait is None else None
    position = _position(writer)
    applied = _named(run, update, position) | {
        "arguments": None if update.arguments is None else envelope(update.arguments),
        "payload_codec": CODEC,
    }
    wake = {"workflow_command_id": update.command_id, "workflow_event_type": UPDATE_APPLIED}
    sequence = writer.append(
        UPDATE_APPLIED,
        applied,
        workflow_task_id=source,
        workflow_command_id=update.command_id,
        wake=wake if run.open_wait is not None or not run.is_waiting else None,
    )
    if run.open_wait is not None:
        run.open_wait = msgspec.structs.replace(run.open_wait, notified_at=sequence)
    if selected is not None:
        satisfy(writer, selected, wake)
    completed = _named(run, update, position) | {"result": envelope(command.result), "payload_codec": CODEC}
    writer.append(UPDATE_COMPLETED, completed, workflow_task_id=source, workflow_command_id=update.command_id)
    _close(writer, update, "completed", workflow_sequence=position, result=command.result, applied_at=writer.now)


def fail_update(writer: RunWriter, update: Update, command: FailUpdate, source: str) -> None:
    """The handler raised. No replay runs it again, so its run is woken only if nothing else will."""
    run = writer.run
    position = _position(writer)
    members = _named(run, update, position) | {
        "failure_id": _failure_id(update),
        "failure_category": "application",
        "non_retryable": command.non_retryable,
        "exception_type": command.exception_type,
        "exception_class": command.exception_class or command.exception_type or "UpdateFailed",
        "message": command.message,
        "exception": {"type": command.exception_type, "message": command.message},
    }
    sequence = writer.append(
        UPDATE_COMPLETED, _known(members), workflow_task_id=source, workflow_command_id=update.command_id
    )
    if not run.is_waiting:
        writer.wake_for_recorded(sequence, {"workflow_event_type": UPDATE_COMPLETED})
    _close(
        writer,
        update,
        "failed",
        workflow_sequence=position,
        failure_id=_failure_id(update),
        failure_message=command.message,
    )


def fail_open_updates(writer: RunWriter) -> None:
    """The run has closed: what was accepted and not applied fails, in the order of acceptance (engine §6.9)."""
    run = writer.run
    for update in writer.open_updates():
        message = f"Workflow run closed as {run.status} before accepted update {update.update_name} could be applied"
        members = _named(run, update, _position(writer)) | {
            "failure_id": _failure_id(update),
            "failure_category": "application",
            "non_retryable": True,
            "exception_class": "WorkflowRunClosed",
            "message": message,
            "terminal_reason": run.closed_reason,
        }
        writer.append(UPDATE_COMPLETED, members, workflow_command_id=update.command_id)
        _close(writer, update, "failed", failure_id=_failure_id(update), failure_message=message)


def _position(writer: RunWriter) -> int:
    """Updates take no workflow sequence of their own: that of the open wait, else the last one used (engine §2.8)."""
    wait = writer.run.open_wait or writer.lowest_selected_wait
    return max(1, writer.run.next_workflow_sequence - 1) if wait is None else wait.sequence


def _failure_id(update: Update) -> str:
    return f"{update.update_id}.f"


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _named(run: Run, update: Update, position: int) -> dict[str, Any]:
    return {
        "update_id": update.update_id,
        "update_name": update.update_name,
        "workflow_command_id": update.command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "sequence": position,
    }


def _close(writer: RunWriter, update: Update, status: str, **changes: Any) -> None:
    closed = msgspec.structs.replace(
        update, status=status, outcome=f"update_{status}", closed_at=writer.now, queued_behind=None, **changes
    )
    writer.put_update(closed)
    end_update_call(writer, closed)
    writer.run.open_update_count -= 1
