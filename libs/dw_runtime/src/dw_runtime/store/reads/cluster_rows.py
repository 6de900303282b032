"""What the statements about the cluster return, and the documents made of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from dw_core.coordination.counters import (
    ActivityPath,
    BuildDrain,
    QueueDrain,
    RoutingDrains,
    SchedulerRole,
    TaskTransport,
)
from dw_core.discovery.fleet import FleetWorker
from dw_core.discovery.repair import SCAN_LIMIT, RepairCandidates, RepairScope
from dw_core.protocol.timestamps import wire_time


class ScopeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Repair candidates of one queue and compatibility."""

    queue: str
    compatibility: str | None
    candidates: int
    oldest_created_at: datetime


class ScheduleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """``read_schedule_counts``."""

    now: datetime
    active: int
    paused: int
    missed: int
    oldest_overdue_at: datetime | None
    fires_total: int
    failures_total: int

    def role(self) -> SchedulerRole:
        """The counters of ``scheduler_role``."""
        since = self.oldest_overdue_at
        return SchedulerRole(
            active=self.active,
            paused=self.paused,
            missed=self.missed,
            oldest_overdue_at=wire_time(since),
            max_overdue_ms=0 if since is None else max(0, (self.now - since) // timedelta(milliseconds=1)),
            fires_total=self.fires_total,
            failures_total=self.failures_total,
        )


class PressureRow(msgspec.Struct, frozen=True, kw_only=True):
    """``read_task_pressure``."""

    now: datetime
    lease_expired_tasks: int
    oldest_lease_expired_at: datetime | None
    ready_due_tasks: int
    oldest_ready_due_at: datetime | None
    dispatch_overdue_tasks: int
    oldest_dispatch_overdue_since: datetime | None
    max_attempt_count: int
    max_repair_count: int
    compatibility_blocked_runs: int
    oldest_compatibility_blocked_started_at: datetime | None
    timeout_overdue: int
    oldest_timeout_overdue_at: datetime | None
    retrying: int
    oldest_retrying_started_at: datetime | None
    failed_attempts: int
    max_activity_attempt_count: int
    history_events: int
    scopes: list[ScopeRow]

    def age_ms(self, since: datetime | None) -> int:
        """Milliseconds from ``since`` to the time of the reading."""
        return 0 if since is None else max(0, (self.now - since) // timedelta(milliseconds=1))

    def tasks(self) -> TaskTransport:
        """The counters of ``task_transport``."""
        return TaskTransport(
            unhealthy_tasks=self.lease_expired_tasks + self.dispatch_overdue_tasks,
            lease_expired_tasks=self.lease_expired_tasks,
            oldest_lease_expired_at=wire_time(self.oldest_lease_expired_at),
            max_lease_expired_age_ms=self.age_ms(self.oldest_lease_expired_at),
            ready_due_tasks=self.ready_due_tasks,
            oldest_ready_due_at=wire_time(self.oldest_ready_due_at),
            max_ready_due_age_ms=self.age_ms(self.oldest_ready_due_at),
            dispatch_overdue_tasks=self.dispatch_overdue_tasks,
            oldest_dispatch_overdue_since=wire_time(self.oldest_dispatch_overdue_since),
            max_dispatch_overdue_age_ms=self.age_ms(self.oldest_dispatch_overdue_since),
            max_attempt_count=self.max_attempt_count,
            max_repair_count=self.max_repair_count,
            compatibility_blocked_runs=self.compatibility_blocked_runs,
            oldest_compatibility_blocked_started_at=wire_time(self.oldest_compatibility_blocked_started_at),
            max_compatibility_blocked_age_ms=self.age_ms(self.oldest_compatibility_blocked_started_at),
        )

    def activities(self) -> ActivityPath:
        """The counters of ``activity_path``."""
        return ActivityPath(
            timeout_overdue=self.timeout_overdue,
            oldest_timeout_overdue_at=wire_time(self.oldest_timeout_overdue_at),
            max_timeout_overdue_age_ms=self.age_ms(self.oldest_timeout_overdue_at),
            retrying=self.retrying,
            oldest_retrying_started_at=wire_time(self.oldest_retrying_started_at),
            max_retrying_age_ms=self.age_ms(self.oldest_retrying_started_at),
            failed_attempts=self.failed_attempts,
            max_attempt_count=self.max_activity_attempt_count,
        )

    def repair(self) -> RepairCandidates:
        """What a repair pass would pick up, one task per scope in turn until the limit (topology §5.3)."""
        total = sum(scope.candidates for scope in self.scopes)
        selected = share([scope.candidates for scope in self.scopes], SCAN_LIMIT)
        oldest = min((scope.oldest_created_at for scope in self.scopes), default=None)
        taken = sum(selected)
        return RepairCandidates(
            existing_task_candidates=total,
            total_candidates=total,
            selected_existing_task_candidates=taken,
            selected_total_candidates=taken,
            existing_task_scan_limit_reached=total > SCAN_LIMIT,
            scan_pressure=total > SCAN_LIMIT,
            oldest_task_candidate_created_at=wire_time(oldest),
            max_task_candidate_age_ms=self.age_ms(oldest),
            scopes=tuple(self._scope(scope, n) for scope, n in zip(self.scopes, selected, strict=True)),
        )

    def _scope(self, scope: ScopeRow, selected: int) -> RepairScope:
        return RepairScope(
            scope_key=f"default:{scope.queue}:{scope.compatibility or 'any'}",
            queue=scope.queue,
            compatibility=scope.compatibility,
            existing_task_candidates=scope.candidates,
            total_candidates=scope.candidates,
            selected_existing_task_candidates=selected,
            selected_total_candidates=selected,
            oldest_task_candidate_created_at=wire_time(scope.oldest_created_at),
            max_task_candidate_age_ms=self.age_ms(scope.oldest_created_at),
            scan_limited_by_global_policy=selected < scope.candidates,
        )


def share(counts: list[int], limit: int) -> list[int]:
    """How many of each count are taken when one is taken in turn until ``limit`` are."""
    taken = [0] * len(counts)
    while limit > 0:
        open_places = [n for n, count in enumerate(counts) if taken[n] < count]
        if not open_places:
            break
        for place in open_places[:limit]:
            taken[place] += 1
        limit -= len(open_places[:limit])
    return taken


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A live worker."""

    worker_id: str
    task_queue: str
    build_id: str | None
    recorded_at: datetime
    expires_at: datetime


class FleetRow(msgspec.Struct, frozen=True, kw_only=True):
    """``read_fleet``: totals over every namespace, the workers of one."""

    total_workers: int
    supporting_workers: int
    workers: list[WorkerRow]

    def listed(self) -> list[FleetWorker]:
        """The live workers of the namespace, newest first."""
        return [
            FleetWorker(
                worker_id=worker.worker_id,
                queues=[worker.task_queue],
                build_ids=[] if worker.build_id is None else [worker.build_id],
                recorded_at=wire_time(worker.recorded_at),
                expires_at=wire_time(worker.expires_at),
            )
            for worker in self.workers
        ]


class BuildRow(msgspec.Struct, frozen=True, kw_only=True):
    """A draining build of a queue."""

    build_id: str | None
    drain_intent: str
    drained_at: datetime | None
    draining_worker_count: int
    stale_worker_count: int
    total_worker_count: int
    runtimes: tuple[str, ...]
    sdk_versions: tuple[str, ...]
    workflow_definition_fingerprint_count: int
    last_heartbeat_at: datetime | None
    first_seen_at: datetime | None
    pending_workflow_tasks: int

    def drain(self) -> BuildDrain:
        """The entry of ``routing_drains``."""
        if self.draining_worker_count:
            rollout_status = "draining"
        else:
            rollout_status = "stale_only" if self.stale_worker_count else "no_workers"
        return BuildDrain(
            build_id=self.build_id,
            rollout_status=rollout_status,
            drain_intent=self.drain_intent,
            drained_at=wire_time(self.drained_at),
            draining_worker_count=self.draining_worker_count,
            stale_worker_count=self.stale_worker_count,
            total_worker_count=self.total_worker_count,
            runtimes=self.runtimes,
            sdk_versions=self.sdk_versions,
            workflow_definition_fingerprint_count=self.workflow_definition_fingerprint_count,
            last_heartbeat_at=wire_time(self.last_heartbeat_at),
            first_seen_at=wire_time(self.first_seen_at),
            pending_workflow_tasks=self.pending_workflow_tasks,
        )


class DrainRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of ``read_drains``."""

    namespace: str
    task_queue: str
    latest_drained_at: datetime | None
    active_build_id_count: int
    draining_build_id_count: int
    active_worker_count: int
    draining_worker_count: int
    stale_worker_count: int
    build_ids: list[BuildRow]


def routing_drains(rows: list[DrainRow]) -> RoutingDrains:
    """The ``routing_drains`` document; ``rows`` come in its order."""
    return RoutingDrains(
        queues_with_drains=len(rows),
        draining_build_id_count=sum(row.draining_build_id_count for row in rows),
        active_worker_count=sum(row.active_worker_count for row in rows),
        draining_worker_count=sum(row.draining_worker_count for row in rows),
        stale_worker_count=sum(row.stale_worker_count for row in rows),
        queues=tuple(
            QueueDrain(
                namespace=row.namespace,
                task_queue=row.task_queue,
                active_build_id_count=row.active_build_id_count,
                draining_build_id_count=row.draining_build_id_count,
                active_worker_count=row.active_worker_count,
                draining_worker_count=row.draining_worker_count,
                stale_worker_count=row.stale_worker_count,
                latest_drained_at=wire_time(row.latest_drained_at),
                build_ids=tuple(build.drain() for build in row.build_ids),
            )
            for row in rows
        ),
    )
