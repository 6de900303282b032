"""The workflow task that applies one update and nothing else (engine §0.1 rule 8, §4.2)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.rows import Run, Task, TaskKind
from dw_core.engine.transition import WakeKey
from dw_core.engine.update_rows import Update
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope

UPDATE_ACCEPTED = "UpdateAccepted"


def update_resume(update: Update) -> dict[str, Any]:
    """The resume context that makes a worker apply this update; no other task may name one (worker-plane §8.2)."""
    return {
        "workflow_wait_kind": "update",
        "open_wait_id": f"update:{update.update_id}",
        "resume_source_kind": "workflow_update",
        "resume_source_id": update.update_id,
        "workflow_update_id": update.update_id,
        "workflow_command_id": update.command_id,
        "workflow_event_type": UPDATE_ACCEPTED,
    }


def accepted_members(run: Run, update: Update) -> dict[str, Any]:
    """The members of ``UpdateAccepted`` that say what is to be applied, and after which signal (engine §2.8)."""
    behind = update.queued_behind
    assert update.arguments is not None, f"update {update.update_id} is recorded with its arguments"
    ordering = {"ordering_state": "ready" if behind is None else "queued"}
    if behind is not None:
        ordering |= {"queued_behind_command_id": behind, "queued_behind_command_type": "signal"}
    return {
        "update_id": update.update_id,
        "update_name": update.update_name,
        "workflow_command_id": update.command_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "arguments": envelope(update.arguments),
        "payload_codec": CODEC,
        **ordering,
    }


def update_of(task: Task) -> str | None:
    """The update that a workflow task is for, None for a plain one."""
    found: str | None = (task.resume or {}).get("workflow_update_id")
    return found


def caller_key(caller: str) -> WakeKey:
    """The key that wakes the process ``caller`` when an update has been settled; no queue has the empty namespace."""
    return WakeKey("", TaskKind.WORKFLOW, caller)
