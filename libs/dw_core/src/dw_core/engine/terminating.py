"""Stopping a run from outside: it is closed at once, and no workflow code runs (engine §6.10, control-plane §13.5)."""

from __future__ import annotations

from datetime import datetime

from dw_core.engine.closing import close_from_outside, ended_by_command
from dw_core.engine.inputs import CancelWorkflow, TerminateWorkflow
from dw_core.engine.intake import accept, begin
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome
from dw_core.engine.writer import RunWriter

_ENDS = {
    "cancel": ("CancelRequested", "WorkflowCancelled", "cancelled"),
    "terminate": ("TerminateRequested", "WorkflowTerminated", "terminated"),
}
"""By the type of the command: the event that asks, the event that ends the run, and how the run is closed."""


def decide_end(snapshot: Snapshot, command: CancelWorkflow | TerminateWorkflow, now: datetime) -> Outcome:
    """Close the current run, repeat an earlier answer, or say why not."""
    command_type = "cancel" if isinstance(command, CancelWorkflow) else "terminate"
    intent = {"reason": command.reason, "run_id": command.named_run_id}
    writer = begin(snapshot, command, command_type, intent, {}, now)
    if not isinstance(writer, RunWriter):
        return writer
    reply = accept(writer, command, command_type, intent, {}, _ENDS[command_type][2])
    stop(writer, command.command_id, command_type, command.reason)
    return writer.finish(reply)


def stop(writer: RunWriter, command_id: str, command_type: str, reason: str | None) -> None:
    """Close an open run because a command of this type (``cancel`` or ``terminate``) was accepted."""
    run = writer.run
    asks, ends, how = _ENDS[command_type]
    requested = {
        "workflow_command_id": command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "reason": reason,
        "command_type": command_type,
    }
    writer.end_lease()
    writer.append(asks, requested, workflow_command_id=command_id)
    close_from_outside(writer, ends, ended_by_command(run, how, command_id, reason), how, how, command_id)
