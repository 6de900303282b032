"""``coordination_health``: the named checks of the coordination layer and their common verdict (topology §3.4)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

CheckStatus = Literal["ok", "warning", "error"]

CHECKS: dict[str, str] = {
    "backend_capabilities": "correctness",
    "run_summary_projection": "correctness",
    "selected_run_projections": "correctness",
    "history_retention_invariant": "correctness",
    "command_contract_snapshots": "correctness",
    "task_transport": "correctness",
    "activity_path": "correctness",
    "routing_health": "correctness",
    "durable_resume_paths": "correctness",
    "worker_compatibility": "correctness",
    "scheduler_role": "correctness",
    "long_poll_wake_acceleration": "acceleration",
}
"""Every check and its category, in the published order."""

_WORST_FIRST: tuple[CheckStatus, ...] = ("error", "warning", "ok")


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one named check."""

    status: CheckStatus = "ok"
    message: str = ""
    data: dict[str, Any] = {}


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Why the server cannot work at all: the same facts that readiness gives."""

    blocked_by: list[str]
    message: str
    remediation: str


def coordination_health(
    checks: dict[str, Check],
    *,
    generated_at: str,
    blocked: Blocked | None = None,
    routing_drains: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The block for the results at hand.

    ``checks`` maps names of :data:`CHECKS` to results; a name that is left out counts as ok without data.
    ``generated_at`` is in wire form. The verdict is the worst check, or ``blocked``.
    """
    assert checks.keys() <= CHECKS.keys(), "a check of coordination health has an unpublished name"
    results = {name: checks.get(name, Check()) for name in CHECKS}
    status = "blocked" if blocked else _worst([result.status for result in results.values()])
    return {
        "schema": "durable-workflow.v2.coordination-health.contract",
        "version": 2,
        "namespace_scope": "all_namespaces",
        "status": status,
        "http_status": 200 if status in ("ok", "warning") else 503,
        "generated_at": generated_at,
        "categories": {category: _category(category, results) for category in ("correctness", "acceleration")},
        "warning_checks": [name for name, result in results.items() if result.status == "warning"],
        "error_checks": [name for name, result in results.items() if result.status == "error"],
        "checks": [
            {
                "name": name,
                "status": result.status,
                "category": CHECKS[name],
                "message": result.message or f"{name.replace('_', ' ')}: {result.status}",
                "data": result.data,
            }
            for name, result in results.items()
        ],
        **(msgspec.to_builtins(blocked) if blocked else {}),
        "routing_drains": routing_drains or no_routing_drains(),
    }


def no_routing_drains() -> dict[str, Any]:
    """The ``routing_drains`` block when no build is being drained."""
    return {
        "queues_with_drains": 0,
        "draining_build_id_count": 0,
        "active_worker_count": 0,
        "draining_worker_count": 0,
        "stale_worker_count": 0,
        "queues": [],
    }


def _category(category: str, results: dict[str, Check]) -> dict[str, Any]:
    members = [result.status for name, result in results.items() if CHECKS[name] == category]
    return {"status": _worst(members), "check_count": len(members)}


def _worst(statuses: list[CheckStatus]) -> str:
    return next((status for status in _WORST_FIRST if status in statuses), "ok")
