"""The verdict of each named check."""

from __future__ import annotations

import msgspec

from dw_core.coordination.counters import (
    BackendCapabilities,
    CoordinationCounters,
    MatchingFacts,
    WorkerCompatibility,
)
from dw_core.discovery.coordination import Check, CheckStatus


def backend_capabilities(backend: BackendCapabilities) -> Check:
    """The only check besides ``worker_compatibility`` that can be an error."""
    message = "The database has every capability the server needs."
    if backend.severity != "ok":
        message = "The database lacks: " + ", ".join(backend.issues) + "."
    return _check(backend.severity, message, backend)


def worker_compatibility(workers: WorkerCompatibility) -> Check:
    """Whether a live worker supports the required marker; an error only in validation mode ``fail``."""
    required = workers.required_compatibility
    if required is None:
        return _check("ok", "No compatibility marker is required.", workers)
    if workers.active_workers_supporting_required:
        return _check("ok", f"Live workers support {required}.", workers)
    status: CheckStatus = "error" if workers.validation_mode == "fail" else "warning"
    return _check(status, f"No live worker supports {required}.", workers)


def all_checks(counters: CoordinationCounters, matching: MatchingFacts) -> dict[str, Check]:
    """Every check of topology §3.4 by name."""
    tasks, resume = counters.tasks, counters.resume_paths
    return {
        "backend_capabilities": backend_capabilities(counters.backend),
        "run_summary_projection": _counted(
            counters.run_summaries.needs_rebuild, "run summaries to rebuild", counters.run_summaries
        ),
        "selected_run_projections": _counted(
            counters.projections.needs_rebuild, "detail projections to rebuild", counters.projections
        ),
        "history_retention_invariant": _counted(
            counters.history.history_orphan_total, "history events without a run", counters.history
        ),
        "command_contract_snapshots": _counted(
            counters.command_contracts.backfill_needed_runs,
            "runs without their command contract",
            counters.command_contracts,
        ),
        "task_transport": _counted(
            tasks.unhealthy_tasks + tasks.repair_needed_runs + tasks.claim_failed_runs,
            "tasks or runs that transport must recover",
            tasks,
        ),
        "activity_path": _counted(
            counters.activities.timeout_overdue,
            "activities past a deadline that is not enforced yet",
            counters.activities,
        ),
        "routing_health": _routing_health(counters, matching),
        "durable_resume_paths": _counted(
            resume.repair_needed_runs + resume.missing_task_candidates, "runs without a way to continue", resume
        ),
        "worker_compatibility": worker_compatibility(counters.workers),
        "scheduler_role": _counted(counters.schedules.missed, "schedules past their fire time", counters.schedules),
        "long_poll_wake_acceleration": _wake_acceleration(counters),
    }


def _routing_health(counters: CoordinationCounters, matching: MatchingFacts) -> Check:
    tasks, workers = counters.tasks, counters.workers
    troubled = tasks.compatibility_blocked_runs + tasks.dispatch_overdue_tasks + tasks.claim_failed_tasks
    data = {
        "compatibility_blocked_runs": tasks.compatibility_blocked_runs,
        "oldest_compatibility_blocked_started_at": tasks.oldest_compatibility_blocked_started_at,
        "max_compatibility_blocked_age_ms": tasks.max_compatibility_blocked_age_ms,
        "dispatch_overdue_tasks": tasks.dispatch_overdue_tasks,
        "oldest_dispatch_overdue_since": tasks.oldest_dispatch_overdue_since,
        "max_dispatch_overdue_age_ms": tasks.max_dispatch_overdue_age_ms,
        "claim_failed_tasks": tasks.claim_failed_tasks,
        "oldest_claim_failed_at": tasks.oldest_claim_failed_at,
        "max_claim_failed_age_ms": tasks.max_claim_failed_age_ms,
        **msgspec.to_builtins(matching),
        "active_worker_scopes": workers.active_worker_scopes,
        "required_compatibility": workers.required_compatibility,
        "active_workers": workers.active_workers,
        "active_workers_supporting_required": workers.active_workers_supporting_required,
        "fleet_supports_required": workers.required_compatibility is None
        or workers.active_workers_supporting_required > 0,
    }
    message = _counted_message(troubled, "runs or tasks that cannot be routed")
    return Check(status="warning" if troubled else "ok", message=message, data=data)


def _wake_acceleration(counters: CoordinationCounters) -> Check:
    wake = counters.wake
    accelerated = wake.capable and wake.safe
    message = "Wake signals reach held polls." if accelerated else "Held polls find work by probing only."
    # A single node without a wake backend loses nothing: its own commits wake its own polls.
    status: CheckStatus = "ok" if accelerated or (not wake.multi_node and wake.safe) else "warning"
    return _check(status, message, wake)


def _counted(count: int, subject: str, data: msgspec.Struct) -> Check:
    return _check("warning" if count else "ok", _counted_message(count, subject), data)


def _counted_message(count: int, subject: str) -> str:
    return f"Found {subject}: {count}." if count else f"Found no {subject}."


def _check(status: CheckStatus, message: str, data: msgspec.Struct) -> Check:
    return Check(status=status, message=message, data=msgspec.to_builtins(data))
