"""``operator_metrics``: what an operator counts, as one document with frozen names (topology §6.1)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from dw_core.coordination.counters import CoordinationCounters
from dw_core.discovery.fleet import FleetWorker
from dw_core.discovery.repair import REPAIR_POLICY, RepairCandidates
from dw_core.engine.rows import TaskKind
from dw_core.limits import Limits, structural_limits
from dw_core.protocol.timestamps import wire_time

COUNTED_MAX = 10_000
"""Rows of each kind that are looked at; past that a count is a lower bound."""


class RunCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Open runs of a namespace."""

    open: int
    waiting: int
    oldest_wait_started_at: datetime | None
    repair_needed: int
    oldest_repair_needed_at: datetime | None
    failing: int
    pending: int
    oldest_pending_start_at: datetime | None
    max_event_count: int
    max_size_bytes: int
    max_fan_out: int


class BudgetUse(msgspec.Struct, frozen=True, kw_only=True):
    """An open run that is near or past a threshold of the history budget."""

    events: int
    size_bytes: int
    fan_out: int


class TaskFailures(msgspec.Struct, frozen=True, kw_only=True):
    """Open runs of one type whose last workflow task failed."""

    workflow_type: str
    max_consecutive_failures: int
    failed_task_count: int


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Open tasks of one kind."""

    kind: TaskKind
    ready: int = 0
    ready_due: int = 0
    delayed: int = 0
    leased: int = 0
    lease_expired: int = 0
    retrying: int = 0
    first_ready: int = 0
    added_last_minute: int = 0
    dispatched_last_minute: int = 0


class NamespaceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of one namespace; ``budgets`` are the runs near a threshold."""

    now: datetime
    completed: int
    instances: int
    failed: int
    cancelled: int
    terminated: int
    drifted: int
    runs: RunCounts
    budgets: list[BudgetUse]
    task_failures: list[TaskFailures]
    tasks: list[TaskCounts] | None = None

    def age_ms(self, since: datetime | None) -> int:
        """Milliseconds from ``since`` to the time of the reading, 0 for None."""
        return 0 if since is None else max(0, (self.now - since) // timedelta(milliseconds=1))

    def kind(self, kind: TaskKind) -> TaskCounts:
        """The open tasks of a kind."""
        return next((counts for counts in self.tasks or () if counts.kind is kind), TaskCounts(kind=kind))


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the document says beside the counts of the namespace: counters of the whole deployment, and settings."""

    counters: CoordinationCounters
    repair: RepairCandidates
    workers: list[FleetWorker]
    limits: Limits
    matching_role: dict[str, Any]
    sticky_execution: dict[str, Any]
    update_wait: dict[str, int]


def operator_metrics(namespace: str, counts: NamespaceCounts, around: Surroundings) -> dict[str, Any]:
    """The document. Tasks past their lease or late for a dispatch are those of every namespace."""
    counters = around.counters
    return {
        "generated_at": wire_time(counts.now),
        "counted_max": COUNTED_MAX,
        "runs": _runs(counts, counters),
        "tasks": _tasks(counts, counters),
        "activities": _activities(counts, counters),
        "backlog": _backlog(counts, counters),
        "repair": msgspec.to_builtins(around.repair),
        "starts": {
            "pending_runs": counts.runs.pending,
            "pending_commands": counts.runs.pending,
            "ready_tasks": counts.kind(TaskKind.WORKFLOW).first_ready,
            "oldest_pending_start_at": wire_time(counts.runs.oldest_pending_start_at),
            "max_pending_ms": counts.age_ms(counts.runs.oldest_pending_start_at),
        },
        "history": _history(counts, counters, around.limits),
        "command_contracts": msgspec.to_builtins(counters.command_contracts),
        "projections": {
            "run_summaries": {"drifted": counts.drifted},
            "run_waits": {"drifted": 0},
            "run_timeline_entries": {"drifted": 0},
            "run_timer_entries": {"drifted": 0},
            "run_lineage_entries": {"drifted": 0},
        },
        "schedules": msgspec.to_builtins(counters.schedules),
        "workers": _workers(namespace, counters, around.workers),
        "backend": {
            "generated_at": wire_time(counts.now),
            "readiness_contract": 1,
            "supported": counters.backend.severity != "error",
            "severity": counters.backend.severity,
            "database": "postgres",
            "queue": "postgres",
            "cache": counters.wake.backend,
            "codec": "avro",
            "structural_limits": structural_limits(around.limits),
            "issues": [
                {"component": "database", "severity": counters.backend.severity, "code": "unsupported", "message": text}
                for text in counters.backend.issues
            ],
        },
        "structural_limits": structural_limits(around.limits),
        "update_wait": around.update_wait,
        "repair_policy": REPAIR_POLICY,
        "matching_role": around.matching_role,
        "sticky_execution": around.sticky_execution,
    }


def _runs(counts: NamespaceCounts, counters: CoordinationCounters) -> dict[str, Any]:
    runs, tasks = counts.runs, counters.tasks
    return {
        "total": runs.open + counts.completed + counts.failed + counts.cancelled + counts.terminated,
        "current": counts.instances,
        "running": runs.open,
        "completed": counts.completed,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "terminated": counts.terminated,
        "repair_needed": runs.repair_needed,
        "oldest_repair_needed_at": wire_time(runs.oldest_repair_needed_at),
        "max_repair_needed_age_ms": counts.age_ms(runs.oldest_repair_needed_at),
        "claim_failed": runs.failing,
        "compatibility_blocked": tasks.compatibility_blocked_runs,
        "waiting": runs.waiting,
        "oldest_wait_started_at": wire_time(runs.oldest_wait_started_at),
        "max_wait_age_ms": counts.age_ms(runs.oldest_wait_started_at),
    }


def _tasks(counts: NamespaceCounts, counters: CoordinationCounters) -> dict[str, Any]:
    kinds = counts.tasks or []
    transport = msgspec.to_builtins(counters.tasks)
    members = {name.removesuffix("_tasks"): value for name, value in transport.items() if not name.endswith("_runs")}
    oldest = [at for at in (members["oldest_lease_expired_at"], members["oldest_dispatch_overdue_since"]) if at]
    return members | {
        "open": sum(kind.ready + kind.leased for kind in kinds),
        "ready": sum(kind.ready for kind in kinds),
        "ready_due": sum(kind.ready_due for kind in kinds),
        "delayed": sum(kind.delayed for kind in kinds),
        "leased": sum(kind.leased for kind in kinds),
        "oldest_unhealthy_at": min(oldest, default=None),
        "max_unhealthy_age_ms": max(members["max_lease_expired_age_ms"], members["max_dispatch_overdue_age_ms"]),
    }


def _activities(counts: NamespaceCounts, counters: CoordinationCounters) -> dict[str, Any]:
    queued = counts.kind(TaskKind.ACTIVITY)
    path: dict[str, Any] = msgspec.to_builtins(counters.activities)
    return path | {
        "open": queued.ready + queued.leased,
        "pending": queued.ready,
        "running": queued.leased,
        "queued_open": queued.ready + queued.leased,
        "queued_pending": queued.ready,
        "queued_running": queued.leased,
        "retrying": queued.retrying,
    }


def _backlog(counts: NamespaceCounts, counters: CoordinationCounters) -> dict[str, Any]:
    kinds, tasks = counts.tasks or [], counters.tasks
    return {
        "runnable_tasks": sum(kind.ready_due for kind in kinds),
        "delayed_tasks": sum(kind.delayed for kind in kinds),
        "leased_tasks": sum(kind.leased for kind in kinds),
        "tasks_added_last_minute": sum(kind.added_last_minute for kind in kinds),
        "tasks_dispatched_last_minute": sum(kind.dispatched_last_minute for kind in kinds),
        "retrying_activities": counts.kind(TaskKind.ACTIVITY).retrying,
        "unhealthy_tasks": tasks.unhealthy_tasks,
        "repair_needed_runs": counts.runs.repair_needed,
        "claim_failed_runs": counts.runs.failing,
        "compatibility_blocked_runs": tasks.compatibility_blocked_runs,
        "oldest_compatibility_blocked_started_at": tasks.oldest_compatibility_blocked_started_at,
        "max_compatibility_blocked_age_ms": tasks.max_compatibility_blocked_age_ms,
    }


def _history(counts: NamespaceCounts, counters: CoordinationCounters, limits: Limits) -> dict[str, Any]:
    thresholds = {
        "event_threshold": limits.continue_as_new_events,
        "size_bytes_threshold": limits.continue_as_new_size_bytes,
        "fan_out_threshold": limits.continue_as_new_fan_out,
    }
    recommended = sum(
        run.events >= limits.continue_as_new_events
        or run.size_bytes >= limits.continue_as_new_size_bytes
        or run.fan_out >= limits.continue_as_new_fan_out
        for run in counts.budgets
    )
    return {
        "continue_as_new_recommended_runs": recommended,
        "approaching_budget_runs": len(counts.budgets) - recommended,
        "events": counters.history.events,
        "history_orphan_total": counters.history.history_orphan_total,
        "max_event_count": counts.runs.max_event_count,
        "max_size_bytes": counts.runs.max_size_bytes,
        "max_fan_out": counts.runs.max_fan_out,
        **thresholds,
        "event_warning_threshold": limits.history_warning_events,
        "size_bytes_warning_threshold": limits.history_warning_size_bytes,
        "fan_out_warning_threshold": limits.history_warning_fan_out,
    }


def _workers(namespace: str, counters: CoordinationCounters, workers: list[FleetWorker]) -> dict[str, Any]:
    compatibility = counters.workers
    required = compatibility.required_compatibility
    return {
        "compatibility_namespace": None,
        "required_compatibility": required,
        "active_workers": compatibility.active_workers,
        "active_worker_scopes": compatibility.active_worker_scopes,
        "active_workers_supporting_required": compatibility.active_workers_supporting_required,
        "fleet": [
            {
                "worker_id": worker.worker_id,
                "namespace": namespace,
                "host": None,
                "process_id": None,
                "connection": None,
                "queue": worker.queues[0],
                "supported": list(worker.build_ids),
                "supports_required": required is None or required in worker.build_ids,
                "recorded_at": worker.recorded_at,
                "expires_at": worker.expires_at,
                "source": "worker_registration",
            }
            for worker in workers
        ],
    }


def bounded_metrics(namespace: str, counts: NamespaceCounts, types_max: int) -> dict[str, Any]:
    """The document of ``/system/metrics``: at most ``types_max`` workflow types are named (topology §6.2)."""
    failures = counts.task_failures
    shown, rest = failures[:types_max], failures[types_max:]
    return {
        "generated_at": wire_time(counts.now),
        "namespace": namespace,
        "metrics": {
            "dw_workflow_task_consecutive_failures": {
                "max_consecutive_failures": max((row.max_consecutive_failures for row in failures), default=0),
                "failed_task_count": sum(row.failed_task_count for row in failures),
                "workflow_type_count": len(failures),
                "workflow_type_limit": types_max,
                "workflow_types_truncated": bool(rest),
                "suppressed_workflow_type_count": len(rest),
                "suppressed_failed_task_count": sum(row.failed_task_count for row in rest),
                "label_cardinality_policy": "bounded_by_workflow_type_limit",
                "by_workflow_type": [msgspec.to_builtins(row) for row in shown],
            },
            "dw_projection_drift_total": {
                "total": counts.drifted,
                "table_count": 1,
                "tables_with_drift": int(counts.drifted > 0),
                "scope": "namespace",
                "label_cardinality_policy": "fixed_table_list",
                "by_table": [{"table": "workflow_run_summaries", "needs_rebuild": counts.drifted}],
            },
        },
        "cardinality": {
            "metric_label_sets": {
                "dw_workflow_task_consecutive_failures": ["namespace", "workflow_type"],
                "dw_projection_drift_total": ["table"],
            }
        },
    }
