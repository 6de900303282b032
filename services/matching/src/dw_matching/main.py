"""The ``matching`` process: the worker plane on its own."""

from __future__ import annotations

from dw_matching.plane import WorkerPlane
from dw_runtime.process.role import Application
from dw_runtime.settings import Settings


class MatchingRole:
    """The role as ``dw_runtime.process`` runs it."""

    def __init__(self, settings: Settings) -> None:
        self._plane = WorkerPlane(settings, "matching")
        self.app: Application = self._plane.node.serve(self._plane.handlers(), self._plane.loops)

    async def startup(self) -> None:
        """Open the stores and start the loops."""
        await self._plane.open()

    async def drain(self) -> None:
        """Not ready any more; held polls end empty, requests in flight finish."""
        await self._plane.drain()

    async def shutdown(self) -> None:
        """Stop the loops, finish the pump, close the stores."""
        await self._plane.close()


def build(settings: Settings) -> MatchingRole:
    """Build the role; raises ``SettingsError`` for an illegal configuration."""
    return MatchingRole(settings)
