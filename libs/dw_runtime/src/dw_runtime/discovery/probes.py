"""What discovery needs from the store and from Redis."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from dw_core.coordination.counters import BackendCapabilities, CoordinationCounters, WorkerCompatibility
from dw_core.discovery.fleet import FleetWorker
from dw_core.discovery.repair import RepairCandidates


class BlockingMigration(msgspec.Struct, frozen=True):
    """An unapplied migration and the tables that are missing because of it."""

    migration: str
    missing_tables: tuple[str, ...] = ()


class RequiredTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the operator surface; ``model`` is the logical name of what it holds."""

    config_key: str
    model: str
    table: str
    available: bool
    connection: str = "default"


class SurfaceIssue(msgspec.Struct, frozen=True, kw_only=True):
    """Why a table of the operator surface cannot be used; ``reason`` is missing_table or schema_inspection_failed."""

    config_key: str
    model: str
    table: str
    reason: str
    message: str
    connection: str = "default"


class OperatorSurface(msgspec.Struct, frozen=True, kw_only=True):
    """The eighteen tables that operators and readiness checks rely on (topology §3.2)."""

    available: bool
    required_tables: tuple[RequiredTable, ...]
    issues: tuple[SurfaceIssue, ...] = ()
    authority: str = "core_schema"
    readiness_key: str = "v2_operator_surface_available"


class ReadinessContract(msgspec.Struct, frozen=True, kw_only=True):
    """The version that install scripts pin."""

    version: int = 1
    release_state: str = "v2_final_contract"


class MigrationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``checks.migrations`` of readiness, member for member, except ``status`` which follows from the others."""

    repository_exists: bool
    operator_surface: OperatorSurface
    pending_migrations: tuple[str, ...] = ()
    adoptable_migrations: tuple[str, ...] = ()
    blocking_migrations: tuple[BlockingMigration, ...] = ()
    missing_tables: tuple[str, ...] = ()
    readiness_contract: ReadinessContract = ReadinessContract()

    @property
    def status(self) -> Literal["missing", "pending", "warning", "ok"]:
        """Tables missing, then blocking, then adoptable only, then ok (topology §3.2)."""
        if self.missing_tables:
            return "missing"
        if self.blocking_migrations:
            return "pending"
        return "warning" if self.adoptable_migrations else "ok"


class StoreState(msgspec.Struct, frozen=True, kw_only=True):
    """What readiness must know of the store, read in one statement."""

    migrations: MigrationStatus
    default_namespace_exists: bool
    backend: BackendCapabilities = BackendCapabilities()
    workers: WorkerCompatibility = WorkerCompatibility()


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The moving parts of cluster info: counters over every namespace, the live workers of one, newest first."""

    counters: CoordinationCounters
    workers: list[FleetWorker]
    repair: RepairCandidates = RepairCandidates()


class StoreProbe(Protocol):
    """The reads that discovery makes; both bounded by the caller, both free to raise what the driver raises."""

    async def readiness(self, default_namespace: str) -> StoreState:
        """Reachability, migrations and the default namespace: called about once per second, at a fixed cost.

        Raises ``psycopg.OperationalError`` or ``OSError`` when the database cannot be reached, anything else when its
        schema cannot be inspected.
        """

    async def snapshot(self, namespace: str) -> ClusterSnapshot:
        """Counters and fleet: called at most every five seconds per namespace asked for."""


class CacheProbe(Protocol):
    """Whether Redis takes, returns and forgets a value."""

    async def works(self) -> bool: ...
