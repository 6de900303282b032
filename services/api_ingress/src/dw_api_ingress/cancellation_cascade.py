"""How far a cooperative cancellation has come: ``cancellation_cascade`` of a diagnosis (control-plane §10.4)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.rows import Cancellation, Run
from dw_core.ids import attempt_id, execution_id
from dw_core.protocol.timestamps import wire_time
from dw_runtime.store.reads.debug import Cascade, ReachedRun, StoppedAttempt

_ORIGIN = ("root_request_id", "root_workflow_instance_id", "root_workflow_run_id", "parent_request_id", "requester")


def cascade_document(request: Cancellation, found: Cascade) -> dict[str, Any]:
    """The request of a run, the runs that have it by way of this one, and the activities that were told to stop."""
    return {
        "request_id": request.request_id,
        **{name: request.context.get(name) for name in _ORIGIN},
        "reason": request.reason,
        "requested_at": wire_time(request.requested_at),
        "cleanup_deadline_at": wire_time(request.cleanup_deadline_at),
        "runs": [_run(reached, found.now) for reached in found.runs],
        "activity_attempts": [_attempt(found.runs[0].run.run_id, stopped) for stopped in found.attempts],
    }


def _run(reached: ReachedRun, now: datetime) -> dict[str, Any]:
    run, request = reached.run, reached.run.cancellation
    assert request is not None, "only runs with a request are read"
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "parent_run_id": reached.parent_run_id,
        "parent_close_policy": reached.parent_close_policy,
        "cancellation_policy": reached.cancellation_policy,
        "request_id": request.request_id,
        "state": cascade_state(run, request, now),
        "run_status": run.status,
        "closed_reason": run.closed_reason,
        "requested_at": wire_time(request.requested_at),
        "delivered_at": wire_time(request.delivered_at),
        "cleanup_deadline_at": wire_time(request.cleanup_deadline_at),
        "closed_at": wire_time(run.closed_at),
    }


def cascade_state(run: Run, request: Cancellation, now: datetime) -> str:
    """``requested``, ``delivered``, ``cleaning_up``, ``cancelled``, ``deadline_expired`` or ``terminated``.

    A run that has ended in another way keeps the last state it had reached; its own status tells how it has ended.
    """
    if run.closed_reason == "terminated":
        return "terminated"
    ended_at = now if run.closed_at is None else run.closed_at
    if run.closed_reason in (None, "cancelled") and ended_at >= request.cleanup_deadline_at:
        return "deadline_expired"
    if run.closed_reason == "cancelled":
        return "cancelled"
    if request.delivered_at is None:
        return "requested"
    return "cleaning_up" if run.last_progress_at > request.delivered_at else "delivered"


def _attempt(run_id: str, stopped: StoppedAttempt) -> dict[str, Any]:
    return {
        "activity_execution_id": execution_id(run_id, stopped.sequence),
        "activity_attempt_id": attempt_id(run_id, stopped.sequence, stopped.attempt),
        "activity_type": stopped.activity_type,
        "cancellation_policy": stopped.cancellation_policy,
        "status": stopped.status,
        "acknowledgement": stopped.acknowledgement,
    }
