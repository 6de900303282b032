"""What readiness and cluster info say about coordination, evaluated or blocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dw_core.coordination.checks import all_checks, backend_capabilities, worker_compatibility
from dw_core.coordination.counters import (
    BackendCapabilities,
    CoordinationCounters,
    MatchingFacts,
    WorkerCompatibility,
)
from dw_core.discovery.coordination import Blocked, coordination_health

BLOCKED_MESSAGE: Final = "Rollout-safety health was not evaluated because its prerequisites are not met."
BLOCKED_REMEDIATION: Final = (
    "Restore database connectivity and migrate the workflow tables before relying on workflow v2 rollout-safety health."
)


def evaluated_health(counters: CoordinationCounters, matching: MatchingFacts, *, generated_at: str) -> dict[str, Any]:
    """The ``coordination_health`` document for ``counters``; ``generated_at`` is a wire timestamp (topology §3.4)."""
    return coordination_health(
        all_checks(counters, matching),
        generated_at=generated_at,
        routing_drains=msgspec.to_builtins(counters.drains),
    )


def blocked_health(blocked_by: Sequence[str], *, generated_at: str) -> dict[str, Any]:
    """The ``coordination_health`` document of a node whose database or migrations keep it from evaluating anything."""
    blocked = Blocked(blocked_by=list(blocked_by), message=BLOCKED_MESSAGE, remediation=BLOCKED_REMEDIATION)
    return {
        **coordination_health({}, generated_at=generated_at, blocked=blocked),
        # Nothing was evaluated, so no check may claim to be ok.
        "categories": {name: {"status": "blocked", "check_count": 0} for name in ("correctness", "acceleration")},
        "checks": [],
    }


def workflow_v2_check(
    backend: BackendCapabilities, workers: WorkerCompatibility, *, generated_at: str
) -> dict[str, Any]:
    """The fixed-cost subset that readiness evaluates; its checks carry no ``data`` (topology §3.2)."""
    checks = {
        "backend_capabilities": backend_capabilities(backend),
        "worker_compatibility": worker_compatibility(workers),
    }
    by_status = {status: [n for n, c in checks.items() if c.status == status] for status in ("error", "warning")}
    status = next((status for status, names in by_status.items() if names), "ok")
    return {
        "status": status,
        "generated_at": generated_at,
        "http_status": 503 if status == "error" else 200,
        "categories": {
            "correctness": {"status": status, "check_count": len(checks)},
            "acceleration": {"status": "ok", "check_count": 0},
        },
        "warning_checks": by_status["warning"],
        "error_checks": by_status["error"],
        "checks": [
            {"name": name, "status": check.status, "category": "correctness", "message": check.message}
            for name, check in checks.items()
        ],
    }


def workflow_v2_blocked_check(blocked_by: Sequence[str]) -> dict[str, Any]:
    """``checks.workflow_v2`` when the prerequisites fail: nothing else is evaluated."""
    return {
        "status": "blocked",
        "blocked_by": list(blocked_by),
        "message": BLOCKED_MESSAGE,
        "remediation": BLOCKED_REMEDIATION,
    }
