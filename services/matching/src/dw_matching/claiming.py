"""Claims of one particular task, and who holds it: the same for both kinds of task."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.inputs import ClaimTask
from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.ids import parse_task_id
from dw_core.protocol.problems import Problem
from dw_core.protocol.timestamps import wire_time
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database

_decode_task = msgspec.json.Decoder(Task).decode


def named_task(task_id: str) -> tuple[str, int]:
    """Run and number of a task id; a text that names no task is an unknown task."""
    named = parse_task_id(task_id)
    if named is None:
        raise Problem("task_not_found", "There is no such task.", task_id=task_id)
    return named


async def claim(pump: Pump, namespace: str, task_id: str, lease_owner: str, lease_seconds: int) -> dict[str, Any]:
    """Lease one ready task. Raises the refusals of topology §5.5."""
    run_id, number = named_task(task_id)
    change = ClaimTask(
        run_id=run_id,
        namespace=namespace,
        task_number=number,
        lease_owner=lease_owner,
        lease_seconds=lease_seconds,
    )
    return settle(await pump.submit(change))


async def claim_status(database: Database, kind: TaskKind, namespace: str, task_id: str) -> dict[str, Any]:
    """The state of an open task, read without touching it.

    Raises ``task_not_found`` for one that is closed, unknown or of the other kind.
    """
    rows = await database.read("read_task", *named_task(task_id))
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
