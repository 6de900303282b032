"""Sessions as authored and as stored."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec

from dw_core.limits import SESSION_ACTIVITIES_DEFAULT, SESSION_LEASE_SECONDS_DEFAULT, SESSION_TTL_SECONDS_DEFAULT
from dw_core.protocol.timestamps import wire_time


class SessionStatus(enum.StrEnum):
    """Only ``closed`` is for ever. ``expired`` and ``orphaned`` may be acquired again, ``failed`` may not."""

    ACTIVE = "active"
    CLOSED = "closed"
    EXPIRED = "expired"
    FAILED = "failed"
    ORPHANED = "orphaned"


class SessionLoss(enum.StrEnum):
    """Why a session has been lost."""

    TTL_EXPIRED = "ttl_expired"
    LEASE_EXPIRED = "lease_expired"
    WORKER_HEARTBEAT_STALE = "worker_heartbeat_stale"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the author of an activity or the creator of a session asks for (worker-plane §15.1); times in seconds."""

    session_id: str
    connection: str | None = None
    queue: str | None = None
    requirements: tuple[str, ...] = ()
    lease_seconds: int = SESSION_LEASE_SECONDS_DEFAULT
    ttl_seconds: int = SESSION_TTL_SECONDS_DEFAULT
    max_concurrent_activities: int = SESSION_ACTIVITIES_DEFAULT
    create_if_missing: bool = True
    allow_reacquire_after_failure: bool = True


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session. ``lease_owner`` is the worker that holds it, or held it last."""

    namespace: str
    session_id: str
    connection: str | None = None
    queue: str | None = None
    requirements: tuple[str, ...] = ()
    lease_seconds: int
    ttl_seconds: int
    max_concurrent_activities: int
    create_if_missing: bool
    allow_reacquire_after_failure: bool
    status: SessionStatus = SessionStatus.ACTIVE
    lease_owner: str
    lease_expires_at: datetime
    ttl_expires_at: datetime
    failure_reason: SessionLoss | None = None
    last_heartbeat_at: datetime
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Closed, or past its time to live: its id is used up."""
        return self.closed_at is not None or self.ttl_expires_at <= now

    def is_held(self, now: datetime) -> bool:
        """Whether its owner still has it."""
        return self.status is SessionStatus.ACTIVE and self.lease_expires_at > now and not self.is_over(now)


class SessionRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """A later end of the lease of a session, if its owner still holds it."""

    namespace: str
    session_id: str
    lease_owner: str
    lease_expires_at: datetime


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The worker behind ``lease_owner`` as far as it is registered."""

    worker_id: str
    task_queue: str
    status: str
    last_heartbeat_at: datetime
    is_stale: bool


def affinity(options: SessionOptions, session: Session | None) -> dict[str, Any]:
    """What a task and the answers about its attempt say of its session (worker-plane §15.4)."""
    members: dict[str, Any] = msgspec.structs.asdict(options) | {"requirements": list(options.requirements)}
    if session is None:
        return members
    return members | {
        "status": session.status.value,
        "lease_owner": session.lease_owner,
        "lease_expires_at": wire_time(session.lease_expires_at),
        "ttl_expires_at": wire_time(session.ttl_expires_at),
    }


def snapshot(session: Session, holder: Holder | None, active_activity_count: int) -> dict[str, Any]:
    """The whole session, as its verbs answer; ``active_activity_count`` are the attempts its owner runs in it."""
    return {
        "session_id": session.session_id,
        "namespace": session.namespace,
        "connection": session.connection,
        "queue": session.queue,
        "requirements": list(session.requirements),
        "status": session.status.value,
        "lease_owner": session.lease_owner,
        "holder": None
        if holder is None
        else {
            "worker_id": holder.worker_id,
            "task_queue": holder.task_queue,
            "status": holder.status,
            "last_heartbeat_at": wire_time(holder.last_heartbeat_at),
            "is_stale": holder.is_stale,
        },
        "lease_expires_at": wire_time(session.lease_expires_at),
        "ttl_expires_at": wire_time(session.ttl_expires_at),
        "closed_at": wire_time(session.closed_at),
        "failure_reason": None if session.failure_reason is None else session.failure_reason.value,
        "lease_seconds": session.lease_seconds,
        "ttl_seconds": session.ttl_seconds,
        "max_concurrent_activities": session.max_concurrent_activities,
        "create_if_missing": session.create_if_missing,
        "allow_reacquire_after_failure": session.allow_reacquire_after_failure,
        "active_activity_count": active_activity_count,
        "last_heartbeat_at": wire_time(session.last_heartbeat_at),
        "created_at": wire_time(session.created_at),
        "updated_at": wire_time(session.updated_at),
    }
