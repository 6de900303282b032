"""The parts that every role process shares, put together once."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import redis.asyncio as redis

from dw_core.discovery.envelope import NodeIdentity, static_parts
from dw_core.engine.transition import WakeKey
from dw_core.ids import Ulids
from dw_core.protocol.capabilities import server_capabilities
from dw_core.protocol.timestamps import wire_time
from dw_core.routes.catalogue import ROUTES, match
from dw_core.services.wakes import SERVICE_CALLS, SERVICE_RESULTS
from dw_core.topology.manifest import manifest, summary
from dw_core.topology.placement import BootRefused, Placement, resolve
from dw_runtime.auth.authenticator import Authenticator, build_authenticator
from dw_runtime.auth.keys import SigningKeys
from dw_runtime.auth.tokens import JwtAuthenticator
from dw_runtime.discovery.cluster import ClusterParts
from dw_runtime.discovery.handlers import discovery_handlers
from dw_runtime.discovery.readiness import Readiness
from dw_runtime.discovery.redis_probe import RedisProbe
from dw_runtime.http.application import Application
from dw_runtime.http.call import Handlers
from dw_runtime.http.shell import Shell
from dw_runtime.node.limits import (
    auth_settings,
    capability_options,
    claim_rules,
    core_limits,
    discovery_limits,
    shell_settings,
)
from dw_runtime.payloads.build import build_payloads
from dw_runtime.payloads.checks import ReferenceCheck
from dw_runtime.payloads.handlers import transport_handlers
from dw_runtime.process.background import Background
from dw_runtime.process.index import process_index
from dw_runtime.pump.claims import Waiters
from dw_runtime.pump.pump import Pump
from dw_runtime.settings import Settings, SettingsError
from dw_runtime.store.database import Database
from dw_runtime.store.reads.namespaces import NamespaceCache
from dw_runtime.store.reads.probe import PostgresProbe
from dw_runtime.telemetry.certificates import watch_certificates
from dw_runtime.telemetry.exposition import Exposition
from dw_runtime.telemetry.logs import configure_logs
from dw_runtime.telemetry.metrics import Metrics
from dw_runtime.telemetry.tracing import build_tracing
from dw_runtime.version import server_version
from dw_runtime.wake.bus import NoBus, RedisBus, WakeBus

new_id = Ulids()
"""Draws the ids of this process."""


def wire_now() -> str:
    """The clock of this process, for documents that describe it; leases and deadlines use the database clock."""
    return wire_time(datetime.now(UTC))


class Node:
    """Database, pump, wake bus, gates and shell of one process.

    ``entry_point`` is a key of ``dw_core.topology.placement.ENTRY_POINTS``; ``waiters`` are the polls this process
    holds, ``on_wake`` and ``on_reset`` what its broker does with signals. Raises ``SettingsError`` for a configuration
    the process must not run with.
    """

    def __init__(
        self,
        settings: Settings,
        entry_point: str,
        *,
        waiters: Callable[[Metrics], Waiters] | None = None,
        on_wake: Callable[[WakeKey], None] = lambda key: None,
        on_reset: Callable[[], None] = lambda: None,
    ) -> None:
        configure_logs(settings.telemetry.log_level, role=entry_point, server_id=settings.topology.server_id)
        self.settings = settings
        self.placement = _place(settings, entry_point)
        self.limits = core_limits(settings)
        self.metrics = Metrics()
        telemetry = settings.telemetry
        self._tracing = build_tracing(entry_point, settings.topology.server_id) if telemetry.tracing_enabled else None
        if settings.stores.database_url is None:
            raise SettingsError("No database is configured; set DATABASE_URL, DB_URL or DB_HOST.")
        watch_certificates(self.metrics.certificate_expiry, settings.stores)
        self.database = Database(settings.stores.database_url, settings.stores.database_pool_size, self.metrics)
        self.holder = f"{settings.topology.server_id}:{os.getpid()}:{secrets.token_hex(4)}"
        self._redis: redis.Redis | None = None
        self.bus: WakeBus = NoBus()
        if settings.stores.redis_url is not None:
            self._redis = redis.Redis.from_url(settings.stores.redis_url, socket_connect_timeout=0.5)
            self.bus = RedisBus(settings.stores.redis_url, self.metrics, on_wake=self._hear, on_reset=on_reset)
        self.payloads = build_payloads(settings, self.database, self.metrics, self.limits, new_id)
        self._on_wake = on_wake
        self._listeners: dict[WakeKey, Callable[[], None]] = {}
        self.waiters = None if waiters is None else waiters(self.metrics)
        self.pump = Pump(
            settings.stores.database_url,
            self.metrics,
            limits=self.limits,
            publish=self._publish,
            announce=self.announce,
            waiters=self.waiters,
            on_service_calls=lambda: self.announce((SERVICE_CALLS, SERVICE_RESULTS)),
            tracing=self._tracing,
        )
        self._loops: dict[str, Background] = {"pump": self.pump}
        self._services: list[Background] = []
        self.shell: Shell | None = None
        self.app: Application | None = None

    def _publish(self, keys: Iterable[WakeKey]) -> None:
        self.bus.publish(keys)

    def join(self, name: str, service: Background) -> None:
        """Start a service when the stores are open and stop it before they close; ``name`` shows in ``/livez``."""
        self._services.append(service)
        self._loops[name] = service

    def announce(self, keys: Iterable[WakeKey]) -> None:
        """Wake whoever waits for these keys, in this process at once and in the others by signal."""
        keys = list(keys)
        for key in keys:
            self._hear(key)
        self.bus.publish(keys)

    def listen(self, key: WakeKey, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when this key is announced anywhere; a lost signal is the listener's own matter."""
        self._listeners[key] = callback
        self.bus.listen(key)

    def _hear(self, key: WakeKey) -> None:
        callback = self._listeners.get(key)
        if callback is None:
            self._on_wake(key)
        else:
            callback()

    @property
    def _queue_wake(self) -> bool:
        return self.settings.topology.matching_queue_wake and self.placement.queue_wake_default

    def topology_summary(self) -> dict[str, Any]:
        """What this process says in public about its place in the deployment."""
        placement = self.placement
        limits = discovery_limits(self.settings)
        return summary(placement.shape, placement.process_class, queue_wake=self._queue_wake, limits=limits)

    def _authenticator(self) -> Authenticator:
        if self.settings.auth.driver != "jwt":
            return build_authenticator(auth_settings(self.settings))
        auth = self.settings.auth
        rules = claim_rules(auth)
        keys = SigningKeys(rules.issuer, auth.jwt_jwks_url, self.metrics)
        self.join("signing-keys", keys)
        return JwtAuthenticator(rules, keys)

    def serve(self, handlers: Handlers, loops: dict[str, Background]) -> Application:
        """Build the shell and the application around the role's handlers; ``loops`` show in ``/livez``."""
        settings = self.settings
        self._loops.update(loops)
        authenticator = self._authenticator()
        capabilities = server_capabilities(capability_options(settings, self.limits))
        queue_wake = self._queue_wake
        placed = (self.placement.shape, self.placement.process_class)
        discovery = discovery_limits(settings)
        readiness = self._readiness(authenticator)
        namespaces = NamespaceCache(self.database)
        static = static_parts(
            NodeIdentity(
                server_id=settings.topology.server_id,
                version=server_version(),
                default_namespace=settings.topology.default_namespace,
            ),
            topology=manifest(*placed, queue_wake=queue_wake, limits=discovery),
            server_capabilities=capabilities,
            limits=self.limits,
            compression=settings.protocol.compression_enabled,
        )
        parts = ClusterParts(PostgresProbe(self.database, settings), namespaces, readiness, self.payloads.described)
        shell = Shell(
            routes=ROUTES,
            match=match,
            placement=self.placement,
            handlers={
                **discovery_handlers(readiness, parts, static, self._dead_loops),
                **transport_handlers(self.payloads),
                **handlers,
            },
            authenticator=authenticator,
            gate=readiness,
            namespaces=namespaces,
            capabilities=msgspec.json.encode(capabilities),
            observer=self.metrics.request_observer,
            settings=shell_settings(settings, self.limits),
            check_references=ReferenceCheck(self.payloads, inlined_bytes_max=self.limits.payload_size_bytes),
            tracing=self._tracing,
        )
        self.metrics.requests_in_flight.set_function(lambda: float(shell.in_flight))
        self.shell = shell
        self.app = Application(shell, Exposition(self.metrics.registry, process_index()))
        return self.app

    def _readiness(self, authenticator: Authenticator) -> Readiness:
        return Readiness(
            store=PostgresProbe(self.database, self.settings),
            cache=None if self._redis is None else RedisProbe(self._redis),
            auth=authenticator.state,
            topology=self.topology_summary(),
            default_namespace=self.settings.topology.default_namespace,
            now=wire_now,
            is_draining=lambda: self.shell is not None and self.shell.draining.is_set(),
            on_judged=self._count_failing,
        )

    def _count_failing(self, failing: Collection[str]) -> None:
        for check, gauge in self.metrics.readiness_failing.items():
            gauge.set(check in failing)

    def _dead_loops(self) -> Sequence[str]:
        return [name for name, loop in self._loops.items() if not loop.is_alive]

    async def open(self) -> None:
        """Connect in the background and start the pump and the services."""
        await self.database.open()
        if isinstance(self.bus, RedisBus):
            self.bus.start()
        self.pump.start()
        for service in self._services:
            service.start()

    async def drain(self) -> None:
        """No longer ready; return when nothing is in flight or the time for it is over."""
        assert self.shell is not None, "drain comes after serve"
        await self.shell.drain(self.settings.http.drain_seconds)

    async def close(self) -> None:
        """Stop the services, finish what the pump has taken, then close every connection."""
        for service in self._services:
            await service.stop()
        await self.pump.stop()
        if isinstance(self.bus, RedisBus):
            await self.bus.stop()
        if self._redis is not None:
            await self._redis.aclose()
        await self.database.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)


def _place(settings: Settings, entry_point: str) -> Placement:
    topology = settings.topology
    if topology.mode != "service":
        raise SettingsError(f"DW_MODE={topology.mode!r} is not supported; this server runs as 'service'.")
    try:
        return resolve(topology.shape, topology.process_class, entry_point, dispatch_mode=topology.task_dispatch_mode)
    except BootRefused as refused:
        raise SettingsError(str(refused)) from refused
