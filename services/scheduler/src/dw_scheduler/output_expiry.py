"""Dropping the items of output streams that were closed long enough ago (control-plane §14.2)."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import psycopg

from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.telemetry.condition import Condition

LOOK_SECONDS: Final = 30.0
"""How long an item may outlive its time; readers do not see it any more."""
STREAMS_MAX: Final = 50
"""Streams emptied by one statement."""


class OutputExpiry(Background):
    """Looks regularly, and again at once when there was more; replicas that look together skip each other's streams."""

    TASK_NAME = "output-expiry"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._condition = Condition("output-expiry")

    async def _loop(self) -> None:
        while True:
            try:
                found = await self.pass_once()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
                found = 0
            if found < STREAMS_MAX:
                await asyncio.sleep(LOOK_SECONDS * random.uniform(0.8, 1.2))

    async def pass_once(self) -> int:
        """Empty some streams whose time is over; returns how many."""
        ((found,),) = await self._database.rows("drop_expired_outputs", STREAMS_MAX)
        return int(found)
