"""The twelve named checks, in their frozen order."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dw_core.coordination.counters import (
    BackendCapabilities,
    CoordinationCounters,
    MatchingFacts,
    WorkerCompatibility,
)

Status = Literal["ok", "warning", "error"]
Category = Literal["correctness", "acceleration"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one check; ``data`` are the counters it looked at."""

    name: str
    status: Status
    category: Category
    message: str
    data: dict[str, Any]


def backend_capabilities(backend: BackendCapabilities) -> Check:
    """The only check besides ``worker_compatibility`` that can be an error."""
    message = "The database has every capability the server needs."
    if backend.severity != "ok":
        message = "The database lacks: " + ", ".join(backend.issues) + "."
    return _check("backend_capabilities", backend.severity, message, backend)


def worker_compatibility(workers: WorkerCompatibility) -> Check:
    """Whether a live worker supports the required marker; an error only in validation mode ``fail``."""
    required = workers.required_compatibility
    if required is None:
        return _check("worker_compatibility", "ok", "No compatibility marker is required.", workers)
    if workers.active_workers_supporting_required:
        return _check("worker_compatibility", "ok", f"Live workers support {required}.", workers)
    status: Status = "error" if workers.validation_mode == "fail" else "warning"
    return _check("worker_compatibility", status, f"No live worker supports {required}.", workers)


def all_checks(counters: CoordinationCounters, matching: MatchingFacts) -> list[Check]:
    """Every check of topology §3.4, in order."""
    tasks = counters.tasks
    unhealthy = tasks.unhealthy_tasks + tasks.repair_needed_runs + tasks.claim_failed_runs
    resume = counters.resume_paths
    return [
        backend_capabilities(counters.backend),
        _counted(
            "run_summary_projection",
            counters.run_summaries.needs_rebuild,
            "run summaries to rebuild",
            counters.run_summaries,
        ),
        _counted(
            "selected_run_projections",
            counters.projections.needs_rebuild,
            "detail projections to rebuild",
            counters.projections,
        ),
        _counted(
            "history_retention_invariant",
            counters.history.history_orphan_total,
            "history events without a run",
            counters.history,
        ),
        _counted(
            "command_contract_snapshots",
            counters.command_contracts.backfill_needed_runs,
            "runs without their command contract",
            counters.command_contracts,
        ),
        _counted("task_transport", unhealthy, "tasks or runs that transport must recover", tasks),
        _counted(
            "activity_path",
            counters.activities.timeout_overdue,
            "activities past a deadline that is not enforced yet",
            counters.activities,
        ),
        _routing_health(counters, matching),
        _counted(
            "durable_resume_paths",
            resume.repair_needed_runs + resume.missing_task_candidates,
            "runs without a way to continue",
            resume,
        ),
        worker_compatibility(counters.workers),
        _counted("scheduler_role", counters.schedules.missed, "schedules past their fire time", counters.schedules),
        _wake_acceleration(counters),
    ]


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
    status: Status = "warning" if troubled else "ok"
    return Check(
        name="routing_health",
        status=status,
        category="correctness",
        message=_counted_message(troubled, "runs or tasks that cannot be routed"),
        data=data,
    )


def _wake_acceleration(counters: CoordinationCounters) -> Check:
    wake = counters.wake
    accelerated = wake.capable and wake.safe
    message = "Wake signals reach held polls." if accelerated else "Held polls find work by probing only."
    # A single node without a wake backend loses nothing: its own commits wake its own polls.
    status: Status = "ok" if accelerated or (not wake.multi_node and wake.safe) else "warning"
    return Check(
        name="long_poll_wake_acceleration",
        status=status,
        category="acceleration",
        message=message,
        data=msgspec.to_builtins(wake),
    )


def _counted(name: str, count: int, subject: str, data: msgspec.Struct) -> Check:
    return _check(name, "warning" if count else "ok", _counted_message(count, subject), data)


def _counted_message(count: int, subject: str) -> str:
    return f"Found {subject}: {count}." if count else f"Found no {subject}."


def _check(name: str, status: Status, message: str, data: msgspec.Struct) -> Check:
    return Check(name=name, status=status, category="correctness", message=message, data=msgspec.to_builtins(data))
