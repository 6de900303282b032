"""The ``standalone`` process: both planes on one port."""

from __future__ import annotations

from dw_api_ingress.plane import control_plane
from dw_matching.plane import WorkerPlane
from dw_runtime.process.role import Application
from dw_runtime.settings import Settings


class StandaloneRole:
    """The role as ``dw_runtime.process`` runs it: the worker plane's node carries the control plane as well."""

    def __init__(self, settings: Settings) -> None:
        self._plane = WorkerPlane(settings, "standalone")
        node = self._plane.node
        handlers = {**control_plane(node, self._plane.asking), **self._plane.handlers()}
        self.app: Application = node.serve(handlers, self._plane.loops)

    async def startup(self) -> None:
        """Open the stores and start the loops."""
        await self._plane.open()

    async def drain(self) -> None:
        """Not ready any more; held polls end empty, requests in flight finish."""
        await self._plane.drain()

    async def shutdown(self) -> None:
        """Stop the loops, finish the pump, close the stores."""
        await self._plane.close()


def build(settings: Settings) -> StandaloneRole:
    """Build the role; raises ``SettingsError`` for an illegal configuration."""
    return StandaloneRole(settings)
