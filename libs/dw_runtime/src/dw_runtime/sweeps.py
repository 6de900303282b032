"""Sweeps: looking for what has come due and submitting it to the pump.

A sweep holds a service lease, so that of many replicas one looks; the decision re-checks under the run's lock, so that
two can never do harm. It decides nothing itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import psycopg
import structlog

from dw_core.engine.inputs import Input, SweepTask, TimeOutRun
from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Problem
from dw_runtime.pump.pump import Pump, Reply
from dw_runtime.store.database import Database, Row

log = structlog.get_logger(__name__)

LEASE_SECONDS: Final = 5.0
"""A sweeper that dies is replaced after this (architecture §3)."""

Find = Callable[[Row], Input]


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for: a statement that finds due rows, at most ``limit``, and the input each row becomes.

    ``to_input`` None means that the statement itself has done what was due, on rows that no run owns. ``also`` are
    further parameters of the statement.
    """

    statement: str
    limit: int
    to_input: Find | None
    settled: Callable[[Row], None] | None = None
    also: tuple[int, ...] = ()


def task_input(row: Row) -> Input:
    """A due task."""
    return SweepTask(run_id=row[0], task_number=row[1], activity_sequence=row[2])


def run_input(row: Row) -> Input:
    """A run past its deadline."""
    return TimeOutRun(run_id=row[0])


class Sweeper:
    """Runs a family of sweeps every ``interval_seconds`` while it holds the lease ``name``."""

    def __init__(
        self,
        database: Database,
        pump: Pump,
        *,
        name: str,
        holder: str,
        interval_seconds: float,
        sweeps: Sequence[Sweep],
    ) -> None:
        self._database = database
        self._pump = pump
        self._name = name
        self._holder = holder
        self._interval = interval_seconds
        self._sweeps = sweeps
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Begin to sweep."""
        self._task = asyncio.create_task(self._loop(), name=f"sweep-{self._name}")

    async def stop(self) -> None:
        """Finish the pass under way and give the lease back."""
        if self._task is None:
            return
        self._stopping.set()
        await self._task
        await _quietly(self._database.rows("drop_lease", self._name, self._holder))

    @property
    def is_alive(self) -> bool:
        """Whether the loop is running."""
        return self._task is not None and not self._task.done()

    async def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                found_all = await self.pass_once()
            except (psycopg.Error, OSError, TimeoutError, Problem) as error:
                log.warning("sweep.failed", sweep=self._name, error=type(error).__name__)
                found_all = True
            pause = self._interval * random.uniform(0.8, 1.2) if found_all else 0.0
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                continue

    async def pass_once(self) -> bool:
        """One pass over everything that is due; False when a limit was reached and there may be more."""
        if not await self._database.rows("hold_lease", self._name, self._holder, LEASE_SECONDS):
            return True
        found_all = True
        for sweep in self._sweeps:
            rows = await self._database.rows(sweep.statement, sweep.limit, *sweep.also)
            found_all = found_all and len(rows) < sweep.limit
            replies = await self._submit(sweep.to_input, rows)
            for row, reply in zip(rows, replies, strict=True):
                if sweep.settled is not None and not isinstance(reply, Rejection):
                    sweep.settled(row)
        return found_all

    async def _submit(self, to_input: Find | None, rows: Sequence[Row]) -> Sequence[Reply]:
        if to_input is None:
            return [{}] * len(rows)
        return await asyncio.gather(*(self._pump.submit(to_input(row)) for row in rows))


async def _quietly(work: Awaitable[object]) -> None:
    """Best effort at the end of a process: the lease also ends by itself."""
    try:
        await asyncio.wait_for(work, 1.0)
    except (psycopg.Error, OSError, TimeoutError) as error:
        log.info("sweep.lease_kept", error=type(error).__name__)
