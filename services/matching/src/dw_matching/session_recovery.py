"""Taking sessions from workers that have let them go, so that others may have their activities (worker-plane §15.4).

The attempts that run in a lost session keep their leases. The pass needs no service lease: its one statement skips what
another process has locked.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from typing import Final

import psycopg
import structlog

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_core.sessions.session import SessionLoss
from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

PASS_SECONDS: Final = 10.0
PASS_LIMIT: Final = 200


class SessionRecovery(Background):
    """Looks every ten seconds, and at once after :meth:`look_soon`.

    A worker silent for ``stale_after_seconds`` has lost its sessions; ``announce`` wakes the polls of a queue.
    """

    TASK_NAME = "session-recovery"

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        stale_after_seconds: int,
        announce: Callable[[Iterable[WakeKey]], None],
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._stale_after_seconds = stale_after_seconds
        self._announce = announce
        self._condition = Condition("sessions.recovery")
        self._has_work = asyncio.Event()

    def look_soon(self) -> None:
        """A worker has left."""
        self._has_work.set()

    async def pass_once(self) -> int:
        """One pass; how many sessions were lost. Raises ``psycopg.Error`` when the database cannot be used."""
        total = 0
        while True:
            rows = await self._database.rows("lose_sessions", self._stale_after_seconds, PASS_LIMIT)
            waiting: set[WakeKey] = set()
            for namespace, session_id, reason, queue in rows:
                self._metrics.sessions_lost[SessionLoss(reason)].inc()
                log.info("session.lost", namespace=namespace, session_id=session_id, reason=reason)
                if queue is not None:
                    waiting.add(WakeKey(namespace, TaskKind.ACTIVITY, queue))
            if waiting:
                self._announce(waiting)
            total += len(rows)
            if len(rows) < PASS_LIMIT:
                return total

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_work.wait(), PASS_SECONDS * random.uniform(0.8, 1.2))
            self._has_work.clear()
            try:
                await self.pass_once()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
