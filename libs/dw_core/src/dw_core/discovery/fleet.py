"""The dynamic blocks about workers and repair, and what they are when nothing could be measured."""

from __future__ import annotations

from typing import Any

import msgspec

WORKERS_MAX = 100
"""Workers listed in ``worker_fleet``, newest first; more set ``workers_truncated``."""

SCAN_LIMIT = 25
_SCAN_STRATEGY = "scope_fair_round_robin"


class FleetWorker(msgspec.Struct, frozen=True, kw_only=True):
    """An active worker as cluster info shows it; times are in wire form."""

    worker_id: str
    queues: list[str]
    build_ids: list[str]
    recorded_at: str
    expires_at: str


def worker_fleet(namespace: str, workers: list[FleetWorker]) -> dict[str, Any]:
    """The ``worker_fleet`` block for the active workers of a namespace, newest first (topology §3.3.4).

    ``active_worker_scopes`` counts the distinct pairs of worker and queue.
    """
    return {
        "namespace": namespace,
        "active_workers": len({worker.worker_id for worker in workers}),
        "active_worker_scopes": len({(worker.worker_id, queue) for worker in workers for queue in worker.queues}),
        "queues": sorted({queue for worker in workers for queue in worker.queues}),
        "build_ids": sorted({build for worker in workers for build in worker.build_ids}),
        "workers": [msgspec.to_builtins(worker) for worker in workers[:WORKERS_MAX]],
        "workers_truncated": len(workers) > WORKERS_MAX,
    }


def repair_policy(
    *,
    redispatch_after_seconds: int = 3,
    loop_throttle_seconds: int = 5,
    scan_limit: int = SCAN_LIMIT,
    failure_backoff_max_seconds: int = 60,
) -> dict[str, Any]:
    """The policy by which tasks that got lost are offered again (topology §3.3.5)."""
    return {
        "redispatch_after_seconds": redispatch_after_seconds,
        "loop_throttle_seconds": loop_throttle_seconds,
        "scan_limit": scan_limit,
        "scan_strategy": _SCAN_STRATEGY,
        "failure_backoff_max_seconds": failure_backoff_max_seconds,
        "failure_backoff_strategy": "exponential_by_repair_count",
    }


def no_repair_candidates(scan_limit: int = SCAN_LIMIT) -> dict[str, Any]:
    """The ``candidates`` block when no task needs repair."""
    return {
        "existing_task_candidates": 0,
        "missing_task_candidates": 0,
        "total_candidates": 0,
        "scan_limit": scan_limit,
        "scan_strategy": _SCAN_STRATEGY,
        "selected_existing_task_candidates": 0,
        "selected_missing_task_candidates": 0,
        "selected_total_candidates": 0,
        "existing_task_scan_limit_reached": False,
        "missing_task_scan_limit_reached": False,
        "scan_pressure": False,
        "oldest_task_candidate_created_at": None,
        "oldest_missing_run_started_at": None,
        "max_task_candidate_age_ms": 0,
        "max_missing_run_age_ms": 0,
        "scopes": [],
    }


def task_repair(policy: dict[str, Any] | None = None, candidates: dict[str, Any] | None = None) -> dict[str, Any]:
    """The ``task_repair`` block; what is not given is the default policy, or no candidates under it."""
    policy = policy or repair_policy()
    return {"policy": policy, "candidates": candidates or no_repair_candidates(policy["scan_limit"])}
