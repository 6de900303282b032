"""What the clocks of the scheduler share: looking, the pause until the next look, and an orderly end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import ClassVar

import psycopg

from dw_runtime.process.background import Background
from dw_runtime.telemetry.condition import Condition


class Clock(Background):
    """Looks again and again until it is stopped; a look that fails is followed by another after ``PAUSE_SECONDS``."""

    PAUSE_SECONDS: ClassVar[float]

    def __init__(self) -> None:
        self._condition = Condition(self.TASK_NAME)
        self._stopping = asyncio.Event()

    async def stop(self) -> None:
        """Finish what has been begun."""
        if self._task is None:
            return
        self._stopping.set()
        await self._task

    async def _loop(self) -> None:
        while not self._stopping.is_set():
            pause = self.PAUSE_SECONDS
            try:
                pause = await self.look()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                continue

    @abstractmethod
    async def look(self) -> float:
        """Do what is due; returns the seconds until the next look."""
