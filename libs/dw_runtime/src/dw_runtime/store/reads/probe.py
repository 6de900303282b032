"""The reads of discovery: readiness about once per second, the cluster snapshot at most every five."""

from __future__ import annotations

from typing import Literal

import msgspec
import psycopg

from dw_core.coordination.counters import (
    BackendCapabilities,
    CoordinationCounters,
    HistoryRetention,
    WorkerCompatibility,
)
from dw_core.limits import SCHEDULE_CATCH_UP_SECONDS
from dw_runtime.discovery.probes import ClusterSnapshot, StoreState
from dw_runtime.settings import Settings
from dw_runtime.store.database import Database
from dw_runtime.store.reads.cluster_rows import DrainRow, FleetRow, PressureRow, ScheduleCounts, routing_drains
from dw_runtime.store.surface import BOOKKEEPING_TABLE, inspected_relations, judge

SERVER_VERSION_MIN = 140_000
"""Postgres 14, as ``server_version_num`` spells it."""
TASKS_SCANNED_MAX = 10_000
SCHEDULES_COUNTED_MAX = 10_000
WORKERS_READ_MAX = 10_000
"""Live workers of a namespace that are read; discovery counts them and lists the newest."""

_decode_pressure = msgspec.json.Decoder(PressureRow).decode
_decode_fleet = msgspec.json.Decoder(FleetRow).decode
_decode_schedules = msgspec.json.Decoder(ScheduleCounts).decode
_decode_drains = msgspec.json.Decoder(list[DrainRow]).decode


class PostgresProbe:
    """The ``StoreProbe`` of a Postgres store."""

    def __init__(self, database: Database, settings: Settings) -> None:
        fleet = settings.fleet
        self._database = database
        self._stale_after_seconds = settings.workers.stale_after_seconds
        self._redispatch_after_seconds = settings.recovery.redispatch_after_seconds
        self._required = None if fleet.validation_mode == "off" else fleet.current_compatibility
        self._validation_mode: Literal["warn", "fail"] = "fail" if fleet.validation_mode == "fail" else "warn"
        self._relations = inspected_relations()

    async def readiness(self, default_namespace: str) -> StoreState:
        """The state of the schema, the default namespace, the backend and the fleet: one statement.

        A database whose tables are not there yet costs two more. Raises what the driver raises.
        """
        try:
            ((missing, applied, has_namespace, version, active, supporting),) = await self._database.read(
                "read_readiness", self._relations, default_namespace, self._stale_after_seconds, self._required
            )
        except psycopg.errors.UndefinedTable:
            return await self._unmigrated()
        return StoreState(
            migrations=judge(missing, applied),
            default_namespace_exists=has_namespace,
            backend=_backend(version),
            workers=self._workers(active, supporting),
        )

    async def snapshot(self, namespace: str) -> ClusterSnapshot:
        """Counters over every namespace and the fleet of one: four statements. Raises what the driver raises."""
        stale = self._stale_after_seconds
        async with self._database.connection() as session:
            ((pressure_text,),) = await session.rows(
                "read_task_pressure", self._redispatch_after_seconds, stale, TASKS_SCANNED_MAX
            )
            ((fleet_text,),) = await session.rows("read_fleet", namespace, stale, self._required, WORKERS_READ_MAX)
            ((drains_text,),) = await session.rows("read_drains", stale, TASKS_SCANNED_MAX)
            ((schedules_text,),) = await session.rows(
                "read_schedule_counts", SCHEDULES_COUNTED_MAX, float(SCHEDULE_CATCH_UP_SECONDS)
            )
        pressure, fleet = _decode_pressure(pressure_text), _decode_fleet(fleet_text)
        counters = CoordinationCounters(
            history=HistoryRetention(events=pressure.history_events),
            tasks=pressure.tasks(),
            activities=pressure.activities(),
            workers=self._workers(fleet.total_workers, fleet.supporting_workers),
            schedules=_decode_schedules(schedules_text).role(),
            drains=routing_drains(_decode_drains(drains_text)),
        )
        return ClusterSnapshot(counters=counters, workers=fleet.listed(), repair=pressure.repair())

    async def _unmigrated(self) -> StoreState:
        missing = {name for (name,) in await self._database.read("find_missing_relations", self._relations)}
        applied: set[str] = set()
        if BOOKKEEPING_TABLE not in missing:
            applied = {f"{name}.{phase}" for name, phase, _ in await self._database.read("read_applied")}
        return StoreState(migrations=judge(missing, applied), default_namespace_exists=False)

    def _workers(self, active: int, supporting: int) -> WorkerCompatibility:
        """A worker polls one queue, so there are as many pairs of worker and queue as there are workers."""
        return WorkerCompatibility(
            required_compatibility=self._required,
            active_workers=active,
            active_worker_scopes=active,
            active_workers_supporting_required=supporting,
            validation_mode=self._validation_mode,
        )


def _backend(server_version: int) -> BackendCapabilities:
    if server_version >= SERVER_VERSION_MIN:
        return BackendCapabilities()
    return BackendCapabilities(severity="error", issue_count=1, issues=("Postgres 14 or newer is needed.",))
