"""Terminating a run: it is closed at once, and no workflow code runs (engine §6.10, control-plane §13.5)."""

from __future__ import annotations

from datetime import datetime

from dw_core.engine.closing import close_from_outside
from dw_core.engine.inputs import TerminateWorkflow
from dw_core.engine.intake import accept, begin
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome
from dw_core.engine.writer import RunWriter


def decide_terminate(snapshot: Snapshot, command: TerminateWorkflow, now: datetime) -> Outcome:
    """Close the current run, repeat an earlier answer, or say why not."""
    intent = {"reason": command.reason, "run_id": command.named_run_id}
    writer = begin(snapshot, command, "terminate", intent, {}, now)
    if not isinstance(writer, RunWriter):
        return writer
    reply = accept(writer, command, "terminate", intent, {}, "terminated")
    _close(writer, command)
    return writer.finish(reply)


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
