"""Waiting for outcomes that others write: one watcher per process, whatever the number of callers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import psycopg

from dw_runtime.process.background import Background
from dw_runtime.telemetry.condition import Condition

LOOK_SECONDS: Final = 1.0
"""How late an outcome may be noticed when its wake signal was lost; one statement per process and interval."""
BUSY_SECONDS: Final = 0.002
"""Wakes that come faster than this are looked after together."""

LATE_SECONDS: Final = 5.0
"""How long an outcome that is known to have come may take to be read."""

DRAIN_SECONDS: Final = 0.5
"""What a process that drains still waits for outcomes; clients repeat the refusal that follows, at another process."""

T = TypeVar("T")


class Watching(Background, Generic[T]):
    """Gives each waiting caller its outcome.

    ``look`` reads the outcomes that have come for the given ids. ``heard`` counts the wakes: an outcome may come before
    its caller has begun to wait.
    """

    TASK_NAME = "watching"

    def __init__(self, name: str, look: Callable[[Sequence[str]], Awaitable[Iterable[tuple[str, T]]]]) -> None:
        self._look = look
        self._waiting: dict[str, list[asyncio.Future[T]]] = {}
        self._news = asyncio.Event()
        self.heard = 0
        self._condition = Condition(name)

    def expect(self, key: str, heard_before: int) -> asyncio.Future[T]:
        """Wait for an outcome; ``heard_before`` is :attr:`heard` from before the request for it was stored."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self.heard != heard_before or len(self._waiting) == 1:
            self._news.set()
        return future

    def forget(self, key: str, future: asyncio.Future[T]) -> None:
        """No longer wait for it."""
        waiting = self._waiting.get(key, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(key, None)

    def wake(self) -> None:
        """An outcome has come for a caller of this process, or one is overdue."""
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
                self._deliver(await self._look(list(self._waiting)))
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(BUSY_SECONDS)

    def _deliver(self, found: Iterable[tuple[str, T]]) -> None:
        for key, outcome in found:
            for future in self._waiting.pop(key, ()):
                if not future.done():
                    future.set_result(outcome)


async def wait_for(future: asyncio.Future[T], seconds: float, draining: asyncio.Event) -> bool:
    """Wait for an outcome; True when this process is to end, which leaves an outcome only a moment to come."""
    drained = asyncio.ensure_future(draining.wait())
    try:
        await asyncio.wait((future, drained), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if draining.is_set() and not future.done():
            await asyncio.wait((future,), timeout=DRAIN_SECONDS)
        return draining.is_set()
    finally:
        drained.cancel()
