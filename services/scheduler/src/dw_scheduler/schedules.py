"""The clock of schedules: orders the starts that are due, and carries out what has been ordered."""

from __future__ import annotations

from typing import Final

from dw_core.ids import NewId
from dw_core.protocol.problems import Problem
from dw_core.schedules.firing import evaluate, stall
from dw_core.schedules.rows import Fire
from dw_core.schedules.writer import ScheduleWriter
from dw_runtime.pump.fires import FireRunner
from dw_runtime.store.database import Database
from dw_runtime.store.schedules import lease_fires, lock_due, write
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.clock import Clock

LOOK_SECONDS: Final = 1.0
"""The longest pause between two looks: a schedule that was created or changed meanwhile is seen by the next one."""
SHORTEST_PAUSE_SECONDS: Final = 0.01
BATCH: Final = 250
"""Schedules that one transaction decides on."""
SETTLE_MAX: Final = 250
"""Fires that one transaction takes over."""


class ScheduleClock(Clock):
    """Looks when the next schedule is due, and at least every :data:`LOOK_SECONDS`.

    Any number of schedulers may look at once: a schedule is locked while it is decided on, passed by when somebody
    else has locked it, and its next moment moves on in the transaction that orders the start. Who orders a start
    carries it out; what a lost process has left behind is carried out by another when its lease has lapsed.
    """

    TASK_NAME = "schedules"
    PAUSE_SECONDS = LOOK_SECONDS

    def __init__(self, database: Database, runner: FireRunner, metrics: Metrics, new_id: NewId, *, holder: str) -> None:
        super().__init__()
        self._database = database
        self._runner = runner
        self._metrics = metrics
        self._new_id = new_id
        self._holder = holder

    async def look(self) -> float:
        """Everything that is due now, batch after batch; returns the seconds until the next look."""
        while await self.pass_once() >= BATCH and not self._stopping.is_set():
            continue
        nearest = await self._database.rows("next_schedule")
        seconds = LOOK_SECONDS if not nearest else nearest[0][0]
        return min(max(seconds, SHORTEST_PAUSE_SECONDS), LOOK_SECONDS)

    async def pass_once(self) -> int:
        """Decide on one batch of due schedules and carry it out with what others have left; how many there were."""
        decided, ordered = await self._order()
        async with self._database.transaction() as session:
            left = await lease_fires(session, self._holder, SETTLE_MAX)
        if ordered or left:
            await self._runner.run([*ordered, *left])
        return max(decided, len(left))

    async def _order(self) -> tuple[int, list[Fire]]:
        async with self._database.transaction() as session:
            locked = await lock_due(session, BATCH)
            if locked is None:
                return 0, []
            writers: list[ScheduleWriter] = []
            outcomes: list[str] = []
            for snapshot in locked.schedules.values():
                writer = ScheduleWriter(snapshot, locked.now)
                try:
                    outcomes += [fired.outcome for fired in evaluate(writer, self._new_id, self._holder)]
                except Problem as wrong:
                    writer = ScheduleWriter(snapshot, locked.now)
                    stall(writer, wrong.reason)
                writers.append(writer)
            await write(session, writers)
        for outcome in outcomes:
            self._metrics.schedule_decisions[outcome].inc()
        return len(writers), [fire for writer in writers for fire in writer.fires if fire.lease_owner is not None]
