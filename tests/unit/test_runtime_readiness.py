"""Readiness: which check says what, what closes the gate, and how often the store is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from dw_core.coordination.counters import CoordinationCounters
from dw_core.discovery.fleet import FleetWorker
from dw_core.topology.manifest import DiscoveryLimits, summary
from dw_core.topology.roles import Shape
from dw_runtime.auth.authenticator import AuthState
from dw_runtime.discovery.cluster import ClusterParts
from dw_runtime.discovery.handlers import discovery_handlers
from dw_runtime.discovery.probes import (
    BlockingMigration,
    ClusterSnapshot,
    MigrationStatus,
    OperatorSurface,
    StoreState,
)
from dw_runtime.discovery.readiness import Readiness
from dw_runtime.http.call import Reply

SURFACE = OperatorSurface(available=True, required_tables=())
MIGRATED = MigrationStatus(repository_exists=True, operator_surface=SURFACE)
TOPOLOGY = summary(Shape.STANDALONE_SERVER, "server_http_node", queue_wake=True, limits=DiscoveryLimits())

WORKER = FleetWorker(
    worker_id="w-1",
    queues=["orders"],
    build_ids=[],
    recorded_at="2026-11-30T10:00:00.000000Z",
    expires_at="2026-11-30T10:01:00.000000Z",
)


class OneNamespace:
    async def exists(self, name: str) -> bool:
        return name == "default"


class Store:
    """A store whose answers a test chooses; counts how often it was asked."""

    def __init__(self) -> None:
        self.migrations = MIGRATED
        self.has_namespace = True
        self.error: Exception | None = None
        self.asked = 0
        self.snapshots = 0

    async def readiness(self, default_namespace: str) -> StoreState:
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return StoreState(migrations=self.migrations, default_namespace_exists=self.has_namespace)

    async def snapshot(self, namespace: str) -> ClusterSnapshot:
        self.snapshots += 1
        if self.error is not None:
            raise self.error
        return ClusterSnapshot(counters=CoordinationCounters(), workers=[WORKER])


class Cache:
    def __init__(self, answer: bool) -> None:
        self.answer = answer

    async def works(self) -> bool:
        return self.answer


class Process:
    """One process's readiness with everything around it in reach."""

    def __init__(self, *, cache: Cache | None = None, auth: str = "ok") -> None:
        self.store = Store()
        self.is_draining = False
        self.dead_tasks: list[str] = []
        self.judged: list[Collection[str]] = []
        self.readiness = Readiness(
            store=self.store,
            cache=cache,
            auth=lambda: AuthState(auth, "token", None if auth == "ok" else "Set a token."),
            topology=TOPOLOGY,
            default_namespace="default",
            now=lambda: "2026-11-30T10:00:00.000000Z",
            is_draining=lambda: self.is_draining,
            on_judged=self.judged.append,
        )
        self._handlers = discovery_handlers(
            self.readiness,
            ClusterParts(self.store, OneNamespace(), self.readiness),
            {"version": "0.1.0"},
            lambda: self.dead_tasks,
        )

    async def get(self, name: str) -> tuple[int, Mapping[str, Any]]:
        class Request:
            namespace = "default"

        reply: Reply = await self._handlers[name](Request())  # type: ignore[arg-type]  # handlers read nothing else
        return reply.status, reply.body


async def test_a_healthy_node_is_ready_with_the_checks_in_order() -> None:
    status, body = await Process(cache=Cache(True)).get("ready")
    assert (status, body["status"]) == (200, "ready")
    assert list(body["checks"]) == ["database", "migrations", "default_namespace", "cache", "auth", "workflow_v2"]
    assert {check["status"] for check in body["checks"].values()} == {"ok"}
    assert body["checks"]["migrations"]["readiness_contract"] == {"version": 1, "release_state": "v2_final_contract"}
    assert body["topology"] == TOPOLOGY


@pytest.mark.parametrize(("cache", "store"), [(None, "none"), (Cache(False), "redis")])
async def test_redis_that_fails_or_is_absent_only_warns(cache: Cache | None, store: str) -> None:
    status, body = await Process(cache=cache).get("ready")
    assert status == 200
    check = body["checks"]["cache"]
    assert (check["status"], check["store"], check["correctness_substrate"]) == ("warning", store, "database")


async def test_every_evaluation_tells_the_metrics_which_checks_fail() -> None:
    process = Process(auth="missing")
    process.store.has_namespace = False
    await process.get("ready")
    assert process.judged == [["default_namespace", "auth"]]


