"""Ownership guards: whether a caller still owns the task it reports on, decided in the published order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.leases.durations import is_expired
from dw_core.protocol.timestamps import wire_time

LEASED = "leased"
_STOP_REASONS = {
    "cancelled": "run_cancelled",
    "terminated": "run_terminated",
    "completed": "run_completed",
    "failed": "run_failed",
}


class TaskLease(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about a task's lease; a closed task keeps the owner and attempt it had last."""

    status: str
    attempt: int
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None


class ClosedRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: its terminal status, and the reason and time on the run."""

    status: str
    closed_reason: str | None
    closed_at: datetime | None


class AttemptLease(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about an activity attempt: the task it belongs to and who claimed it."""

    task_id: str
    lease_owner: str | None


class Granted(msgspec.Struct, frozen=True):
    """The caller owns the task."""


class Refused(msgspec.Struct, frozen=True):
    """The caller does not own the task: a reason of the reason table, a text, and the extra members of the body."""

    reason: str
    message: str
    fields: dict[str, Any] = {}


Guard = Granted | Refused
_GRANTED = Granted()


def guard_workflow_task(
    task: TaskLease | None, closed_run: ClosedRun | None, *, lease_owner: str, attempt: int, now: datetime
) -> Guard:
    """Whether ``lease_owner`` may act on a workflow task with ``attempt`` at ``now`` (worker-plane §8.5, §8.6).

    ``task`` is None when it is unknown in the namespace; ``closed_run`` is None while the run is open. A run that
    closed under a lease is told to the caller who held that lease; a foreign caller learns only its own mismatch.
    """
    if task is None:
        return Refused("task_not_found", "This workflow task does not exist.")
    owns = task.lease_owner == lease_owner and task.attempt == attempt
    if closed_run is not None and owns:
        return _run_closed(task, closed_run)
    if task.status != LEASED and (closed_run is None or task.lease_owner is None):
        return Refused("task_not_leased", "This task is not leased.", {"task_status": task.status})
    if task.status == LEASED and is_expired(task.lease_expires_at, now):
        return Refused(
            "lease_expired",
            "The lease on this task has expired.",
            {
                "task_status": task.status,
                "lease_owner": task.lease_owner,
                "lease_expires_at": wire_time(task.lease_expires_at),
            },
        )
    if task.lease_owner != lease_owner:
        return Refused("lease_owner_mismatch", "Another worker owns this task.", {"lease_owner": task.lease_owner})
    if task.attempt != attempt:
        return Refused(
            "workflow_task_attempt_mismatch",
            "A later attempt of this task is current.",
            {"current_attempt": task.attempt},
        )
    return _GRANTED


def guard_activity_task(task_id: str, *, task_exists: bool, attempt: AttemptLease | None, lease_owner: str) -> Guard:
    """Whether ``lease_owner`` may report on an attempt of an activity task (worker-plane §12.2).

    ``attempt`` is None when it is unknown. Whether the attempt is still current is decided by the engine, because a
    late report may win until another attempt exists.
    """
    if not task_exists:
        return Refused("task_not_found", "This activity task does not exist.")
    if attempt is None:
        return Refused("attempt_not_found", "This activity attempt does not exist.")
    if attempt.task_id != task_id:
        return Refused("task_mismatch", "This attempt belongs to another task.")
    if attempt.lease_owner != lease_owner:
        return Refused(
            "lease_owner_mismatch", "Another worker owns this attempt.", {"lease_owner": attempt.lease_owner}
        )
    return _GRANTED


def stop_reason(run_status: str) -> str:
    """Why work on a closed run stops, as ``run_cancelled``, ``run_terminated``, … (worker-plane §8.6)."""
    return _STOP_REASONS.get(run_status, "run_closed")


def was_cancel_requested(run_status: str) -> bool:
    """Whether somebody asked for the run to end: true for cancel and terminate only."""
    return run_status in ("cancelled", "terminated")


def _run_closed(task: TaskLease, run: ClosedRun) -> Refused:
    return Refused(
        "run_closed",
        "The run closed while this task was leased.",
        {
            "stop_reason": stop_reason(run.status),
            "cancel_requested": was_cancel_requested(run.status),
            "can_continue": False,
            "run_status": run.status,
            "run_closed_reason": run.closed_reason,
            "run_closed_at": wire_time(run.closed_at),
            "task_status": task.status,
            "lease_owner": task.lease_owner,
            "lease_expires_at": wire_time(task.lease_expires_at),
        },
    )
