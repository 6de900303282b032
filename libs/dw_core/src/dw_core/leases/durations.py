"""Lengths of leases and of the pauses before a task is offered again; all in seconds."""

from __future__ import annotations

from datetime import datetime, timedelta

from dw_core.limits import ACTIVITY_LEASE_MAX_SECONDS, QUERY_LEASE_GRACE_SECONDS, QUERY_LEASE_MIN_SECONDS

LEASE_SECONDS = 300
"""The published lease of workflow and activity tasks (topology §2)."""

REDELIVERY_BACKOFF_SECONDS = 3
REDELIVERY_BACKOFF_MAX_SECONDS = 60
"""The pause after a failed workflow task doubles from the first to the second (worker-plane §8.9)."""


class LeaseTooShort(ValueError):
    """A configured lease below the published one, without the switch that allows it."""


def effective_lease_seconds(requested: int | None, allow_unsafe: bool) -> int:
    """The lease to use for a configured one; None means the published default.

    Workers rely on the published length, so less is accepted only with ``DW_ALLOW_UNSAFE_LIMITS`` (fault tests need
    seconds). Raises :class:`LeaseTooShort`, and ``ValueError`` for less than one second.
    """
    if requested is None:
        return LEASE_SECONDS
    if requested < 1:
        raise ValueError(f"a lease of {requested} seconds is not a lease")
    if requested < LEASE_SECONDS and not allow_unsafe:
        raise LeaseTooShort(
            f"a lease of {requested} seconds is shorter than the {LEASE_SECONDS} seconds workers are promised; "
            "DW_ALLOW_UNSAFE_LIMITS=true accepts it"
        )
    return requested


def activity_lease_seconds(lease_seconds: int, start_to_close_seconds: int | None) -> int:
    """The lease of one activity attempt: never shorter than the time the attempt may take (worker-plane §12.8).

    It is at most a day, which is the longest lease a worker accepts (worker-plane §16.2); a longer attempt has to
    heartbeat or renew.
    """
    return min(max(lease_seconds, start_to_close_seconds or 0), ACTIVITY_LEASE_MAX_SECONDS)


def needs_renewal(lease_expires_at: datetime, lease_seconds: int, now: datetime) -> bool:
    """Whether more than a tenth of a lease of ``lease_seconds`` has passed."""
    return lease_expires_at < now + timedelta(seconds=lease_seconds * 0.9)


def query_lease_seconds(configured_seconds: int, timeout_seconds: int) -> int:
    """The lease of a query task: it outlives the caller's wait of ``timeout_seconds`` (worker-plane §13.3)."""
    return max(QUERY_LEASE_MIN_SECONDS, configured_seconds, timeout_seconds + QUERY_LEASE_GRACE_SECONDS)


def expires_at(now: datetime, lease_seconds: int) -> datetime:
    """When a lease granted or renewed ``now`` ends."""
    return now + timedelta(seconds=lease_seconds)


def is_expired(lease_expires_at: datetime | None, now: datetime) -> bool:
    """Whether a lease has ended; a lease ends at its expiry, not after it."""
    return lease_expires_at is not None and lease_expires_at <= now


def redelivery_backoff_seconds(failures: int) -> int:
    """The pause before a workflow task is offered again after it failed ``failures`` times in a row (at least 1)."""
    assert failures >= 1, "only a failed task backs off"
    doublings = min(failures - 1, REDELIVERY_BACKOFF_MAX_SECONDS.bit_length())
    return min(REDELIVERY_BACKOFF_SECONDS << doublings, REDELIVERY_BACKOFF_MAX_SECONDS)
