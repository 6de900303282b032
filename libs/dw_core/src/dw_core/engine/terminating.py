"""Cancel and terminate: the run is closed at once, and no workflow code runs (engine §6.10, control-plane §13.5)."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from dw_core.engine.closing import close_from_outside, ended_by_command
from dw_core.engine.inputs import CancelWorkflow, TerminateWorkflow
from dw_core.engine.intake import accept, begin
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome
from dw_core.engine.writer import RunWriter


class _Ending(NamedTuple):
    """The command, its two events, and the status, which is also the reason of the closing and the outcome."""

    command_type: str
    requested_event: str
    terminal_event: str
    status: str


_CANCEL = _Ending("cancel", "CancelRequested", "WorkflowCancelled", "cancelled")
_TERMINATE = _Ending("terminate", "TerminateRequested", "WorkflowTerminated", "terminated")


def decide_end(snapshot: Snapshot, command: CancelWorkflow | TerminateWorkflow, now: datetime) -> Outcome:
    """Close the current run, repeat an earlier answer, or say why not."""
    ending = _CANCEL if isinstance(command, CancelWorkflow) else _TERMINATE
    intent = {"reason": command.reason, "run_id": command.named_run_id}
    writer = begin(snapshot, command, ending.command_type, intent, {}, now)
    if not isinstance(writer, RunWriter):
        return writer
    reply = accept(writer, command, ending.command_type, intent, {}, ending.status)
    _close(writer, command, ending)
    return writer.finish(reply)


def _close(writer: RunWriter, command: CancelWorkflow | TerminateWorkflow, ending: _Ending) -> None:
    run, command_id = writer.run, command.command_id
    requested = {
        "workflow_command_id": command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "reason": command.reason,
        "command_type": ending.command_type,
    }
    writer.end_lease()
    writer.append(ending.requested_event, requested, workflow_command_id=command_id)
    terminal = ended_by_command(run, ending.status, command_id, command.reason)
    close_from_outside(writer, ending.terminal_event, terminal, ending.status, ending.status, command_id)
