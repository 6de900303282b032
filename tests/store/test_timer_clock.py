"""The timer clock against Postgres, with a pump that only notes what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import psycopg
import pytest

from dw_core.engine.inputs import FireTimer
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.store.migrate import expand
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler import timers
from dw_scheduler.timers import TimerClock
from tests.harness.waiting import eventually


class Noting:
    """A pump that marks timers as fired; those in ``broken`` fail."""

    def __init__(self, url: str, *broken: str) -> None:
        self.fired: list[str] = []
        self.tried: list[str] = []
        self._url = url
        self._broken = broken

    async def submit(self, due: FireTimer) -> dict[str, str]:
        """Take an input as the pump does; it must be due by the database clock."""
        self.tried.append(due.run_id)
        if due.run_id in self._broken:
            raise ValueError(due.run_id)
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            updated = await connection.execute(
                "UPDATE workflow_timers SET status = 'fired', fired_at = now()"
                " WHERE run_id = %s AND status = 'pending' AND fire_at <= clock_timestamp() RETURNING 1",
                (due.run_id,),
            )
            assert await updated.fetchone() is not None, "fired once, and not early"
        self.fired.append(due.run_id)
        return {"outcome": "fired"}


@pytest.fixture
async def database(empty_database: str) -> AsyncIterator[Database]:
    """A pool on a database that has only what this test puts there."""
    await expand(empty_database)
    database = Database(empty_database, 2, Metrics())
    await database.open()
    yield database
    await database.close()


def pend(url: str, *timers: tuple[str, float]) -> None:
    """Store pending timers by run id that are due in so many seconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        for run_id, seconds in timers:
            connection.execute(
                "INSERT INTO workflow_timers SELECT %s, 1, 'timer', 'pending', 1, now(), t, t"
                " FROM (SELECT now() + make_interval(secs => %s) AS t) due",
                (run_id, seconds),
            )


def clock(database: Database, pump: Noting, holder: str = "one") -> TimerClock:
    return TimerClock(database, cast(Pump, pump), holder=holder)


async def test_every_timer_fires_once_in_its_moment(database: Database, empty_database: str) -> None:
    pump = Noting(empty_database)
    pend(empty_database, ("late", -60), ("soon", 0.3), ("sooner", 0.1), ("far", 3600))
    one, two = clock(database, pump), clock(database, pump, "two")
    one.start()
    two.start()

    async def have_fired() -> bool:
        return len(pump.fired) == 3

    await eventually(have_fired, "three timers have fired")
    pend(empty_database, ("new", 0.5))

    async def has_fired() -> bool:
        return len(pump.fired) == 4

    await eventually(has_fired, "a timer that came later has fired")
    await asyncio.gather(one.stop(), two.stop())
    assert pump.fired == ["late", "sooner", "soon", "new"]


async def test_a_timer_that_fails_keeps_no_other_back(
    database: Database, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "FOUND_MAX", 1)
    monkeypatch.setattr(timers, "RETRY_SECONDS", 0.2)
    pump = Noting(empty_database, "bad-1", "bad-2")
    pend(empty_database, ("bad-1", -9), ("bad-2", -8), ("good-1", -7), ("good-2", -6))
    one = clock(database, pump)
    one.start()

    async def have_fired() -> bool:
        return pump.fired == ["good-1", "good-2"] and pump.tried.count("bad-1") > 1

    await eventually(have_fired, "the good ones have fired and the bad ones are tried again")
    assert one.is_alive
    await one.stop()
