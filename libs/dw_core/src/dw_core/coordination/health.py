"""The documents built from the checks: ``coordination_health`` and ``checks.workflow_v2`` of readiness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dw_core.coordination.checks import Check, all_checks, backend_capabilities, worker_compatibility
from dw_core.coordination.counters import (
    BackendCapabilities,
    CoordinationCounters,
    MatchingFacts,
    RoutingDrains,
    WorkerCompatibility,
)

HEALTH_SCHEMA: Final = "durable-workflow.v2.coordination-health.contract"
HEALTH_VERSION: Final = 2

BLOCKED_MESSAGE: Final = "Rollout-safety health was not evaluated because its prerequisites are not met."
BLOCKED_REMEDIATION: Final = (
    "Restore database connectivity and migrate the workflow tables before relying on workflow v2 rollout-safety health."
)

_RANK: Final = ("ok", "warning", "error")
_CATEGORIES: Final = ("correctness", "acceleration")


def coordination_health(
    counters: CoordinationCounters, matching: MatchingFacts, *, generated_at: str
) -> dict[str, Any]:
    """The evaluated document; ``generated_at`` is a wire timestamp (topology §3.4)."""
    checks = all_checks(counters, matching)
    return {
        "schema": HEALTH_SCHEMA,
        "version": HEALTH_VERSION,
        "namespace_scope": "all_namespaces",
        **_summary(checks, generated_at),
        "checks": [msgspec.to_builtins(check) for check in checks],
        "routing_drains": msgspec.to_builtins(counters.drains),
    }


def blocked_health(blocked_by: Sequence[str], *, generated_at: str) -> dict[str, Any]:
    """The document of a node whose database or migrations keep it from evaluating anything."""
    return {
        "schema": HEALTH_SCHEMA,
        "version": HEALTH_VERSION,
        "namespace_scope": "all_namespaces",
        "status": "blocked",
        "http_status": 503,
        "generated_at": generated_at,
        "categories": {name: {"status": "blocked", "check_count": 0} for name in _CATEGORIES},
        "warning_checks": [],
        "error_checks": [],
        "checks": [],
        **_blocked(blocked_by),
        "routing_drains": msgspec.to_builtins(RoutingDrains()),
    }


def workflow_v2_check(
    backend: BackendCapabilities, workers: WorkerCompatibility, *, generated_at: str
) -> dict[str, Any]:
    """The fixed-cost subset that readiness evaluates; its checks carry no ``data`` (topology §3.2)."""
    checks = [backend_capabilities(backend), worker_compatibility(workers)]
    members = ("name", "status", "category", "message")
    return {
        **_summary(checks, generated_at),
        "checks": [{member: getattr(check, member) for member in members} for check in checks],
    }


def workflow_v2_blocked_check(blocked_by: Sequence[str]) -> dict[str, Any]:
    """``checks.workflow_v2`` when the prerequisites fail: nothing else is evaluated."""
    return {"status": "blocked", **_blocked(blocked_by)}


def _blocked(blocked_by: Sequence[str]) -> dict[str, Any]:
    return {"blocked_by": list(blocked_by), "message": BLOCKED_MESSAGE, "remediation": BLOCKED_REMEDIATION}


def _summary(checks: Sequence[Check], generated_at: str) -> dict[str, Any]:
    status = _worst(checks)
    return {
        "status": status,
        "http_status": 503 if status == "error" else 200,
        "generated_at": generated_at,
        "categories": {
            name: {
                "status": _worst([check for check in checks if check.category == name]),
                "check_count": sum(check.category == name for check in checks),
            }
            for name in _CATEGORIES
        },
        "warning_checks": [check.name for check in checks if check.status == "warning"],
        "error_checks": [check.name for check in checks if check.status == "error"],
    }


def _worst(checks: Sequence[Check]) -> str:
    return max((check.status for check in checks), key=_RANK.index, default="ok")
