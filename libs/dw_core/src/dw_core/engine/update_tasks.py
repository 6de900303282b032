"""The workflow task that applies one update and nothing else (engine §0.1 rule 8, §4.2)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.rows import Task, TaskKind, Update
from dw_core.engine.transition import WakeKey

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


def update_of(task: Task) -> str | None:
    """The update that a workflow task is for, None for a plain one."""
    found: str | None = (task.resume or {}).get("workflow_update_id")
    return found


def caller_key(caller: str) -> WakeKey:
    """The key that wakes the process ``caller`` when an update has been settled; no queue has the empty namespace."""
    return WakeKey("", TaskKind.WORKFLOW, caller)
