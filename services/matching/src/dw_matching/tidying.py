"""Forgetting what nobody asks about any more.

Workers long gone, ended sessions, idle shares, past minutes of dispatch budgets, and service calls that have ended
longer ago than their namespace keeps runs.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

import psycopg
import structlog

from dw_core.limits import REGISTRATION_KEPT_SECONDS, SESSION_KEPT_SECONDS
from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.telemetry.condition import Condition

log = structlog.get_logger(__name__)

BATCH: Final = 500
"""Registrations, ended sessions and service calls removed by one pass at most."""


class Tidying(Background):
    """Looks about every ``interval_seconds``. Several replicas may look at once: what one removes is gone for all."""

    TASK_NAME = "tidying"

    def __init__(self, database: Database, *, interval_seconds: float) -> None:
        self._database = database
        self._interval = interval_seconds
        self._condition = Condition("tidying")

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._interval * random.uniform(0.8, 1.2))
            try:
                await self.pass_once()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)

    async def pass_once(self) -> int:
        """One pass; how many registrations, sessions, counters and service calls it has removed."""
        workers = await self._database.rows("forget_stale_workers", REGISTRATION_KEPT_SECONDS, BATCH)
        sessions = await self._database.rows("forget_sessions", SESSION_KEPT_SECONDS, BATCH)
        ((counters,),) = await self._database.rows("forget_counters")
        calls = await self._database.rows("forget_service_calls", BATCH)
        if workers:
            log.info("workers.forgotten", count=len(workers))
        return len(workers) + len(sessions) + int(counters) + len(calls)
