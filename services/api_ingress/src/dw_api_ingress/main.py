"""The ``api_ingress`` process: the control plane on its own."""

from __future__ import annotations

from dw_api_ingress.plane import ControlPlane
from dw_runtime.node.node import Node
from dw_runtime.process.role import Application
from dw_runtime.settings import Settings


class ApiIngressRole:
    """The role as ``dw_runtime.process`` runs it."""

    def __init__(self, settings: Settings) -> None:
        self._node = Node(settings, "api-ingress")
        self._plane = ControlPlane(self._node)
        self.app: Application = self._node.serve(self._plane.handlers(), self._plane.loops)

    async def startup(self) -> None:
        """Open the stores, start the pump and the loops."""
        await self._node.open()
        self._plane.start()

    async def drain(self) -> None:
        """Not ready any more; requests in flight finish."""
        await self._node.drain()

    async def shutdown(self) -> None:
        """Stop the loops, finish the pump, close the stores."""
        await self._plane.stop()
        await self._node.close()


def build(settings: Settings) -> ApiIngressRole:
    """Build the role; raises ``SettingsError`` for an illegal configuration."""
    return ApiIngressRole(settings)
