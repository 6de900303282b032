"""The moving parts of cluster info: at most one read of the store per namespace and five seconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

import msgspec
import psycopg
import structlog

from dw_core.coordination.counters import MatchingFacts
from dw_core.coordination.health import blocked_health, coordination_health
from dw_core.coordination.repair import RepairCandidates, task_repair
from dw_runtime.discovery.probes import ClusterSnapshot, StoreProbe, WorkerFleet
from dw_runtime.discovery.readiness import Readiness
from dw_runtime.discovery.single_flight import SingleFlight

log = structlog.get_logger(__name__)

SNAPSHOT_FRESH_SECONDS: Final = 5.0
SNAPSHOT_SERVED_SECONDS: Final = 30.0
"""A snapshot up to this age is served while a new one is read (topology §3.3.1)."""
SNAPSHOT_TIMEOUT_SECONDS: Final = 2.0
NAMESPACES_CACHED_MAX: Final = 64


class ClusterState(msgspec.Struct, frozen=True):
    """The documents that change while the server runs, ready to be put into cluster info."""

    namespace: str
    coordination_health: dict[str, Any]
    worker_fleet: dict[str, Any]
    task_repair: dict[str, Any]


class ClusterStates:
    """Gives the :class:`ClusterState` of a namespace; a database that is down gives a blocked one, never an error."""

    def __init__(self, store: StoreProbe, readiness: Readiness) -> None:
        self._store = store
        self._readiness = readiness
        role = readiness.topology["matching_role"]
        self._matching = MatchingFacts(
            queue_wake_enabled=role["queue_wake_enabled"],
            matching_shape=role["shape"],
            wake_owner=role["wake_owner"],
            task_dispatch_mode=role["task_dispatch_mode"],
        )
        self._now = readiness.now
        self._states: OrderedDict[str, SingleFlight[ClusterState]] = OrderedDict()

    async def get(self, namespace: str) -> ClusterState:
        """The state of ``namespace``, at most five seconds old, or up to thirty while a new one is read."""
        blocked = (await self._readiness.refreshed()).blocked
        if blocked is not None:
            return self._blocked(namespace, blocked.blocked_by)
        state = self._flight(namespace)
        if state.value is not None and SNAPSHOT_FRESH_SECONDS <= state.age_seconds() < SNAPSHOT_SERVED_SECONDS:
            state.start()
            return state.value
        return await state.fresh()

    def _flight(self, namespace: str) -> SingleFlight[ClusterState]:
        known = self._states.get(namespace)
        if known is None:
            known = SingleFlight(lambda: self._read(namespace), SNAPSHOT_FRESH_SECONDS)
            self._states[namespace] = known
            if len(self._states) > NAMESPACES_CACHED_MAX:
                self._states.popitem(last=False)
        self._states.move_to_end(namespace)
        return known

    async def _read(self, namespace: str) -> ClusterState:
        try:
            snapshot = await asyncio.wait_for(self._store.snapshot(namespace), SNAPSHOT_TIMEOUT_SECONDS)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("cluster.snapshot_failed", namespace=namespace, error=type(error).__name__)
            return self._blocked(namespace, ("database",))
        return self._documents(namespace, snapshot)

    def _documents(self, namespace: str, snapshot: ClusterSnapshot) -> ClusterState:
        return ClusterState(
            namespace,
            coordination_health(snapshot.counters, self._matching, generated_at=self._now()),
            msgspec.to_builtins(snapshot.fleet),
            task_repair(snapshot.repair),
        )

    def _blocked(self, namespace: str, blocked_by: tuple[str, ...]) -> ClusterState:
        return ClusterState(
            namespace,
            blocked_health(blocked_by, generated_at=self._now()),
            msgspec.to_builtins(WorkerFleet(namespace=namespace)),
            task_repair(RepairCandidates()),
        )
