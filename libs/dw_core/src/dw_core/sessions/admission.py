"""Who may hold a session: acquiring, renewing and closing it (worker-plane §15.3, §15.4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from dw_core.engine.transition import Rejection
from dw_core.sessions.session import Session, SessionOptions, SessionStatus


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker that wants a session. ``sessions_left`` is how many more it may open."""

    worker_id: str
    task_queue: str
    capabilities: frozenset[str]
    sessions_max: int
    sessions_left: int


class Admission(NamedTuple):
    """The session as the admitted worker holds it; ``outcome`` is created, reused or reacquired."""

    outcome: str
    session: Session


def admit(
    session: Session | None, options: SessionOptions, namespace: str, worker: Candidate, now: datetime
) -> Admission | Rejection:
    """Give a worker the session, or keep it for one more lease.

    The queue decides first, then what the worker can do, then whose the session is, then how many the worker holds.
    """
    if options.queue not in (None, worker.task_queue) or (session and session.queue not in (None, worker.task_queue)):
        return Rejection("session_queue_mismatch", "The session belongs to another task queue.")
    missing = sorted(set(options.requirements) - worker.capabilities)
    if missing:
        return Rejection(
            "session_requirements_not_met",
            "The worker lacks capabilities that the session requires.",
            {"missing_requirements": missing},
        )
    if session is None:
        if not options.create_if_missing:
            return Rejection("session_missing", "There is no such session, and it may not be created.")
        return _full(worker) or Admission("created", _create(options, namespace, worker, now))
    if session.is_over(now):
        return Rejection("session_closed", "The session has ended; its id cannot be used again.")
    if session.is_held(now):
        if session.lease_owner != worker.worker_id:
            return Rejection("session_owned_by_another_worker", "Another worker holds the session.")
        return Admission("reused", renewed(session, session.lease_seconds, now, is_shorter_allowed=False))
    if not session.allow_reacquire_after_failure:
        return Rejection("session_reacquire_disallowed", "The session was lost and may not be acquired again.")
    return _full(worker) or Admission("reacquired", _reacquire(session, worker, now))


def admit_activity(
    session: Session | None, options: SessionOptions, namespace: str, worker: Candidate, running: int, now: datetime
) -> Admission | Rejection:
    """:func:`admit` for one more activity of a session in which the worker runs ``running`` already."""
    admitted = admit(session, options, namespace, worker, now)
    if isinstance(admitted, Rejection) or running < admitted.session.max_concurrent_activities:
        return admitted
    return Rejection(
        "session_activity_limit_exceeded",
        "The session runs as many activities as it may.",
        {"max_concurrent_activities": admitted.session.max_concurrent_activities},
    )


def _full(worker: Candidate) -> Rejection | None:
    if worker.sessions_left > 0:
        return None
    return Rejection(
        "worker_session_limit_exceeded",
        "The worker holds as many sessions as it may.",
        {"max_concurrent_worker_sessions": worker.sessions_max},
    )


def _create(options: SessionOptions, namespace: str, worker: Candidate, now: datetime) -> Session:
    ends_at = now + timedelta(seconds=options.ttl_seconds)
    return Session(
        **{name: getattr(options, name) for name in options.__struct_fields__},
        namespace=namespace,
        lease_owner=worker.worker_id,
        lease_expires_at=min(now + timedelta(seconds=options.lease_seconds), ends_at),
        ttl_expires_at=ends_at,
        last_heartbeat_at=now,
        created_at=now,
        updated_at=now,
    )


def _reacquire(session: Session, worker: Candidate, now: datetime) -> Session:
    lost = msgspec.structs.replace(
        session, status=SessionStatus.ACTIVE, failure_reason=None, lease_owner=worker.worker_id
    )
    return renewed(lost, session.lease_seconds, now)


def renewed(session: Session, seconds: int, now: datetime, *, is_shorter_allowed: bool = True) -> Session:
    """The session with a lease from now on, which never outlives its time to live."""
    expires_at = min(now + timedelta(seconds=seconds), session.ttl_expires_at)
    if not is_shorter_allowed:
        expires_at = max(expires_at, session.lease_expires_at)
    return msgspec.structs.replace(session, lease_expires_at=expires_at, last_heartbeat_at=now, updated_at=now)


def refuse_renewal(session: Session | None, worker_id: str, now: datetime, *, missing: str) -> Rejection | None:
    """Why a worker cannot renew a session; ``missing`` is the reason for one that is unknown."""
    if session is None:
        return Rejection(missing, "There is no such session.")
    if session.lease_owner != worker_id:
        return Rejection("session_owner_mismatch", "Another worker holds the session.")
    if session.is_over(now):
        return Rejection("session_closed", "The session has ended.")
    if not session.is_held(now):
        return Rejection("session_not_active", "The session was lost; it must be acquired again.")
    return None


def close(session: Session | None, worker_id: str, now: datetime) -> tuple[str, Session] | Rejection:
    """End a session for ever, by its last owner; outcome closed or already_closed."""
    if session is None:
        return Rejection("session_not_found", "There is no such session.")
    if session.lease_owner != worker_id:
        return Rejection("session_owner_mismatch", "Another worker holds the session.")
    if session.status is SessionStatus.CLOSED:
        return "already_closed", session
    ended = msgspec.structs.replace(session, status=SessionStatus.CLOSED, closed_at=now, updated_at=now)
    return "closed", ended


def refusal(rejection: Rejection, status: int) -> dict[str, Any]:
    """The members by which a verb says that a worker is not admitted."""
    return {"admitted": False, "outcome": None, "status": status} | rejection.fields
