"""Waiting for the end of service calls: one watcher per process, whatever the number of callers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

import psycopg

from dw_runtime.process.background import Background
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition

LOOK_SECONDS: Final = 1.0
"""How late an end may be noticed when its wake signal was lost; one statement per process and interval."""
BUSY_SECONDS: Final = 0.005
"""Wakes that come faster than this are looked after together."""


class ServiceResults(Background):
    """Tells waiting callers that their call has ended. ``heard`` counts the wakes: an end may come before its wait."""

    TASK_NAME = "service-results"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._news = asyncio.Event()
        self.heard = 0
        self._condition = Condition("services.results")

    def expect(self, service_call_id: str, heard_before: int) -> asyncio.Future[None]:
        """Done when the call has ended; ``heard_before`` is :attr:`heard` from before its admission."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(service_call_id, set()).add(future)
        if self.heard != heard_before or len(self._waiting) == 1:
            self._news.set()
        return future

    def forget(self, service_call_id: str, future: asyncio.Future[None]) -> None:
        """No longer wait for it."""
        waiting = self._waiting.get(service_call_id, set())
        waiting.discard(future)
        if not waiting:
            self._waiting.pop(service_call_id, None)

    def wake(self) -> None:
        """A call may have ended."""
        self.heard += 1
        self._news.set()

    async def _loop(self) -> None:
        while True:
            # Without callers there is nothing to look after, however long it takes.
            patience = LOOK_SECONDS * random.uniform(0.8, 1.2) if self._waiting else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), patience)
            self._news.clear()
            if not self._waiting:
                continue
            try:
                await self._look()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(BUSY_SECONDS)

    async def _look(self) -> None:
        for (call_id,) in await self._database.rows("closed_service_calls", encode_rows(self._waiting)):
            for future in self._waiting.pop(call_id, ()):
                if not future.done():
                    future.set_result(None)
