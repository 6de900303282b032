"""How an activity ends: retries with back-off, timeouts, terminal events and the group barrier (engine §5)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dw_core.engine.activity_ends import resolve
from dw_core.engine.closing import close_attempt
from dw_core.engine.commands.groups import group_members
from dw_core.engine.inputs import SweepTask
from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stopping import cancelled_members
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.workflow_tasks import return_to_ready
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.leases.durations import is_expired
from dw_core.protocol.timestamps import wire_time

_NEUTRAL_KEYS = ("type", "message", "code", "details", "details_payload_codec", "non_retryable")
_DIAGNOSTIC_KEYS = ("diagnostics", "runtime_diagnostics")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt ended without a result. ``timeout_kind`` is set for timeouts."""

    message: str
    exception_type: str | None = None
    exception_class: str | None = None
    code: int | None = None
    non_retryable: bool = False
    category: str = "activity"
    timeout_kind: str | None = None
    exception: dict[str, Any] = {}

    @staticmethod
    def reported(failure: dict[str, Any]) -> Failure:
        """From a worker's report; ``exception`` keeps the neutral keys and the diagnostics objects only."""
        kept = {key: failure[key] for key in (*_NEUTRAL_KEYS, *_DIAGNOSTIC_KEYS) if failure.get(key) is not None}
        if "details" in kept:
            kept["details_payload_codec"] = "avro"
        return Failure(
            message=failure["message"],
            exception_type=failure.get("type"),
            exception_class=failure.get("class"),
            code=failure.get("code"),
            non_retryable=failure.get("non_retryable") is True or failure.get("retryable") is False,
            exception=kept,
        )

    @staticmethod
    def timed_out(kind: str) -> Failure:
        """A passed deadline."""
        message = f"Activity timed out: {kind}."
        return Failure(
            message=message,
            exception_type="ActivityTimedOut",
            exception_class="ActivityTimedOut",
            category="timeout",
            timeout_kind=kind,
            exception={"type": "ActivityTimedOut", "message": message},
        )

    def members(self) -> dict[str, Any]:
        """The failure members of an event."""
        members = {
            "failure_category": self.category,
            "timeout_kind": self.timeout_kind,
            "exception_type": self.exception_type,
            "exception_class": self.exception_class,
            "message": self.message,
            "code": self.code,
        }
        return {key: value for key, value in members.items() if value is not None} | {"exception": self.exception}


def expired_timeout(task: Task, now: datetime) -> str | None:
    """The timeout that has passed, by precedence: schedule_to_close, schedule_to_start, heartbeat, start_to_close."""
    running = task.state is TaskState.LEASED
    ordered = (
        ("schedule_to_close", task.schedule_to_close_at),
        ("schedule_to_start", None if running else task.schedule_to_start_at),
        ("heartbeat", task.heartbeat_at if running else None),
        ("start_to_close", task.start_to_close_at if running else None),
    )
    return next((kind for kind, at in ordered if at is not None and at <= now), None)


def settle_timeout(writer: RunWriter, activity: Activity, task: Task, kind: str) -> bool:
    """Close the attempt as failed and retry or end the activity; whether it is tried again.

    An attempt that nobody started in time counts like one that was started, or it would be retried for ever.
    """
    if task.state is TaskState.READY and kind == "schedule_to_start":
        task = copy.copy(task)
        task.attempt += 1
    if task.state is TaskState.LEASED or kind == "schedule_to_start":
        writer.transition.attempts.append(close_attempt(task, "failed", writer.now, None))
    return settle_failure(writer, activity, task, Failure.timed_out(kind))


def settle_failure(writer: RunWriter, activity: Activity, task: Task, failure: Failure) -> bool:
    """Schedule the next attempt if the policy allows one, else record the terminal event; whether there is one."""
    due = None if task.is_cancel_requested else _next_attempt_at(activity, task, failure, writer.now)
    if due is not None and task.schedule_to_close_at is not None and due >= task.schedule_to_close_at:
        due, failure = None, Failure.timed_out("schedule_to_close")  # engine §5: decided now, not at the deadline
    if due is not None:
        _retry(writer, activity, task, failure, due)
        return True
    is_timeout = failure.timeout_kind is not None
    payload = failure.members() | {
        "failure_id": f"{execution_id(activity.run_id, activity.sequence)}.f",
        "non_retryable": failure.non_retryable,
    }
    if is_timeout:
        deadlines = {
            "schedule_deadline_at": task.schedule_to_start_at,
            "close_deadline_at": task.start_to_close_at,
            "schedule_to_close_deadline_at": task.schedule_to_close_at,
            "heartbeat_deadline_at": task.heartbeat_at,
        }
        payload |= {name: wire_time(at) for name, at in deadlines.items() if at is not None}
    resolve(writer, activity, task, "failed", "ActivityTimedOut" if is_timeout else "ActivityFailed", payload)
    return False


