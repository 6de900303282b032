"""Archiving: keeping a closed run for good (control-plane §13.8, engine §2.3)."""

from __future__ import annotations

from datetime import datetime

from dw_core.engine.inputs import ArchiveWorkflow
from dw_core.engine.intake import accept, answer_again, refuse, reject
from dw_core.engine.rows import Archive
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import RunWriter


def decide_archive(snapshot: Snapshot, command: ArchiveWorkflow, now: datetime) -> Outcome:
    """Mark the closed run, so that retention passes it by; a run that is archived already stays as it is.

    Neither the status nor what has happened changes. A command for an open run is recorded as rejected.
    """
    intent = {"reason": command.reason, "run_id": command.named_run_id}
    again = answer_again(snapshot, "archive", command.request_id, intent)
    if again is not None:
        return again
    refused = refuse(snapshot.run, command, {})
    if refused is not None:
        return refused
    writer = RunWriter(snapshot, now)
    run = writer.run
    if not run.is_terminal:
        still_open = Rejection("run_not_closed", f"Workflow {run.workflow_id} is still open.")
        return reject(writer, command, "archive", intent, {}, still_open)
    if run.archive is not None:
        return writer.finish(accept(writer, command, "archive", intent, {}, "archive_not_needed"))
    reply = accept(writer, command, "archive", intent, {}, "archived")
    run.archive = Archive(archived_at=now, command_id=command.command_id, reason=command.reason)
    common = {
        "workflow_command_id": command.command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
    }
    requested = common | {"command_type": "archive", "outcome": "archived", "reason": command.reason}
    writer.append("ArchiveRequested", requested, workflow_command_id=command.command_id)
    archived = common | {"archive_command_id": command.command_id, "reason": command.reason}
    writer.append("WorkflowArchived", archived, workflow_command_id=command.command_id)
    return writer.finish(reply)
