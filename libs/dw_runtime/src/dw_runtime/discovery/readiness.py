"""Readiness: every check of topology §3.2 in its order, and the bootstrap gate that follows from the first two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec
import psycopg
import structlog

from dw_core.coordination.health import workflow_v2_blocked_check, workflow_v2_check
from dw_runtime.auth.authenticator import AuthState
from dw_runtime.discovery.probes import CacheProbe, MigrationStatus, StoreProbe, StoreState
from dw_runtime.discovery.single_flight import SingleFlight
from dw_runtime.http.gates import Blocked

log = structlog.get_logger(__name__)

DATABASE_TIMEOUT_SECONDS: Final = 1.0
FRESH_SECONDS: Final = 1.0
STALE_SECONDS: Final = 2.0
"""Up to this age the gate answers from the cache while a new evaluation runs; past it, requests wait for that one."""

_DATABASE_MESSAGE: Final = "The database cannot be reached."
_MIGRATIONS_MESSAGE: Final = "The state of the migrations cannot be read."
_MIGRATIONS_REMEDIATION: Final = "Run the bootstrap job for this release and wait for it before sending traffic here."
_CACHE_MESSAGE: Final = "Redis does not answer; held polls find new work by probing the database."
_GOOD: Final = ("ok", "warning")


class Prerequisites(msgspec.Struct, frozen=True, kw_only=True):
    """The cached evaluation: the two checks that can block, what else was read with them, and the verdict."""

    database: dict[str, Any]
    migrations: dict[str, Any]
    state: StoreState | None
    blocked: Blocked | None


class Readiness:
    """Judges this process for ``/api/ready`` and ``/api/health`` and serves the shell as its bootstrap gate.

    ``topology`` is the public summary; ``now`` gives wire timestamps; ``is_draining`` tells that the process has been
    told to stop. ``cache`` is None when no Redis is configured. ``on_judged`` is given the names of the failing checks
    after every evaluation.
    """

    def __init__(
        self,
        *,
        store: StoreProbe,
        cache: CacheProbe | None,
        auth: Callable[[], AuthState],
        topology: Mapping[str, Any],
        default_namespace: str,
        now: Callable[[], str],
        is_draining: Callable[[], bool],
        on_judged: Callable[[Collection[str]], None] = lambda failing: None,
    ) -> None:
        self.topology = topology
        self.now = now
        self._store = store
        self._cache = None if cache is None else SingleFlight(cache.works, FRESH_SECONDS)
        self._auth = auth
        self._default_namespace = default_namespace
        self._is_draining = is_draining
        self._on_judged = on_judged
        self._prerequisites = SingleFlight(self._evaluate, FRESH_SECONDS)

    def is_stale(self) -> bool:
        """Whether the gate must wait for an evaluation; starts one in the background when the result is ageing."""
        age = self._prerequisites.age_seconds()
        if age > FRESH_SECONDS:
            self._prerequisites.start()
        return age > STALE_SECONDS

    def blocked(self) -> Blocked | None:
        """What closes the bootstrap gate by the cached evaluation."""
        known = self._prerequisites.value
        assert known is not None, "the shell waits for the first evaluation"
        return known.blocked

    async def refreshed(self) -> Prerequisites:
        """An evaluation at most one second old."""
        return await self._prerequisites.fresh()

    async def database_ok(self) -> bool:
        """Whether the database answered within the last second."""
        return bool((await self.refreshed()).database["status"] == "ok")

    async def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether the node is ready, and ``checks`` in the order of topology §3.2."""
        known, cache = await asyncio.gather(self.refreshed(), self._cache_check())
        checks = {
            "database": known.database,
            "migrations": known.migrations,
            "default_namespace": self._namespace_check(known.state),
            "cache": cache,
            "auth": self._auth_check(),
            "workflow_v2": self._workflow_v2_check(known),
        }
        if self._is_draining():
            checks["shutdown"] = {"status": "unavailable", "message": "This process is shutting down."}
        return all(check["status"] in _GOOD for check in checks.values()), checks

    async def _evaluate(self) -> Prerequisites:
        known = await self._read()
        before = self._prerequisites.value
        failing = self._failing(known)
        self._on_judged(failing)
        if before is None or self._failing(before) != failing:
            (log.warning if failing else log.info)("readiness.changed", failing=failing)
        return known

    def _failing(self, known: Prerequisites) -> list[str]:
        """The checks without which the node is not ready, as far as an evaluation of the database tells."""
        checks = {
            "database": known.database,
            "migrations": known.migrations,
            "default_namespace": self._namespace_check(known.state),
            "auth": self._auth_check(),
        }
        return [name for name, check in checks.items() if check["status"] not in _GOOD]

    async def _read(self) -> Prerequisites:
        try:
            state = await asyncio.wait_for(self._store.readiness(self._default_namespace), DATABASE_TIMEOUT_SECONDS)
        except (psycopg.OperationalError, OSError, TimeoutError):
            return Prerequisites(
                database={"status": "unavailable", "message": _DATABASE_MESSAGE},
                migrations={"status": "unavailable", "message": _MIGRATIONS_MESSAGE},
                state=None,
                blocked=Blocked(("database", "migrations")),
            )
        except Exception:
            log.exception("readiness.inspection_failed")
            return Prerequisites(
                database={"status": "ok"},
                migrations={"status": "unavailable", "message": _MIGRATIONS_MESSAGE},
                state=None,
                blocked=Blocked(("migrations",)),
            )
        migrations = _migrations_check(state.migrations)
        return Prerequisites(
            database={"status": "ok"},
            migrations=migrations,
            state=state,
            blocked=None if migrations["status"] in _GOOD else Blocked(("migrations",)),
        )

    def _namespace_check(self, state: StoreState | None) -> dict[str, Any]:
        check: dict[str, Any] = {"status": "ok", "namespace": self._default_namespace}
        if state is None:
            check["status"] = "unavailable"
        elif not state.default_namespace_exists:
            check |= {"status": "missing", "remediation": "Run the bootstrap job; it creates the default namespace."}
        return check

    async def _cache_check(self) -> dict[str, Any]:
        if self._cache is None:
            return {
                "status": "warning",
                "store": "none",
                "message": "No Redis is configured; held polls find new work by probing the database.",
                "correctness_substrate": "database",
                "degraded_capability": "long_poll_wake_acceleration",
            }
        if await self._cache.fresh():
            return {"status": "ok", "store": "redis"}
        return {
            "status": "warning",
            "store": "redis",
            "message": _CACHE_MESSAGE,
            "correctness_substrate": "database",
            "degraded_capability": "long_poll_wake_acceleration",
        }

    def _auth_check(self) -> dict[str, Any]:
        auth = self._auth()
        check: dict[str, Any] = {"status": auth.status, "driver": auth.driver}
        if auth.remediation is not None:
            check["remediation"] = auth.remediation
        return check

    def _workflow_v2_check(self, known: Prerequisites) -> dict[str, Any]:
        if known.blocked is not None:
            return workflow_v2_blocked_check(known.blocked.blocked_by)
        assert known.state is not None, "an open gate means the store was read"
        return workflow_v2_check(known.state.backend, known.state.workers, generated_at=self.now())


def _migrations_check(migrations: MigrationStatus) -> dict[str, Any]:
    check: dict[str, Any] = {"status": migrations.status, **msgspec.to_builtins(migrations)}
    if migrations.status != "ok":
        check["remediation"] = _MIGRATIONS_REMEDIATION
    return check
