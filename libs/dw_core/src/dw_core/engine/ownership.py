"""Who may report on a workflow task: the guard of worker-plane §8.5, answered as values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.inputs import WorkflowTaskInput
from dw_core.engine.rows import Run, Task, TaskState
from dw_core.engine.run_rows import Receipt
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection
from dw_core.ids import task_id
from dw_core.leases.durations import is_expired
from dw_core.protocol.timestamps import wire_time

_STOP_REASONS = {
    ("cancelled", "cancelled"): "run_cancelled",
    ("terminated", "terminated"): "run_terminated",
    ("completed", "completed"): "run_completed",
    ("failed", "failed"): "run_failed",
}


def stop_reason(run: Run) -> str:
    """Why a closed run stopped, as ``stop_reason`` spells it (worker-plane §8.6)."""
    return _STOP_REASONS.get((run.status, run.closed_reason or ""), "run_closed")


def was_cancelled(run: Run) -> bool:
    """Closed by a cancel or terminate command."""
    return run.status in ("cancelled", "terminated")


def identify(report: WorkflowTaskInput) -> dict[str, Any]:
    """The members every answer about a workflow task repeats."""
    return {"task_id": task_id(report.run_id, report.task_number), "workflow_task_attempt": report.attempt}


def guard(snapshot: Snapshot, report: WorkflowTaskInput, now: datetime) -> Task | Receipt | Rejection:
    """The leased task when the report is the lease's own; the receipt when it repeats a settled report.

    Everything else is a rejection, in the order: unknown, closed run, not leased, expired, other owner, other attempt.
    A receipt is returned only to the owner and attempt that closed the task. A run closed under a lease says so to the
    owner and attempt of that lease; to others the lease counts as still held (worker-plane §8.6).
    """
    run = snapshot.run
    base = identify(report)
    if run is None or run.namespace != report.namespace or not 0 < report.task_number < run.next_task_number:
        return Rejection("task_not_found", "There is no such workflow task.", base)
    task = snapshot.workflow_task
    if task is None or task.task_number != report.task_number:
        return _settled(snapshot, run, report, base)
    if task.state is not TaskState.LEASED:
        return Rejection("task_not_leased", "The task is not leased.", base | {"task_status": "ready"})
    assert task.lease_expires_at is not None and task.lease_owner is not None
    if is_expired(task.lease_expires_at, now):
        return Rejection(
            "lease_expired",
            "The lease of this task has expired.",
            base
            | {
                "task_status": "leased",
                "lease_owner": task.lease_owner,
                "lease_expires_at": wire_time(task.lease_expires_at),
            },
        )
    return _mismatch(task.lease_owner, task.attempt, report, base) or task


def _mismatch(owner: str | None, attempt: int, report: WorkflowTaskInput, base: dict[str, Any]) -> Rejection | None:
    if owner != report.lease_owner:
        return Rejection("lease_owner_mismatch", "Another worker holds this task.", base | {"lease_owner": owner})
    if attempt != report.attempt:
        return Rejection(
            "workflow_task_attempt_mismatch",
            "This attempt is no longer current.",
            base | {"current_attempt": attempt},
        )
    return None


def _settled(snapshot: Snapshot, run: Run, report: WorkflowTaskInput, base: dict[str, Any]) -> Receipt | Rejection:
    receipt = snapshot.receipts.get(report.task_number)
    if receipt is None:
        return Rejection("task_not_found", "There is no such workflow task.", base)
    is_own = (receipt.lease_owner, receipt.attempt) == (report.lease_owner, report.attempt)
    if is_own and receipt.outcome != "cancelled":
        return receipt
    was_leased = receipt.outcome == "cancelled" and receipt.lease_owner is not None
    wrong = _mismatch(receipt.lease_owner, receipt.attempt, report, base) if was_leased else None
    if was_leased:
        return wrong or run_closed(run, report, receipt)
    return Rejection("task_not_leased", "The task has been closed.", base | {"task_status": _status(receipt.outcome)})


def _status(outcome: str) -> str:
    return "completed" if outcome == "waiting_for_history" else outcome


def run_closed(run: Run, report: WorkflowTaskInput, receipt: Receipt) -> Rejection:
    """The run was closed under the lease (worker-plane §8.6)."""
    return Rejection(
        "run_closed",
        "The run was closed while this task was leased.",
        identify(report)
        | {
            "stop_reason": stop_reason(run),
            "cancel_requested": was_cancelled(run),
            "can_continue": False,
            "run_status": run.status,
            "run_closed_reason": run.closed_reason,
            "run_closed_at": wire_time(run.closed_at),
            "task_status": _status(receipt.outcome),
            "lease_owner": receipt.lease_owner,
            "lease_expires_at": None,
        },
    )


def settled_elsewhere(run: Run, report: WorkflowTaskInput, receipt: Receipt) -> Rejection:
    """The owner already closed this task in another way than this report asks for."""
    if run.is_terminal:
        return run_closed(run, report, receipt)
    return Rejection(
        "task_not_leased",
        "The task has been closed.",
        identify(report) | {"task_status": _status(receipt.outcome)},
    )
