"""Reading ``record_local_activity``: the report of an activity that ran inside the worker (worker-plane §9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.engine.commands.fields import Fields
from dw_core.engine.commands.parsed import LocalAttempt, RecordLocalActivity
from dw_core.engine.commands.policies import read_retry_policy, read_timeouts
from dw_core.limits import LOCAL_ATTEMPTS_MAX, LOCAL_HEARTBEATS_MAX
from dw_core.payloads.codec import EMPTY_LIST_BLOB, NULL_BLOB
from dw_core.protocol.nul import NUL_COMPLAINT, holds_nul

OUTCOMES = ("completed", "failed", "timed_out", "cancelled")
_TIMEOUT_KINDS = ("start_to_close", "schedule_to_close", "heartbeat")
_NEVER = ("queue", "cancellation_policy", "parallel_group_path", "parallel_group_id")


def record_local_activity(fields: Fields) -> RecordLocalActivity | None:
    """The whole report; its last attempt says what became of the activity."""
    activity_type = fields.name("activity_type", required=True)
    outcome = fields.choice("outcome", OUTCOMES, required=True)
    if fields.raw("execution_mode") not in (None, "local"):
        fields.error("execution_mode", "must be local")
    for name in _NEVER:
        if fields.has(name):
            fields.error(name, "is not allowed on record_local_activity")
    attempts = _attempts(fields, outcome)
    policy = read_retry_policy(fields, attempts_max=LOCAL_ATTEMPTS_MAX)
    timeouts = read_timeouts(fields)
    arguments = fields.payload("arguments") or EMPTY_LIST_BLOB
    result = fields.payload("result")
    is_completed = outcome == "completed"
    if result is not None and not is_completed:
        fields.error("result", "is allowed only for a completed local activity")
    message = fields.prose("message", required=not is_completed)
    timeout_kind = fields.choice("timeout_kind", _TIMEOUT_KINDS, required=outcome == "timed_out")
    exception_type = fields.name("exception_type")
    non_retryable = fields.flag("non_retryable")
    if activity_type is None or outcome is None or attempts is None:
        return None
    return RecordLocalActivity(
        activity_type=activity_type,
        outcome=outcome,
        attempts=tuple(attempts),
        arguments=arguments,
        result=(result or NULL_BLOB) if is_completed else None,
        message=message,
        exception_type=exception_type,
        non_retryable=non_retryable,
        timeout_kind=timeout_kind,
        has_retry_policy=fields.has("retry_policy"),
        retry_policy=policy,
        timeouts=timeouts,
    )


def _attempts(fields: Fields, outcome: str | None) -> Sequence[LocalAttempt] | None:
    raw: Any = fields.raw("attempts")
    if not isinstance(raw, list) or not 1 <= len(raw) <= LOCAL_ATTEMPTS_MAX:
        fields.error("attempts", f"must list 1 to {LOCAL_ATTEMPTS_MAX} attempts")
        return None
    if holds_nul(raw):
        fields.error("attempts", NUL_COMPLAINT)
        return None
    try:
        attempts = msgspec.convert(raw, list[LocalAttempt])
    except msgspec.ValidationError as error:
        fields.error("attempts", str(error))
        return None
    wrong = _attempts_complaint(attempts, outcome)
    if wrong is not None:
        fields.error("attempts", wrong)
        return None
    return attempts


def _attempts_complaint(attempts: Sequence[LocalAttempt], outcome: str | None) -> str | None:
    if [attempt.attempt_number for attempt in attempts] != list(range(1, len(attempts) + 1)):
        return "must be numbered 1, 2, 3 and so on"
    if any(attempt.outcome not in ("failed", "timed_out") for attempt in attempts[:-1]):
        return "must have failed or timed out, all but the last"
    if attempts[-1].outcome != outcome:
        return "must end with the outcome of the command"
    if sum(len(attempt.heartbeats) for attempt in attempts) > LOCAL_HEARTBEATS_MAX:
        return f"must have at most {LOCAL_HEARTBEATS_MAX} heartbeats in all"
    return None
