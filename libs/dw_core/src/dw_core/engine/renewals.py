"""Renewing the lease of an activity attempt without reporting progress (worker-plane §16.2)."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from dw_core.engine.activities import guard, identify, late_reason
from dw_core.engine.activity_outcomes import expired_timeout
from dw_core.engine.inputs import RenewActivityLease
from dw_core.engine.ownership import was_cancelled
from dw_core.engine.rows import Run, Task
from dw_core.engine.run_rows import Attempt
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter
from dw_core.ids import execution_id, task_id
from dw_core.leases.durations import activity_lease_seconds, expires_at, is_expired, needs_renewal
from dw_core.protocol.timestamps import wire_time


def decide_renew(snapshot: Snapshot, report: RenewActivityLease, now: datetime) -> Outcome:
    """Extend a live lease; one that has hardly aged is confirmed as it stands, which costs no write.

    Only the lease moves: the heartbeat deadline, the other deadlines and the history stay as they are. A lease that
    has ended is not revived. Whatever the worker may not go on with is a rejection with its reason.
    """
    held = guard(snapshot, report)
    if isinstance(held, Rejection):
        return held
    run = snapshot.run
    assert run is not None, "the guard has refused an unknown run"
    if isinstance(held, Attempt):
        reason = late_reason(run, held)
        return _refusal(run, report, "stale_attempt" if reason == "attempt_closed" else reason)
    if is_expired(held.lease_expires_at, now):
        return _refusal(run, report, "lease_expired")
    if expired_timeout(held, now) is not None:
        return _refusal(run, report, "activity_not_running")
    timeouts = snapshot.activities[report.sequence].timeouts
    seconds = activity_lease_seconds(report.lease_seconds, timeouts.start_to_close_timeout)
    assert held.lease_expires_at is not None, "a leased task has an expiry"
    if not needs_renewal(held.lease_expires_at, seconds, now):
        return Transition(run=run, reply=_renewed(run, report, held, now))
    writer = RunWriter(snapshot, now)
    task = copy.copy(held)
    task.lease_expires_at = expires_at(now, seconds)
    writer.put_task(task)
    return writer.finish(_renewed(run, report, task, now))


def _renewed(run: Run, report: RenewActivityLease, task: Task, now: datetime) -> dict[str, Any]:
    return identify(report) | {
        "workflow_task_id": task_id(report.run_id, report.task_number),
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "activity_execution_id": execution_id(report.run_id, report.sequence),
        "attempt_number": task.attempt,
        "lease_owner": task.lease_owner,
        "lease_renewed": True,
        "can_continue": True,
        "cancel_requested": False,
        "heartbeat_recorded": False,
        "reason": None,
        "server_time": wire_time(now),
        "lease_expires_at": wire_time(task.lease_expires_at),
        "last_heartbeat_at": wire_time(task.last_heartbeat_at),
        "heartbeat_deadline_at": wire_time(task.heartbeat_at),
    }


def _refusal(run: Run, report: RenewActivityLease, reason: str) -> Rejection:
    members = identify(report) | {
        "lease_owner": report.lease_owner,
        "lease_renewed": False,
        "can_continue": False,
        "cancel_requested": was_cancelled(run),
        "heartbeat_recorded": False,
        "run_status": run.status,
        "run_closed_reason": run.closed_reason,
        "run_closed_at": wire_time(run.closed_at),
    }
    return Rejection(reason, "The lease of this attempt cannot be renewed.", members)
