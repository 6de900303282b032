"""Reading the state of the whole deployment into metrics, now and then."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import psycopg

from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.sampled import OVERDUE, STUCK_REASONS, QueueSample, Sampled

SAMPLE_SECONDS: Final = 15.0
"""About the interval at which metrics are scraped."""
COUNTED_MAX: Final = 1000
"""A count stops here, so that a sample of any backlog costs the same."""
FAILING_ATTEMPTS: Final = 5


class Sampling(Background):
    """Fills ``sampled`` about every 15 seconds with two statements of bounded cost.

    ``queues_max`` is the most queues that get series of their own. While the database is away there are none.
    """

    TASK_NAME = "sampling"

    def __init__(self, database: Database, sampled: Sampled, *, queues_max: int) -> None:
        self._database = database
        self._sampled = sampled
        self._queues_max = queues_max
        self._condition = Condition("sampling")

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS * random.uniform(0.8, 1.2))
            try:
                await self.sample()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._sampled.clear()
                self._condition.failed(error)

    async def sample(self) -> None:
        """Take one sample."""
        rows = await self._database.read("sample_queues", self._queues_max + 1, COUNTED_MAX, FAILING_ATTEMPTS)
        ((*overdue, blocked),) = await self._database.read("sample_delays", COUNTED_MAX)
        queues = [QueueSample(*row) for row in rows]
        failing = sum(queue.failing for queue in queues)
        self._sampled.set_queues(queues, limit=self._queues_max)
        self._sampled.set_delays(
            dict(zip(OVERDUE, overdue, strict=True)), dict(zip(STUCK_REASONS, (blocked, failing), strict=True))
        )
