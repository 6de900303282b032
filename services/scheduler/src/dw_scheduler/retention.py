"""Retention: closed runs go when their namespace no longer keeps them (topology §6, Retention), deleted namespaces,
old entries of the audit trail and of the histories of schedules too."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import psycopg
import structlog

from dw_runtime.process.background import Background
from dw_runtime.store.audit import AuditTrail
from dw_runtime.store.database import Database
from dw_runtime.store.namespaces import NamespacePurge
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 60.0
BATCH: Final = 500
"""Runs removed by one transaction at most; a full batch is followed by another at once."""

AUDIT_BATCH: Final = 5000
HISTORY_BATCH: Final = 5000
"""Entries of schedule histories removed by one statement."""
PURGE_SECONDS: Final = 10.0
"""How long one look goes on with a namespace that is being deleted before it turns to the next."""


class Retention(Background):
    """Looks about once a minute. Replicas may look at once: what one has locked the others pass by."""

    TASK_NAME = "retention"

    def __init__(
        self, database: Database, metrics: Metrics, *, audit_days: int, interval_seconds: float = LOOK_SECONDS
    ) -> None:
        self._database = database
        self._namespaces = NamespacePurge(database)
        self._trail = AuditTrail(database)
        self._audit_days = audit_days
        self._metrics = metrics
        self._interval = interval_seconds
        self._condition = Condition("retention")

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval * random.uniform(0.8, 1.2))
            try:
                while await self.pass_once() == BATCH:
                    continue
                await self._namespaces.go_on(seconds=PURGE_SECONDS)
                while await self._trail.prune(AUDIT_BATCH, self._audit_days) == AUDIT_BATCH:
                    continue
                while await self.prune_schedules() == HISTORY_BATCH:
                    continue
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)

    async def prune_schedules(self) -> int:
        """Remove one batch of old entries of schedule histories, and deleted schedules; how many entries have gone."""
        ((pruned,),) = await self._database.rows("prune_schedule_events", HISTORY_BATCH)
        return int(pruned)

    async def pass_once(self) -> int:
        """Remove one batch; how many runs have gone."""
        pruned = await self._database.rows("prune_runs", BATCH, None, None, False)
        if pruned:
            self._metrics.runs_pruned.inc(len(pruned))
            log.info("retention.pruned", runs=len(pruned), events=sum(row[1] for row in pruned))
        return len(pruned)
