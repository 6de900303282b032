"""The timer clock: looks a little ahead and fires each timer in its own moment."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from dw_core.engine.inputs import FireTimer
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_scheduler.clock import Clock

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 0.9
"""How often the clock looks; less than the shortest delay, so that every timer is seen before it is due."""
HORIZON_SECONDS: Final = 2.0
"""How far it looks ahead: a timer found in this window waits here for its moment."""
FOUND_MAX: Final = 500
FULL_PAUSE_SECONDS: Final = 0.02
"""Between two looks that both found all they may take."""
RETRY_SECONDS: Final = 5.0
"""How long a timer that could not be fired is left alone."""
LEASE_NAME: Final = "scheduler-timers"
LEASE_SECONDS: Final = 5.0
EARLY_SECONDS: Final = 0.001
"""The clocks of two machines differ: aim a little late, because the database refuses what is early."""

TimerKey = tuple[str, int]


class TimerClock(Clock):
    """Fires due timers through the pump, while it holds the lease ``LEASE_NAME``.

    The decision re-checks under the run's lock by the database clock, so that two clocks never fire one timer twice
    and none fires early; a timer that was refused as early is found again by the next look.
    """

    TASK_NAME = "timers"
    PAUSE_SECONDS = LOOK_SECONDS

    def __init__(self, database: Database, pump: Pump, *, holder: str) -> None:
        super().__init__()
        self._database = database
        self._pump = pump
        self._holder = holder
        self._waiting: dict[TimerKey, asyncio.TimerHandle] = {}
        self._failed = 0
        self._fires: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Stop looking and let begun fires finish."""
        await super().stop()
        for handle in self._waiting.values():
            handle.cancel()
        await asyncio.gather(*self._fires, return_exceptions=True)

    async def look(self) -> float:
        """Take charge of the timers of the next moments; returns the seconds until the next look.

        A look that found all it may take is followed by another as soon as the last one found is due and those due
        before have been fired.
        """
        limit = FOUND_MAX + self._failed
        rows = await self._database.rows(
            "find_due_timers", LEASE_NAME, self._holder, LEASE_SECONDS, HORIZON_SECONDS, limit
        )
        loop = asyncio.get_running_loop()
        for run_id, sequence, seconds in rows:
            key = (run_id, sequence)
            if key not in self._waiting:
                delay = seconds + EARLY_SECONDS if seconds > 0 else 0.0
                self._waiting[key] = loop.call_later(delay, self._begin, key)
        if len(rows) < limit:
            return LOOK_SECONDS
        if self._fires:
            await asyncio.wait(self._fires)
        last: float = rows[-1][2]
        return min(max(last, FULL_PAUSE_SECONDS), LOOK_SECONDS)

    def _begin(self, key: TimerKey) -> None:
        fire = asyncio.get_running_loop().create_task(self._fire(key))
        self._fires.add(fire)
        fire.add_done_callback(self._fires.discard)

    async def _fire(self, key: TimerKey) -> None:
        """Submit one timer. One that fails is left alone for a while and keeps none of the others back."""
        run_id, sequence = key
        try:
            await self._pump.submit(FireTimer(run_id=run_id, sequence=sequence))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and tried again
            log.warning("timers.fire_failed", run_id=run_id, error=type(error).__name__)
            self._failed += 1
            self._waiting[key] = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._try_again, key)
        else:
            self._waiting.pop(key, None)

    def _try_again(self, key: TimerKey) -> None:
        self._failed -= 1
        self._waiting.pop(key, None)
