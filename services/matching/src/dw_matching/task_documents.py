"""The task objects that polls answer with (worker-plane §8.1, §12.1)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.activities import deadlines
from dw_core.engine.cancellation import observation
from dw_core.engine.rows import RetryPolicy, Run, Task
from dw_core.engine.run_rows import Activity
from dw_core.engine.sticky import replay_mode
from dw_core.history.compression import choose_encoding, compressed_fields
from dw_core.history.paging import encode_page_token
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.limits import HISTORY_COMPRESSION_THRESHOLD_EVENTS, Limits
from dw_core.payloads.envelope import envelope
from dw_core.payloads.references import IN_EVENTS
from dw_core.protocol.timestamps import wire_time
from dw_core.protocol.trace_context import task_members
from dw_core.sessions.session import affinity
from dw_runtime.pump.claims import Claimed

RESUME_FIELDS = (
    "workflow_wait_kind",
    "open_wait_id",
    "resume_source_kind",
    "resume_source_id",
    "workflow_update_id",
    "workflow_signal_id",
    "signal_name",
    "signal_wait_id",
    "workflow_command_id",
    "activity_execution_id",
    "activity_attempt_id",
    "activity_type",
    "child_call_id",
    "child_workflow_run_id",
    "workflow_sequence",
    "workflow_event_type",
    "timer_id",
    "condition_wait_id",
    "condition_key",
    "condition_definition_fingerprint",
)
"""The resume context: every key is always there, null when it does not apply (worker-plane §8.2)."""

_NO_RESUME = dict.fromkeys(RESUME_FIELDS)


def workflow_task(
    claimed: Claimed, accept_encoding: str | None, limits: Limits, producer: str | None = None
) -> dict[str, Any]:
    """The workflow task object with its first page of history, whose stored bytes are spliced in.

    ``producer`` is the ``traceparent`` of the span that hands it out.
    """
    task, run = claimed.task, claimed.run
    request = observation(run.cancellation)
    last, reached = task.claimed_history_sequence, claimed.history.last_sequence
    return {
        "task_kind": "workflow",
        "task_id": task_id(task.run_id, task.task_number),
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "workflow_type": run.workflow_type,
        "workflow_task_attempt": task.attempt,
        "namespace": run.namespace,
        "task_queue": task.queue,
        "connection": None,
        "compatibility": run.compatibility,
        "payload_codec": "avro",
        "arguments": None if claimed.arguments is None else envelope(claimed.arguments),
        "run_status": run.status,
        "last_history_sequence": last,
        "total_history_events": last,
        **history_page(claimed.history.events, reached, accept_encoding),
        "next_history_page_token": encode_page_token(reached) if last > reached else None,
        "lease_owner": task.lease_owner,
        "lease_expires_at": wire_time(task.lease_expires_at),
        "cancel_requested": False,
        **({} if request is None else {"cancellation_request": request}),
        **_sticky(run, task),
        **_budget(run, limits),
        **task_members(run.trace_context, task_id(task.run_id, task.task_number), producer),
        **_NO_RESUME,
        **(task.resume or {}),
    }


def _sticky(run: Run, task: Task) -> dict[str, Any]:
    """Whose cache keeps the run; nothing for a run without affinity (worker-plane §8.1)."""
    mode = replay_mode(run, task)
    if mode is None:
        return {}
    return {
        "sticky_worker_id": run.sticky_worker,
        "sticky_until": wire_time(run.sticky_until),
        "sticky_replay_mode": mode,
    }


def history_page(fragment: bytes | None, count: int, accept_encoding: str | None) -> dict[str, Any]:
    """A page from its stored JSON fragment; compressed only on request and above the threshold (worker-plane §8.4).

    A worker looks for references to external payloads before it unpacks a page, so a page that has any stays open.
    """
    events = b"[" + (fragment or b"") + b"]"
    encoding = choose_encoding(accept_encoding) if count > HISTORY_COMPRESSION_THRESHOLD_EVENTS else None
    if encoding is not None and IN_EVENTS.encode() not in events:
        return {"history_events": [], **compressed_fields(events, encoding)}
    return {"history_events": msgspec.Raw(events)}


def _budget(run: Run, limits: Limits) -> dict[str, Any]:
    """How close the run is to the size at which it should continue as new (topology §6.3)."""
    dimensions = {
        "events": (run.last_history_sequence, limits.history_warning_events, limits.continue_as_new_events),
        "size_bytes": (run.history_bytes, limits.history_warning_size_bytes, limits.continue_as_new_size_bytes),
        "fan_out": (run.open_activity_count, limits.history_warning_fan_out, limits.continue_as_new_fan_out),
    }
    near = [name for name, (value, soft, _) in dimensions.items() if soft and value >= soft]
    is_over = any(hard and value >= hard for value, _, hard in dimensions.values())
    return {
        "history_size_bytes": run.history_bytes,
        "history_fan_out": run.open_activity_count,
        "continue_as_new_recommended": bool(near),
        "history_budget_pressure": "exceeded" if is_over else "approaching" if near else "ok",
        "history_budget_pressure_dimensions": near,
    }


def activity_task(claimed: Claimed, producer: str | None = None) -> dict[str, Any]:
    """The activity task object; ``producer`` is the ``traceparent`` of the span that hands it out."""
    task, run, activity = claimed.task, claimed.run, claimed.activity
    assert activity is not None, f"task {task.run_id}.t{task.task_number} has no activity"
    execution = execution_id(run.run_id, activity.sequence)
    return {
        "task_id": task_id(task.run_id, task.task_number),
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "activity_execution_id": execution,
        "activity_attempt_id": attempt_id(run.run_id, activity.sequence, task.attempt),
        "attempt_number": task.attempt,
        "attempt": task.attempt,
        "activity_type": activity.activity_type,
        "idempotency_key": execution,
        "namespace": run.namespace,
        "task_queue": task.queue,
        "connection": None,
        "payload_codec": "avro",
        "arguments": None if claimed.arguments is None else envelope(claimed.arguments),
        "retry_policy": retry_policy(activity),
        "deadlines": deadlines(task),
        "lease_owner": task.lease_owner,
        "leased_at": wire_time(task.leased_at),
        "lease_expires_at": wire_time(task.lease_expires_at),
        "last_heartbeat_details": task.heartbeat_details,
        **task_members(run.trace_context, task_id(task.run_id, task.task_number), producer),
        **({} if task.worker_session is None else {"worker_session": affinity(task.worker_session, claimed.session)}),
    }


def retry_policy(activity: Activity) -> dict[str, Any]:
    """The snapshot a worker sees: policy and timeouts in one object."""
    policy: RetryPolicy = activity.retry_policy
    return {
        "snapshot_version": 1,
        "max_attempts": policy.max_attempts,
        "backoff_seconds": policy.backoff_seconds,
        **msgspec.structs.asdict(activity.timeouts),
        "non_retryable_error_types": policy.non_retryable_error_types,
    }
