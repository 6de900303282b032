"""Sweeps: looking for what has come due and submitting it to the pump.

A sweep holds a service lease, so that of many replicas one looks; the decision re-checks under the run's lock, so that
two can never do harm. It decides nothing itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import psycopg
import structlog

from dw_core.engine.inputs import Input, SweepTask, TakeDeliveries, TimeOutRun
from dw_core.protocol.problems import Problem
from dw_runtime.process.background import Background
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.telemetry.condition import Condition

log = structlog.get_logger(__name__)

LEASE_SECONDS: Final = 5.0
"""A sweeper that dies is replaced after this (architecture §3)."""


class DueRow(NamedTuple):
    """What has come due: a ``task``, a ``run`` past its deadline, or a ``delivery`` that nobody has taken."""

    what: str
    run_id: str
    task_number: int | None
    activity_sequence: int | None
    kind: int | None

    def to_input(self) -> Input:
        """What the pump is asked to look at again."""
        if self.what == "delivery":
            return TakeDeliveries(run_id=self.run_id)
        if self.task_number is None:
            return TimeOutRun(run_id=self.run_id)
        return SweepTask(
            run_id=self.run_id, task_number=self.task_number, activity_sequence=self.activity_sequence or 0
        )


class Sweeper(Background):
    """Looks every ``interval_seconds``, with one statement, while it holds the lease ``name``.

    It finds runs past their deadline and tasks whose lease has lapsed; with ``is_for_deadlines`` activity tasks past
    any of their deadlines instead. At most ``limit`` of each are taken at once; ``recovered`` hears of every task that
    was moved on.
    """

    TASK_NAME = "sweep"

    def __init__(
        self,
        database: Database,
        pump: Pump,
        *,
        name: str,
        holder: str,
        interval_seconds: float,
        limit: int,
        is_for_deadlines: bool = False,
        recovered: Callable[[DueRow], None] = lambda row: None,
    ) -> None:
        self._database = database
        self._pump = pump
        self._name = name
        self._holder = holder
        self._interval = interval_seconds
        self._limit = limit
        self._is_for_deadlines = is_for_deadlines
        self._recovered = recovered
        self._condition = Condition("sweep", sweep=name)
        self._stopping = asyncio.Event()

    async def stop(self) -> None:
        """Finish the pass under way and give the lease back."""
        if self._task is None:
            return
        self._stopping.set()
        await self._task
        await _quietly(self._database.rows("drop_lease", self._name, self._holder))

    async def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                found_all = await self.pass_once()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError, Problem) as error:
                self._condition.failed(error)
                found_all = True
            pause = self._interval * random.uniform(0.8, 1.2) if found_all else 0.0
            try:
                await asyncio.wait_for(self._stopping.wait(), pause)
            except TimeoutError:
                continue

    async def pass_once(self) -> bool:
        """One pass over everything that is due; False when a limit was reached and there may be more.

        An input that fails is left to the next pass and keeps none of the others back.
        """
        found = await self._database.rows(
            "find_due", self._name, self._holder, LEASE_SECONDS, self._limit, self._is_for_deadlines
        )
        due = [DueRow(*row) for row in found]
        replies = await asyncio.gather(*(self._pump.submit(row.to_input()) for row in due), return_exceptions=True)
        tasks = failures = 0
        for row, reply in zip(due, replies, strict=True):
            if isinstance(reply, BaseException):
                failures += 1
                log.warning("sweep.input_failed", sweep=self._name, run_id=row.run_id, error=type(reply).__name__)
            if row.task_number is not None:
                tasks += 1
                if isinstance(reply, dict):
                    self._recovered(row)
        return failures > 0 or max(tasks, len(due) - tasks) < self._limit


async def _quietly(work: Awaitable[object]) -> None:
    """Best effort at the end of a process: the lease also ends by itself."""
    try:
        await asyncio.wait_for(work, 1.0)
    except (psycopg.Error, OSError, TimeoutError) as error:
        log.info("sweep.lease_kept", error=type(error).__name__)
