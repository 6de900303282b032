"""Offering queries again whose worker will not answer: its lease ran out, it left, went silent or hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_runtime.store.database import Database, Row
from dw_runtime.store.loading import encode_rows
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

HANGUP_GRACE_SECONDS: Final = 1.0
"""A worker whose poll was cut off and that polls again within this time is not taken for dead."""

WorkerKey = tuple[str, str]


class QueryRecovery:
    """Re-offers leased queries. Asking another worker as well does no harm: a query changes nothing.

    ``owners`` gives the workers that hold a poll in this process, ``announce`` wakes the polls of a queue.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        owners: Callable[[], set[WorkerKey]],
        announce: Callable[[Iterable[WakeKey]], None],
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._owners = owners
        self._announce = announce
        self._suspects: set[WorkerKey] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()

    def suspect(self, namespace: str, worker_id: str) -> None:
        """A worker's client hung up during a poll: unless it polls here again soon, its queries go to others."""
        self._suspects.add((namespace, worker_id))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HANGUP_GRACE_SECONDS, self._judge)

    def reoffered(self, row: Row) -> None:
        """A query of this (namespace, queue) has become claimable again."""
        namespace, queue = row
        self._metrics.lease_expiries["query_task"].inc()
        self._announce((WakeKey(namespace, TaskKind.QUERY, queue),))

    async def stop(self) -> None:
        """Finish what has begun."""
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
                self.reoffered(row)
        except (psycopg.Error, PoolTimeout, OSError, TimeoutError) as error:
            log.warning("queries.reoffer_failed", error=type(error).__name__)
