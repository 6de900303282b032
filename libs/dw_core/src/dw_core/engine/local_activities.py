"""Local activities: recording what a worker has already done, in the decision of its completion (engine §6.14)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.commands.parsed import LocalAttempt, RecordLocalActivity
from dw_core.engine.rows import Task
from dw_core.engine.run_rows import Activity, Attempt
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.payloads.envelope import bare

_ENDS = {
    "completed": "ActivityCompleted",
    "failed": "ActivityFailed",
    "timed_out": "ActivityTimedOut",
    "cancelled": "ActivityCancelled",
}


def record_local_activity(writer: RunWriter, task: Task, sequence: int, command: RecordLocalActivity) -> int:
    """The closed execution with its attempts, and all its events; there is no activity task and nothing to wait for.

    Returns the history sequence of the last event.
    """
    run = writer.run
    status = "failed" if command.outcome == "timed_out" else command.outcome
    activity = Activity(
        run_id=run.run_id,
        sequence=sequence,
        activity_type=command.activity_type,
        queue=run.queue,
        status=status,
        arguments=command.arguments,
        has_retry_policy=command.has_retry_policy,
        retry_policy=command.retry_policy,
        timeouts=command.timeouts,
        attempt_count=len(command.attempts),
        scheduled_at=writer.now,
        closed_at=writer.now,
    )
    writer.put_activity(activity, is_new=True)
    source = task_id(task.run_id, task.task_number)
    common = {
        "sequence": sequence,
        "activity_type": command.activity_type,
        "activity_execution_id": execution_id(run.run_id, sequence),
        "execution_mode": "local",
        "local_activity": True,
        "workflow_task_id": source,
    }
    scheduled = common | {"activity_class": command.activity_type, "queue": run.queue}
    writer.append("ActivityScheduled", scheduled, workflow_task_id=source)
    for attempt in command.attempts:
        _record_attempt(writer, task, common, attempt, command)
    last = command.attempts[-1].attempt_number
    ended = common | {"activity_attempt_id": attempt_id(run.run_id, sequence, last), "attempt_number": last}
    return writer.append(_ENDS[command.outcome], ended | _outcome(common, command), workflow_task_id=source)


def _record_attempt(
    writer: RunWriter, task: Task, common: dict[str, Any], attempt: LocalAttempt, command: RecordLocalActivity
) -> None:
    run_id, sequence, number = writer.run.run_id, common["sequence"], attempt.attempt_number
    writer.transition.attempts.append(
        Attempt(
            run_id=run_id,
            sequence=sequence,
            attempt=number,
            task_number=task.task_number,
            status="failed" if attempt.outcome == "timed_out" else attempt.outcome,
            lease_owner=task.lease_owner,
            closed_at=writer.now,
        )
    )
    identity = common | {"activity_attempt_id": attempt_id(run_id, sequence, number), "attempt_number": number}
    source = common["workflow_task_id"]
    started = identity | {"lease_owner": task.lease_owner, "worker_attempt_id": attempt.attempt_id}
    writer.append("ActivityStarted", _known(started), workflow_task_id=source)
    for beat in attempt.heartbeats:
        progress = {"elapsed_ms": beat.elapsed_ms} | ({} if beat.details is None else {"details": beat.details})
        writer.append("ActivityHeartbeatRecorded", identity | {"progress": progress}, workflow_task_id=source)
    if number == len(command.attempts):
        return
    retried = identity | {
        "retry_reason": attempt.retry_reason,
        "retry_backoff_seconds": attempt.backoff_seconds,
        "retry_after_attempt_id": identity["activity_attempt_id"],
        "retry_after_attempt": number,
        "max_attempts": command.retry_policy.max_attempts,
        "retry_policy": msgspec.to_builtins(command.retry_policy),
    }
    failed = _failure(attempt.message, attempt.exception_type, attempt.timeout_kind)
    writer.append("ActivityRetryScheduled", _known(retried | failed), workflow_task_id=source)


def _outcome(common: dict[str, Any], command: RecordLocalActivity) -> dict[str, Any]:
    """The members that say how the activity ended."""
    if command.outcome == "completed":
        assert command.result is not None, "a completed local activity has a result"
        return {"result": bare(command.result), "payload_codec": "avro"}
    category = {"timed_out": "timeout", "cancelled": "cancelled"}.get(command.outcome, "activity")
    members = {
        "failure_id": f"{common['activity_execution_id']}.f",
        "failure_category": category,
        "non_retryable": command.non_retryable,
    }
    failed = _failure(command.message, command.exception_type, command.timeout_kind)
    exception = {"type": command.exception_type, "message": command.message}
    return _known(members | failed | {"exception": _known(exception)})


def _failure(message: str | None, exception_type: str | None, timeout_kind: str | None) -> dict[str, Any]:
    return {
        "message": message,
        "exception_type": exception_type,
        "exception_class": exception_type,
        "timeout_kind": timeout_kind,
    }


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}
