"""The ``task_repair`` document: the policy in force and what it would pick up now (topology §3.3.5)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

SCAN_LIMIT: Final = 25
SCAN_STRATEGY: Final = "scope_fair_round_robin"

REPAIR_POLICY: Final[dict[str, Any]] = {
    "redispatch_after_seconds": 3,
    "loop_throttle_seconds": 5,
    "scan_limit": SCAN_LIMIT,
    "scan_strategy": SCAN_STRATEGY,
    "failure_backoff_max_seconds": 60,
    "failure_backoff_strategy": "exponential_by_repair_count",
}


class RepairScope(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates of one queue and compatibility; ``scope_key`` is ``connection:queue:compatibility``."""

    scope_key: str
    queue: str | None
    compatibility: str | None = None
    connection: str | None = None
    existing_task_candidates: int = 0
    missing_task_candidates: int = 0
    total_candidates: int = 0
    selected_existing_task_candidates: int = 0
    selected_missing_task_candidates: int = 0
    selected_total_candidates: int = 0
    oldest_task_candidate_created_at: str | None = None
    oldest_missing_run_started_at: str | None = None
    max_task_candidate_age_ms: int = 0
    max_missing_run_age_ms: int = 0
    scan_limited_by_global_policy: bool = False


class RepairCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair pass would look at; times are wire timestamps, ages milliseconds."""

    existing_task_candidates: int = 0
    missing_task_candidates: int = 0
    total_candidates: int = 0
    scan_limit: int = SCAN_LIMIT
    scan_strategy: str = SCAN_STRATEGY
    selected_existing_task_candidates: int = 0
    selected_missing_task_candidates: int = 0
    selected_total_candidates: int = 0
    existing_task_scan_limit_reached: bool = False
    missing_task_scan_limit_reached: bool = False
    scan_pressure: bool = False
    oldest_task_candidate_created_at: str | None = None
    oldest_missing_run_started_at: str | None = None
    max_task_candidate_age_ms: int = 0
    max_missing_run_age_ms: int = 0
    scopes: tuple[RepairScope, ...] = ()


NO_CANDIDATES: Final = RepairCandidates()


def task_repair(candidates: RepairCandidates = NO_CANDIDATES) -> dict[str, Any]:
    """The document of ``/api/cluster/info``."""
    return {"policy": REPAIR_POLICY, "candidates": msgspec.to_builtins(candidates)}
