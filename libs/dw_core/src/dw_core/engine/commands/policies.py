"""Timeouts, retry policies and worker sessions, which commands carry."""

from __future__ import annotations

from dw_core.engine.commands.fields import INTEGER_MAX, Fields
from dw_core.engine.rows import RetryPolicy
from dw_core.engine.run_rows import Timeouts
from dw_core.limits import SECONDS_MAX
from dw_core.sessions.reading import read_session
from dw_core.sessions.session import SessionOptions


def read_timeouts(fields: Fields) -> Timeouts:
    """The four activity timeouts in seconds; one that contradicts another is noted (worker-plane §9.2)."""
    read = {name: fields.integer(name, minimum=1, maximum=SECONDS_MAX) for name in Timeouts.__struct_fields__}
    for smaller, larger in (
        ("heartbeat_timeout", "start_to_close_timeout"),
        ("start_to_close_timeout", "schedule_to_close_timeout"),
        ("schedule_to_start_timeout", "schedule_to_close_timeout"),
    ):
        low, high = read[smaller], read[larger]
        if low is not None and high is not None and low > high:
            fields.error(smaller, f"must not exceed {larger}")
    return Timeouts(**read)


def read_retry_policy(fields: Fields, *, attempts_max: int = INTEGER_MAX) -> RetryPolicy:
    """No policy is one attempt; inside a policy a null or absent ``max_attempts`` is unlimited (worker-plane §12.6)."""
    policy = fields.mapping("retry_policy")
    if policy is None:
        return RetryPolicy()
    attempts = policy.get("max_attempts")
    if attempts is not None and (type(attempts) is not int or not 1 <= attempts <= attempts_max):
        fields.error("retry_policy.max_attempts", f"must be an integer from 1 to {attempts_max}")
    backoff = policy.get("backoff_seconds") or []
    if not isinstance(backoff, list) or any(type(b) is not int or not 0 <= b <= SECONDS_MAX for b in backoff):
        fields.error("retry_policy.backoff_seconds", "must be a list of whole seconds")
        backoff = []
    types = policy.get("non_retryable_error_types") or []
    if not isinstance(types, list) or any(not isinstance(t, str) or "\0" in t for t in types):
        fields.error("retry_policy.non_retryable_error_types", "must be a list of strings without the NUL character")
        types = []
    return RetryPolicy(max_attempts=attempts, backoff_seconds=tuple(backoff), non_retryable_error_types=tuple(types))


def read_worker_session(fields: Fields, queue: str | None) -> SessionOptions | None:
    """The session of an activity; its queue and that of the activity must not differ, or nobody could take it."""
    given = fields.mapping("worker_session")
    if given is None:
        return None
    session, errors = read_session(given)
    for name, messages in errors.items():
        for message in messages:
            fields.error(f"worker_session.{name}", message)
    if session is not None and queue is not None and session.queue not in (None, queue):
        fields.error("worker_session.queue", "differs from the queue of the activity")
    return session
