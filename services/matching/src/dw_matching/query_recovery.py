"""Offering queries again whose worker will not answer, because its lease ran out or it left, went silent or hung up.

The sweep needs no service lease: its one statement skips what another process has locked.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

import psycopg
import structlog

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_matching.broker import METRIC_KIND
from dw_runtime.process.background import Background
from dw_runtime.store.database import Database, Row
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

HANGUP_GRACE_SECONDS: Final = 1.0
"""A worker whose poll was cut off and that polls again within this time is not taken for dead."""

SWEEP_SECONDS: Final = 1.0
IDLE_SWEEP_SECONDS: Final = 15.0
"""How often to look for such queries, and how often when this process has leased none for a while."""
BUSY_SECONDS: Final = 60.0
SWEEP_LIMIT: Final = 200

_ERRORS: Final = (psycopg.Error, OSError, TimeoutError)

WorkerKey = tuple[str, str]


class QueryRecovery(Background):
    """Re-offers leased queries and forgets old ones. Asking another worker too does no harm: a query changes nothing.

    A worker silent for ``stale_after_seconds`` is gone. ``owners`` gives the workers that hold a poll in this process,
    ``announce`` wakes the polls of a queue.
    """

    TASK_NAME = "query-recovery"

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        stale_after_seconds: int,
        owners: Callable[[], set[WorkerKey]],
        announce: Callable[[Iterable[WakeKey]], None],
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._stale_after_seconds = stale_after_seconds
        self._owners = owners
        self._announce = announce
        self._suspects: set[WorkerKey] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._busy_until = 0.0
        self._condition = Condition("queries.sweep")
        self._has_work = asyncio.Event()

    def expect_work(self) -> None:
        """This process has leased queries: look often for a while."""
        self._busy_until = time.monotonic() + BUSY_SECONDS
        self._has_work.set()

    def suspect(self, namespace: str, worker_id: str) -> None:
        """A worker's client hung up during a poll: unless it polls here again soon, its queries go to others."""
        self._suspects.add((namespace, worker_id))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HANGUP_GRACE_SECONDS, self._judge)

    async def sweep(self) -> None:
        """One pass; raises ``psycopg.Error`` when the database cannot be used."""
        while True:
            rows = await self._database.rows("sweep_queries", SWEEP_LIMIT, self._stale_after_seconds)
            for row in rows:
                self._reoffered(row)
            if len(rows) < SWEEP_LIMIT:
                return

    async def _loop(self) -> None:
        while True:
            is_busy = time.monotonic() < self._busy_until
            pause = (SWEEP_SECONDS if is_busy else IDLE_SWEEP_SECONDS) * random.uniform(0.8, 1.2)
            if is_busy:
                await asyncio.sleep(pause)
            else:
                self._has_work.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._has_work.wait(), pause)
            try:
                await self.sweep()
                self._condition.works()
            except _ERRORS as error:
                self._condition.failed(error)

    def _reoffered(self, row: Row) -> None:
        """A query of this (namespace, kind, queue) has become claimable again."""
        namespace, number, queue = row
        kind = TaskKind(number)
        self._metrics.lease_expiries[METRIC_KIND[kind]].inc()
        self._announce((WakeKey(namespace, kind, queue),))

    async def stop(self) -> None:
        """Stop sweeping and finish what has begun."""
        await super().stop()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def _judge(self) -> None:
        self._timer = None
        lost, self._suspects = self._suspects - self._owners(), set()
        if lost:
            work = asyncio.get_running_loop().create_task(self._reoffer(lost))
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    async def _reoffer(self, lost: set[WorkerKey]) -> None:
        named = encode_rows({"namespace": namespace, "worker_id": worker_id} for namespace, worker_id in lost)
        try:
            for row in await self._database.rows("reoffer_queries_of", named):
                self._reoffered(row)
        except _ERRORS as error:
            log.warning("queries.reoffer_failed", error=type(error).__name__)