async def test_the_log_names_what_keeps_a_node_from_being_ready() -> None:
    process = Process(auth="missing")
    process.store.has_namespace = False
    with capture_logs() as logs:
        await process.get("ready")
    assert logs == [
        {"event": "readiness.changed", "log_level": "warning", "failing": ["default_namespace", "auth"]},
    ]
    with capture_logs() as logs:
        await Process().get("ready")
    assert logs == [{"event": "readiness.changed", "log_level": "info", "failing": []}]


async def test_a_lost_database_blocks_and_degrades() -> None:
    process = Process()
    process.store.error = psycopg.OperationalError("host 10.0.0.1")
    status, body = await process.get("ready")
    assert (status, body["status"]) == (503, "not_ready")
    assert body["checks"]["workflow_v2"]["blocked_by"] == ["database", "migrations"]
    assert "10.0.0.1" not in str(body)
    assert await process.get("health") == (
        503,
        {
            "status": "degraded",
            "timestamp": "2026-11-30T10:00:00.000000Z",
            "checks": {"database": "unavailable"},
            "topology": TOPOLOGY,
        },
    )
    status, body = await process.get("cluster_info")
    assert (status, body["coordination_health"]["status"]) == (200, "blocked")
    assert body["worker_fleet"]["active_workers"] == 0
    assert process.store.snapshots == 0
    assert (await process.get("livez"))[0] == 200


@pytest.mark.parametrize(
    ("migrations", "check", "is_blocked"),
    [
        (MIGRATED, "ok", False),
        (MigrationStatus(repository_exists=True, operator_surface=SURFACE, missing_tables=("t",)), "missing", True),
        (
            MigrationStatus(
                repository_exists=True, operator_surface=SURFACE, blocking_migrations=(BlockingMigration("0002_x"),)
            ),
            "pending",
            True,
        ),
        (
            MigrationStatus(repository_exists=True, operator_surface=SURFACE, adoptable_migrations=("0002_x",)),
            "warning",
            False,
        ),
    ],
)
async def test_migrations_decide_the_gate(migrations: MigrationStatus, check: str, is_blocked: bool) -> None:
    process = Process()
    process.store.migrations = migrations
    _, body = await process.get("ready")
    assert body["checks"]["migrations"]["status"] == check
    blocked = process.readiness.blocked()
    assert (blocked is not None) is is_blocked
    if blocked is not None:
        assert blocked.blocked_by == ("migrations",)
        assert body["checks"]["workflow_v2"]["status"] == "blocked"


async def test_a_schema_that_cannot_be_inspected_blocks_on_migrations_alone() -> None:
    process = Process()
    process.store.error = psycopg.ProgrammingError("no such column")
    _, body = await process.get("ready")
    assert (body["checks"]["database"]["status"], body["checks"]["migrations"]["status"]) == ("ok", "unavailable")
    assert body["checks"]["workflow_v2"]["blocked_by"] == ["migrations"]


async def test_missing_namespace_missing_auth_and_shutdown_each_make_the_node_unready() -> None:
    process = Process()
    process.store.has_namespace = False
    assert (await process.get("ready"))[1]["checks"]["default_namespace"]["status"] == "missing"
    status, body = await Process(auth="missing").get("ready")
    assert (status, body["checks"]["auth"]["remediation"]) == (503, "Set a token.")
    process = Process()
    process.is_draining = True
    status, body = await process.get("ready")
    assert (status, body["checks"]["shutdown"]["status"]) == (503, "unavailable")


async def test_cluster_info_adds_what_was_measured_to_the_static_parts() -> None:
    status, body = await Process().get("cluster_info")
    assert (status, body["version"], body["namespace"]) == (200, "0.1.0", {"name": "default"})
    assert (body["coordination_health"]["status"], body["worker_fleet"]["queues"]) == ("ok", ["orders"])
    assert body["task_repair"]["candidates"]["total_candidates"] == 0


async def test_everybody_who_asks_at_once_shares_one_evaluation() -> None:
    process = Process()
    assert process.readiness.is_stale()
    await asyncio.gather(*(process.get(name) for name in ("ready", "health", "cluster_info") * 10))
    assert (process.store.asked, process.store.snapshots) == (1, 1)
    assert not process.readiness.is_stale()


async def test_one_caller_that_goes_away_does_not_cancel_the_evaluation() -> None:
    process = Process()
    first = asyncio.create_task(process.readiness.refreshed())
    await asyncio.sleep(0)
    first.cancel()
    assert (await process.readiness.refreshed()).blocked is None
    assert process.store.asked == 1


async def test_a_dead_main_task_fails_liveness() -> None:
    process = Process()
    process.dead_tasks.append("pump")
    status, body = await process.get("livez")
    assert (status, body["dead_tasks"]) == (503, ["pump"])
