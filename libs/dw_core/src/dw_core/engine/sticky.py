"""Sticky execution: a run's next workflow task goes first to the worker that keeps its history (engine §4.8).

It only saves reading what that worker has read before. Whoever takes the task may replay it from the first event.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from dw_core.engine.rows import Run, Task
from dw_core.engine.transition import Rejection
from dw_core.limits import STICKY_WAIT_SECONDS


class StickyClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion says of its worker's cache, which keeps this run for ``ttl_seconds``."""

    worker_id: str
    workflow_id: str
    run_id: str
    ttl_seconds: int


def refuse_claim(run: Run, claim: StickyClaim | None, lease_owner: str) -> Rejection | None:
    """A cache of another worker or run is refused: ``sticky_cache_identity_mismatch`` (worker-plane §8.8)."""
    if claim is None or (claim.worker_id, claim.workflow_id, claim.run_id) == (
        lease_owner,
        run.workflow_id,
        run.run_id,
    ):
        return None
    return Rejection(
        "sticky_cache_identity_mismatch",
        "The sticky cache belongs to another worker or run.",
        {
            "outcome": "rejected",
            "recorded": False,
            "capability": "sticky_execution",
            "minimum_protocol_version": "1.18",
        },
    )


def remember(run: Run, claim: StickyClaim | None, now: datetime) -> None:
    """The worker that has just completed a task of the run keeps its history, or nobody does."""
    run.sticky_worker = None if claim is None else claim.worker_id
    run.sticky_until = None if claim is None else now + timedelta(seconds=claim.ttl_seconds)


def reserve(run: Run, task: Task) -> None:
    """Keep a new workflow task for the worker that knows its run, for a moment."""
    if run.sticky_worker is not None and run.sticky_until is not None and run.sticky_until > task.available_at:
        task.reserved_for = run.sticky_worker
        task.reserved_until = task.available_at + timedelta(seconds=STICKY_WAIT_SECONDS)


def replay_mode(run: Run, task: Task) -> str | None:
    """How the worker of a leased task will replay; None for a run without affinity."""
    if run.sticky_worker is None or run.sticky_until is None or task.leased_at is None:
        return None
    is_hit = run.sticky_worker == task.lease_owner and run.sticky_until > task.leased_at
    return "sticky_hit_expected" if is_hit else "cold_replay"
