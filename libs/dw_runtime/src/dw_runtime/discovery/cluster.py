"""The moving parts of cluster info: at most one read of the store per namespace and five seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg
import structlog

from dw_core.coordination.counters import MatchingFacts
from dw_core.coordination.health import blocked_health, evaluated_health
from dw_core.discovery.envelope import DynamicParts
from dw_core.discovery.fleet import worker_fleet
from dw_core.discovery.repair import task_repair
from dw_runtime.discovery.probes import StoreProbe
from dw_runtime.discovery.readiness import Readiness
from dw_runtime.discovery.single_flight import SingleFlights
from dw_runtime.http.gates import Namespaces

log = structlog.get_logger(__name__)

SNAPSHOT_FRESH_SECONDS: Final = 5.0
SNAPSHOT_SERVED_SECONDS: Final = 30.0
"""A snapshot up to this age is served while a new one is read (topology §3.3.1)."""
SNAPSHOT_TIMEOUT_SECONDS: Final = 2.0
NAMESPACES_CACHED_MAX: Final = 64


class ClusterParts:
    """Gives the dynamic parts of cluster info for a namespace; with the database down, blocked ones and no error.

    ``payload_storage`` describes where a namespace keeps large payloads, None where it does not.
    """

    def __init__(
        self,
        store: StoreProbe,
        namespaces: Namespaces,
        readiness: Readiness,
        payload_storage: Callable[[str], Awaitable[dict[str, Any] | None]] | None = None,
    ) -> None:
        self._payload_storage = payload_storage
        self._store = store
        self._namespaces = namespaces
        self._readiness = readiness
        role = readiness.topology["matching_role"]
        self._matching = MatchingFacts(
            queue_wake_enabled=role["queue_wake_enabled"],
            matching_shape=role["shape"],
            wake_owner=role["wake_owner"],
            task_dispatch_mode=role["task_dispatch_mode"],
        )
        self._now = readiness.now
        self._parts = SingleFlights(self._read, SNAPSHOT_FRESH_SECONDS, kept_max=NAMESPACES_CACHED_MAX)

    async def get(self, namespace: str) -> DynamicParts:
        """The state of ``namespace``, at most five seconds old, or up to thirty while a new one is read."""
        blocked = (await self._readiness.refreshed()).blocked
        if blocked is not None:
            return self._blocked(namespace, blocked.blocked_by)
        state = self._parts.of(namespace)
        if state.value is not None and SNAPSHOT_FRESH_SECONDS <= state.age_seconds() < SNAPSHOT_SERVED_SECONDS:
            state.start()
            return state.value
        return await state.fresh()

    async def _read(self, namespace: str) -> DynamicParts:
        try:
            async with asyncio.timeout(SNAPSHOT_TIMEOUT_SECONDS):
                exists = await self._namespaces.exists(namespace)
                snapshot = await self._store.snapshot(namespace)
                storage = None if self._payload_storage is None else await self._payload_storage(namespace)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("cluster.snapshot_failed", namespace=namespace, error=type(error).__name__)
            return self._blocked(namespace, ("database",))
        return DynamicParts(
            coordination_health=evaluated_health(snapshot.counters, self._matching, generated_at=self._now()),
            worker_fleet=worker_fleet(namespace, snapshot.workers),
            task_repair=task_repair(snapshot.repair),
            namespace=_namespace(namespace, storage) if exists else None,
        )

    def _blocked(self, namespace: str, blocked_by: tuple[str, ...]) -> DynamicParts:
        return DynamicParts(
            coordination_health=blocked_health(blocked_by, generated_at=self._now()),
            worker_fleet=worker_fleet(namespace, []),
            task_repair=task_repair(),
        )


def _namespace(name: str, storage: dict[str, Any] | None) -> dict[str, Any]:
    """Where nothing is kept elsewhere nothing is said of it: a client takes any object for a promise."""
    return {"name": name} if storage is None else {"name": name, "external_payload_storage": storage}