def _next_attempt_at(activity: Activity, task: Task, failure: Failure, now: datetime) -> datetime | None:
    """When the policy has the next attempt start; None when there is none (worker-plane §12.6)."""
    policy = activity.retry_policy
    never = (
        failure.timeout_kind == "schedule_to_close"
        or failure.non_retryable
        or failure.exception_type in policy.non_retryable_error_types
        or failure.exception_class in policy.non_retryable_error_types
    )
    pause = None if never else policy.pause_after(task.attempt)
    return None if pause is None else now + timedelta(seconds=pause)


def _retry(writer: RunWriter, activity: Activity, task: Task, failure: Failure, due: datetime) -> None:
    """A new ready task with the attempt count carried over; not a wake (engine §5)."""
    writer.close_task(task)
    done = task.attempt
    start_within = activity.timeouts.schedule_to_start_timeout
    retry = Task(
        run_id=task.run_id,
        task_number=writer.next_task_number(),
        kind=TaskKind.ACTIVITY,
        namespace=task.namespace,
        queue=task.queue,
        task_type=task.task_type,
        compatibility=task.compatibility,
        priority=task.priority,
        fairness_key=task.fairness_key,
        fairness_weight=task.fairness_weight,
        available_at=due,
        created_at=writer.now,
        attempt=done,
        activity_sequence=task.activity_sequence,
        schedule_to_start_at=None if start_within is None else due + timedelta(seconds=start_within),
        schedule_to_close_at=task.schedule_to_close_at,
        heartbeat_details=task.heartbeat_details,
        session_id=task.session_id,
        worker_session=task.worker_session,
    )
    writer.open_task(retry)
    changed = copy.copy(activity)
    changed.attempt_count = done
    writer.put_activity(changed)
    policy = activity.retry_policy
    payload = {
        "activity_execution_id": execution_id(task.run_id, activity.sequence),
        "activity_attempt_id": attempt_id(task.run_id, activity.sequence, done),
        "activity_type": activity.activity_type,
        "sequence": activity.sequence,
        "retry_task_id": task_id(task.run_id, retry.task_number),
        "retry_of_task_id": task_id(task.run_id, task.task_number),
        "retry_available_at": wire_time(due),
        "retry_backoff_seconds": int((due - writer.now).total_seconds()),
        "retry_after_attempt_id": attempt_id(task.run_id, activity.sequence, done),
        "retry_after_attempt": done,
        "max_attempts": policy.max_attempts,
        "retry_policy": msgspec.to_builtins(policy),
    }
    writer.record("ActivityRetryScheduled", payload | failure.members() | group_members(activity.parallel_group_path))


def decide_sweep(snapshot: Snapshot, due: SweepTask, now: datetime) -> Outcome:
    """Re-check a sweeper's finding under the lock: enforce a timeout, or end a lease that has expired."""
    task = snapshot.tasks.get(due.task_number)
    if task is None or snapshot.run is None:
        return Rejection("task_not_found", "The task has closed meanwhile.")
    lapsed = task.state is TaskState.LEASED and is_expired(task.lease_expires_at, now)
    if task.kind is TaskKind.WORKFLOW:
        if not lapsed:
            return Rejection("task_not_leased", "The lease has been renewed or has ended.")
        writer = RunWriter(snapshot, now)
        return_to_ready(writer, task)
        return writer.finish({"outcome": "lease_expired"})
    kind = expired_timeout(task, now)
    if kind is None and not lapsed:
        return Rejection("task_not_leased", "Nothing has expired.")
    writer = RunWriter(snapshot, now)
    activity = snapshot.activities[task.activity_sequence]
    if kind is not None:
        has_retry = settle_timeout(writer, activity, task, kind)
        return writer.finish({"outcome": "timed_out", "timeout_kind": kind, "has_retry": has_retry})
    redeliver(writer, activity, task)
    return writer.finish({"outcome": "lease_expired", "lease_expires_at": wire_time(task.lease_expires_at)})


def redeliver(writer: RunWriter, activity: Activity, task: Task) -> None:
    """The worker was lost, not the code: the attempt is closed as expired and the task goes out again.

    The next claim is a new attempt; expiry alone never fails an activity, even when no attempts are left
    (worker-plane §12.8). One that was to be cancelled ends here.
    """
    writer.transition.attempts.append(close_attempt(task, "expired", writer.now, None))
    if task.is_cancel_requested:
        members = cancelled_members(writer.run, writer.now)
        resolve(writer, activity, task, "cancelled", "ActivityCancelled", members)
        return
    changed = copy.copy(activity)
    changed.attempt_count = task.attempt
    writer.put_activity(changed)
    free = copy.copy(task)
    free.state = TaskState.READY
    free.lease_owner = free.leased_at = free.lease_expires_at = free.poll_request_id = None
    free.start_to_close_at = free.heartbeat_at = free.last_heartbeat_at = None
    free.repair_count += 1
    free.available_at = writer.now
    if activity.timeouts.schedule_to_start_timeout is not None:
        free.schedule_to_start_at = writer.now + timedelta(seconds=activity.timeouts.schedule_to_start_timeout)
    writer.put_task(free)
