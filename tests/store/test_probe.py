"""What discovery reads of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from dw_core.engine.rows import TaskKind
from dw_runtime.settings import load
from dw_runtime.store.database import Database
from dw_runtime.store.migrate import expand
from dw_runtime.store.reads.cluster_rows import share
from dw_runtime.store.reads.probe import PostgresProbe
from dw_runtime.telemetry.metrics import Metrics
from tests.contract.shell_client import call
from tests.harness.control_plane import ControlPlane, control_plane


@asynccontextmanager
async def probing(url: str, **environ: str) -> AsyncIterator[PostgresProbe]:
    """A probe of the database at ``url``."""
    database = Database(url, 2, Metrics())
    await database.open()
    try:
        yield PostgresProbe(database, load({"DATABASE_URL": url, **environ}))
    finally:
        await database.close()


def write(url: str, statement: str, *parameters: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode(), parameters)


def register(url: str, namespace: str, worker: str, build: str | None, *, silent_seconds: int = 0) -> None:
    """Store a worker on the queue q that was heard so many seconds ago."""
    write(
        url,
        """
        INSERT INTO worker_registrations
        SELECT %s, %s, 'q', %s, 'python', '1.0', '{}', '{}', '{}', '{}', '{}', '{}', 1, 1, 1, NULL, NULL, 10, now(),
               now() - make_interval(secs => %s)
        """,
        namespace,
        worker,
        build,
        silent_seconds,
    )


async def start(plane: ControlPlane, workflow_id: str, **fields: object) -> None:
    answer = await call(
        plane.shell,
        "POST",
        "/api/workflows",
        headers={"x-durable-workflow-control-plane-version": "2", "x-namespace": plane.namespace},
        body={"workflow_id": workflow_id, "workflow_type": "t", "task_queue": "q", **fields},
    )
    assert answer.status == 201


async def test_an_unmigrated_database_is_missing_its_tables(empty_database: str) -> None:
    async with probing(empty_database) as probe:
        state = await probe.readiness("default")
        assert (state.migrations.status, state.migrations.repository_exists) == ("missing", False)
        assert not state.default_namespace_exists

        await expand(empty_database)
        state = await probe.readiness("default")
        assert (state.migrations.status, state.default_namespace_exists) == ("ok", False)
        assert (state.backend.severity, state.workers.active_workers) == ("ok", 0)

        write(empty_database, "DELETE FROM schema_migrations WHERE name = '0002_operator_surface'")
        write(empty_database, "DROP VIEW workflow_failures")
        state = await probe.readiness("default")
        assert state.migrations.status == "pending"
        assert state.migrations.blocking_migrations[0].missing_tables == ("workflow_failures",)


async def test_a_migrated_database_is_ready(database_url: str) -> None:
    async with probing(database_url) as probe:
        state = await probe.readiness("default")
        assert (state.migrations.status, state.default_namespace_exists) == ("ok", True)


async def test_readiness_counts_workers_only_when_a_build_is_required(database_url: str, unique_namespace: str) -> None:
    build = f"build-{unique_namespace}"
    register(database_url, unique_namespace, "a", build)
    register(database_url, unique_namespace, "b", build, silent_seconds=10_000)
    async with probing(database_url) as probe:
        assert (await probe.readiness("default")).workers.active_workers == 0
    async with probing(database_url, DW_V2_CURRENT_COMPATIBILITY=build, DW_V2_FLEET_VALIDATION_MODE="fail") as probe:
        workers = (await probe.readiness("default")).workers
        assert (workers.required_compatibility, workers.active_workers_supporting_required) == (build, 1)
        assert workers.validation_mode == "fail"
    async with probing(database_url, DW_V2_CURRENT_COMPATIBILITY=build, DW_V2_FLEET_VALIDATION_MODE="off") as probe:
        assert (await probe.readiness("default")).workers.required_compatibility is None


async def test_a_database_that_is_away_raises_what_the_driver_raises() -> None:
    async with probing("postgresql://u:p@127.0.0.1:1/d") as probe:
        with pytest.raises((psycopg.OperationalError, TimeoutError)):  # discovery waits one second
            await asyncio.wait_for(probe.readiness("default"), 1)


async def test_the_snapshot_counts_late_and_blocked_work(empty_database: str, unique_namespace: str) -> None:
    await expand(empty_database)
    async with control_plane(
        empty_database, unique_namespace, {"DW_V2_TASK_REPAIR_REDISPATCH_AFTER_SECONDS": "3"}
    ) as plane:
        quiet = await plane.probe.snapshot(unique_namespace)
        assert (quiet.counters.tasks.unhealthy_tasks, quiet.repair.total_candidates) == (0, 0)

        for n in range(30):
            await start(plane, f"late-{n}")
        await start(plane, "pinned", build_id="gone")
        leased = await plane.claim("q")
        assert leased.task.kind is TaskKind.WORKFLOW
        write(
            empty_database,
            "UPDATE workflow_tasks SET available_at = now() - interval '1 minute', created_at = now() - interval "
            "'1 minute' WHERE state = 0 AND compatibility IS NULL",
        )
        write(
            empty_database,
            "UPDATE workflow_tasks SET lease_expires_at = now() - interval '9 seconds', sweep_at = now() - interval "
            "'9 seconds' WHERE state = 1",
        )

        snapshot = await plane.probe.snapshot(unique_namespace)
        tasks = snapshot.counters.tasks
        assert (tasks.lease_expired_tasks, tasks.dispatch_overdue_tasks, tasks.unhealthy_tasks) == (1, 29, 30)
        assert (tasks.ready_due_tasks, tasks.compatibility_blocked_runs) == (30, 1)
        assert 9_000 <= tasks.max_lease_expired_age_ms < 9_000 + 60_000
        assert 57_000 <= tasks.max_dispatch_overdue_age_ms < 57_000 + 60_000
        repair = snapshot.repair
        assert (repair.existing_task_candidates, repair.selected_existing_task_candidates) == (30, 25)
        assert repair.scan_pressure and [scope.scope_key for scope in repair.scopes] == ["default:q:any"]

        register(empty_database, unique_namespace, "w", "gone")
        again = await plane.probe.snapshot(unique_namespace)
        assert again.counters.tasks.compatibility_blocked_runs == 0


async def test_the_snapshot_lists_live_workers_and_draining_builds(empty_database: str) -> None:
    await expand(empty_database)
    register(empty_database, "one", "new", "build-2")
    register(empty_database, "one", "old", "build-1")
    register(empty_database, "one", "plain", None)
    register(empty_database, "one", "silent", "build-1", silent_seconds=10_000)
    register(empty_database, "two", "other", None)
    write(empty_database, "INSERT INTO build_id_rollouts VALUES ('one', 'q', 'build-1', 'draining', now())")
    write(empty_database, "INSERT INTO build_id_rollouts VALUES ('two', 'q', '', 'draining', NULL)")
    async with probing(empty_database) as probe:
        snapshot = await probe.snapshot("one")
    drains = snapshot.counters.drains
    assert [(worker.worker_id, worker.queues, worker.build_ids) for worker in snapshot.workers] == [
        ("plain", ["q"], []),
        ("old", ["q"], ["build-1"]),
        ("new", ["q"], ["build-2"]),
    ]
    assert snapshot.counters.workers.active_workers == 4
    assert [(queue.namespace, queue.latest_drained_at is None) for queue in drains.queues] == [
        ("one", False),
        ("two", True),
    ]
    first, second = drains.queues
    assert (first.active_build_id_count, first.active_worker_count) == (2, 2)
    assert (first.draining_worker_count, first.stale_worker_count) == (1, 1)
    assert (first.build_ids[0].build_id, first.build_ids[0].rollout_status) == ("build-1", "draining")
    assert (second.build_ids[0].build_id, second.build_ids[0].draining_worker_count) == (None, 1)
    assert (drains.queues_with_drains, drains.draining_worker_count) == (2, 2)


def test_a_share_takes_from_every_scope_in_turn() -> None:
    assert share([], 5) == []
    assert share([9, 1, 9], 5) == [2, 1, 2]
    assert share([1, 1], 5) == [1, 1]
    assert share([100], 25) == [25]
