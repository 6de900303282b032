"""Terminating a run: it is closed at once, and no workflow code runs (engine §6.10, control-plane §13.5)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.closing import close_from_outside
from dw_core.engine.inputs import TerminateWorkflow
from dw_core.engine.intake import SOURCE, answer_again, record_command
from dw_core.engine.rows import Run
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import RunWriter


def decide_terminate(snapshot: Snapshot, command: TerminateWorkflow, now: datetime) -> Outcome:
    """Close the current run, repeat an earlier answer, or say why not."""
    payload = {"reason": command.reason, "run_id": command.run_id if command.target_scope == "run" else None}
    again = answer_again(snapshot, "terminate", command.request_id, payload)
    if again is not None:
        return again
    refused = _refuse(snapshot.run, command)
    if refused is not None:
        return refused
    writer = RunWriter(snapshot, now)
    run = writer.run
    reply = _identity(run, command)
    recorded: dict[str, Any] = {
        "target_scope": command.target_scope,
        "request_id": command.request_id,
        "payload": payload,
    }
    if run.is_terminal:
        message = f"Workflow {run.workflow_id} is already closed."
        reply |= {
            "command_status": "rejected",
            "outcome": "rejected_not_active",
            "rejection_reason": "run_not_active",
        }
        record_command(
            writer,
            command,
            "terminate",
            "rejected_not_active",
            rejection_reason="run_not_active",
            reply=reply | {"message": message},
            **recorded,
        )
        return writer.finish(Rejection("run_not_active", message, reply))
    reply |= {
        "command_status": "accepted",
        "outcome": "terminated",
        "reason": None,
        "rejection_reason": None,
        "message": None,
    }
    record_command(writer, command, "terminate", "terminated", reply=reply, **recorded)
    _close(writer, command)
    return writer.finish(reply)


def _refuse(run: Run | None, command: TerminateWorkflow) -> Rejection | None:
    if run is None:
        return Rejection(
            "instance_not_found",
            f"Workflow {command.workflow_id} does not exist.",
            {"workflow_id": command.workflow_id},
        )
    if command.target_scope == "run" and command.run_id != run.run_id:
        return Rejection(
            "historical_run_command_rejected",
            f"Run {command.run_id} is not the current run of workflow {command.workflow_id}.",
            {"workflow_id": command.workflow_id, "run_id": command.run_id, "target_scope": "run"},
        )
    return None


def _identity(run: Run, command: TerminateWorkflow) -> dict[str, Any]:
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "requested_run_id": command.run_id if command.target_scope == "run" else None,
        "resolved_run_id": run.run_id,
        "target_scope": command.target_scope,
        "workflow_type": run.workflow_type,
        "command_id": command.command_id,
        "command_sequence": run.next_command_sequence,
        "command_source": SOURCE,
        "request_id": command.request_id,
        "validation_errors": {},
    }


def _close(writer: RunWriter, command: TerminateWorkflow) -> None:
    run = writer.run
    requested = {
        "workflow_command_id": command.command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "reason": command.reason,
    }
    writer.end_lease()
    writer.append(
        "TerminateRequested", requested | {"command_type": "terminate"}, workflow_command_id=command.command_id
    )
    terminal = requested | {
        "failure_id": f"{run.run_id}.f",
        "failure_category": "terminated",
        "closed_reason": "terminated",
        "exception_class": "WorkflowTerminated",
        "message": "Workflow terminated" + (f": {command.reason}" if command.reason else "."),
    }
    close_from_outside(writer, "WorkflowTerminated", terminal, "terminated", "terminated", command.command_id)
