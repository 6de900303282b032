"""The counters behind each check; every field is a member of the check's ``data`` (topology §3.4).

Times are wire timestamps or None; ages are milliseconds. The defaults say that nothing is wrong, so a store fills the
groups whose rows exist.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class BackendCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the database lacks: ``severity`` is error for a needed capability, warning for a lesser one."""

    severity: Literal["ok", "warning", "error"] = "ok"
    issue_count: int = 0
    issues: tuple[str, ...] = ()


class RunSummaryProjection(msgspec.Struct, frozen=True, kw_only=True):
    needs_rebuild: int = 0
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    schema_outdated: int = 0
    projection_schema_version: int = 1


class SelectedRunProjections(msgspec.Struct, frozen=True, kw_only=True):
    needs_rebuild: int = 0
    run_waits_needs_rebuild: int = 0
    timeline_needs_rebuild: int = 0
    timer_needs_rebuild: int = 0
    lineage_needs_rebuild: int = 0


class HistoryRetention(msgspec.Struct, frozen=True, kw_only=True):
    history_orphan_total: int = 0
    events: int = 0


class CommandContracts(msgspec.Struct, frozen=True, kw_only=True):
    backfill_needed_runs: int = 0
    backfill_available_runs: int = 0
    backfill_unavailable_runs: int = 0
    actionable_backfill_needed_runs: int = 0
    actionable_backfill_available_runs: int = 0
    actionable_backfill_unavailable_runs: int = 0
    closed_backfill_needed_runs: int = 0


class TaskTransport(msgspec.Struct, frozen=True, kw_only=True):
    unhealthy_tasks: int = 0
    lease_expired_tasks: int = 0
    oldest_lease_expired_at: str | None = None
    max_lease_expired_age_ms: int = 0
    ready_due_tasks: int = 0
    oldest_ready_due_at: str | None = None
    max_ready_due_age_ms: int = 0
    dispatch_overdue_tasks: int = 0
    oldest_dispatch_overdue_since: str | None = None
    max_dispatch_overdue_age_ms: int = 0
    claim_failed_tasks: int = 0
    oldest_claim_failed_at: str | None = None
    max_claim_failed_age_ms: int = 0
    dispatch_failed_tasks: int = 0
    oldest_dispatch_failed_at: str | None = None
    max_dispatch_failed_age_ms: int = 0
    max_attempt_count: int = 0
    max_repair_count: int = 0
    repair_needed_runs: int = 0
    claim_failed_runs: int = 0
    compatibility_blocked_runs: int = 0
    oldest_compatibility_blocked_started_at: str | None = None
    max_compatibility_blocked_age_ms: int = 0


class ActivityPath(msgspec.Struct, frozen=True, kw_only=True):
    timeout_overdue: int = 0
    oldest_timeout_overdue_at: str | None = None
    max_timeout_overdue_age_ms: int = 0
    retrying: int = 0
    oldest_retrying_started_at: str | None = None
    max_retrying_age_ms: int = 0
    failed_attempts: int = 0
    max_attempt_count: int = 0


class DurableResumePaths(msgspec.Struct, frozen=True, kw_only=True):
    repair_needed_runs: int = 0
    oldest_repair_needed_at: str | None = None
    max_repair_needed_age_ms: int = 0
    missing_task_candidates: int = 0
    selected_missing_task_candidates: int = 0
    oldest_missing_run_started_at: str | None = None
    max_missing_run_age_ms: int = 0
    waiting_runs: int = 0
    oldest_wait_started_at: str | None = None
    max_wait_age_ms: int = 0


class WorkerCompatibility(msgspec.Struct, frozen=True, kw_only=True):
    """``validation_mode`` fail turns a missing compatible worker into an error, and the node not ready."""

    required_compatibility: str | None = None
    active_workers: int = 0
    active_worker_scopes: int = 0
    active_workers_supporting_required: int = 0
    validation_mode: Literal["warn", "fail"] = "warn"


class SchedulerRole(msgspec.Struct, frozen=True, kw_only=True):
    active: int = 0
    paused: int = 0
    missed: int = 0
    oldest_overdue_at: str | None = None
    max_overdue_ms: int = 0
    fires_total: int = 0
    failures_total: int = 0


class WakeAcceleration(msgspec.Struct, frozen=True, kw_only=True):
    """``backend`` redis|none; ``capable`` it can reach other nodes;
    ``safe`` it works now; ``reason`` says why not.
    """

    multi_node: bool = False
    backend: str = "none"
    capable: bool = False
    safe: bool = True
    reason: str | None = None


class BuildDrain(msgspec.Struct, frozen=True, kw_only=True):
    """One draining build of a queue; ``build_id`` is None for the unversioned group."""

    build_id: str | None
    rollout_status: str
    drain_intent: str
    drained_at: str | None = None
    promoted_at: str | None = None
    rolled_back_at: str | None = None
    new_start_selected: bool = False
    active_worker_count: int = 0
    draining_worker_count: int = 0
    stale_worker_count: int = 0
    total_worker_count: int = 0
    runtimes: tuple[str, ...] = ()
    sdk_versions: tuple[str, ...] = ()
    workflow_definition_fingerprint_count: int = 0
    last_heartbeat_at: str | None = None
    first_seen_at: str | None = None
    pending_workflow_tasks: int = 0


class QueueDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with draining builds; ``build_ids`` holds the draining ones only."""

    namespace: str
    task_queue: str
    active_build_id_count: int = 0
    draining_build_id_count: int = 0
    active_worker_count: int = 0
    draining_worker_count: int = 0
    stale_worker_count: int = 0
    latest_drained_at: str | None = None
    build_ids: tuple[BuildDrain, ...] = ()


class RoutingDrains(msgspec.Struct, frozen=True, kw_only=True):
    """``queues`` sorted by ``latest_drained_at`` descending (None last), then namespace, then queue."""

    queues_with_drains: int = 0
    draining_build_id_count: int = 0
    active_worker_count: int = 0
    draining_worker_count: int = 0
    stale_worker_count: int = 0
    queues: tuple[QueueDrain, ...] = ()


class MatchingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the topology manifest says about matching on this node; repeated by ``routing_health``."""

    queue_wake_enabled: bool
    matching_shape: str
    wake_owner: str
    task_dispatch_mode: str


class CoordinationCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the twelve checks look at."""

    backend: BackendCapabilities = BackendCapabilities()
    run_summaries: RunSummaryProjection = RunSummaryProjection()
    projections: SelectedRunProjections = SelectedRunProjections()
    history: HistoryRetention = HistoryRetention()
    command_contracts: CommandContracts = CommandContracts()
    tasks: TaskTransport = TaskTransport()
    activities: ActivityPath = ActivityPath()
    resume_paths: DurableResumePaths = DurableResumePaths()
    workers: WorkerCompatibility = WorkerCompatibility()
    schedules: SchedulerRole = SchedulerRole()
    wake: WakeAcceleration = WakeAcceleration()
    drains: RoutingDrains = RoutingDrains()
