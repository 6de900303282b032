"""The ``scheduler`` process: the clock of the server. It hosts no routes beyond discovery."""

from __future__ import annotations

from dw_runtime.node.node import Node, new_id
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.process.role import Application
from dw_runtime.pump.fires import FireRunner
from dw_runtime.settings import Settings
from dw_runtime.sweeps import Sweeper
from dw_scheduler.output_expiry import OutputExpiry
from dw_scheduler.payload_cleanup import PayloadCleanupLoop
from dw_scheduler.retention import Retention
from dw_scheduler.schedules import ScheduleClock
from dw_scheduler.timers import TimerClock

SWEEP_SECONDS = 1.0
SWEEP_LIMIT = 200


class SchedulerRole:
    """The role as ``dw_runtime.process`` runs it: fires timers, enforces timeouts and deadlines, prunes."""

    def __init__(self, settings: Settings) -> None:
        self._node = Node(settings, "scheduler")
        self._sweeper = Sweeper(
            self._node.database,
            self._node.pump,
            name="scheduler-deadlines",
            holder=self._node.holder,
            interval_seconds=SWEEP_SECONDS,
            limit=SWEEP_LIMIT,
            is_for_deadlines=True,
        )
        self._timers = TimerClock(self._node.database, self._node.pump, holder=self._node.holder)
        self._expiry = OutputExpiry(self._node.database)
        self._node.join("output-expiry", self._expiry)
        payloads = self._node.payloads
        self._payloads = PayloadCleanupLoop(PayloadCleanup(payloads.rows, payloads.disks, self._node.metrics))
        self._node.join("payload-cleanup", self._payloads)
        self._retention = Retention(self._node.database, self._node.metrics, audit_days=settings.retention.audit_days)
        runner = FireRunner(self._node.database, self._node.pump, self._node.metrics, new_id)
        self._schedules = ScheduleClock(
            self._node.database, runner, self._node.metrics, new_id, holder=self._node.holder
        )
        loops = {
            "sweeper": self._sweeper,
            "timers": self._timers,
            "schedules": self._schedules,
            "retention": self._retention,
        }
        self.app: Application = self._node.serve({}, loops)

    async def startup(self) -> None:
        """Open the stores and start to sweep."""
        await self._node.open()
        self._sweeper.start()
        self._timers.start()
        self._schedules.start()
        self._retention.start()

    async def drain(self) -> None:
        """Not ready any more."""
        await self._node.drain()

    async def shutdown(self) -> None:
        """Give the lease back, finish the pump, close the stores."""
        await self._retention.stop()
        await self._schedules.stop()
        await self._timers.stop()
        await self._sweeper.stop()
        await self._node.close()


def build(settings: Settings) -> SchedulerRole:
    """Build the role; raises ``SettingsError`` for an illegal configuration."""
    return SchedulerRole(settings)
