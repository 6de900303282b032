"""Who holds a task, read without touching it."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.protocol.problems import Problem
from dw_core.protocol.timestamps import wire_time
from dw_runtime.store.database import Database

_decode_task = msgspec.json.Decoder(Task).decode


async def claim_status(
    database: Database, kind: TaskKind, namespace: str, task_id: str, run_id: str, task_number: int
) -> dict[str, Any]:
    """The state of an open task. Raises ``task_not_found`` for one that is closed, unknown or of the other kind."""
    rows = await database.rows("read_task", run_id, task_number)
    task = _decode_task(rows[0][0]) if rows else None
    if task is None or task.kind is not kind or task.namespace != namespace:
        raise Problem("task_not_found", "There is no such open task.", task_id=task_id)
    return {
        "task_id": task_id,
        "status": "leased" if task.state is TaskState.LEASED else "ready",
        "claimed": task.state is TaskState.LEASED,
        "attempt": task.attempt,
        "lease_owner": task.lease_owner,
        "lease_expires_at": wire_time(task.lease_expires_at),
        "available_at": wire_time(task.available_at),
    }
