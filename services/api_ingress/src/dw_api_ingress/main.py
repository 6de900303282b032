"""The ``api_ingress`` process: the control plane on its own."""

from __future__ import annotations

from dw_api_ingress.plane import control_plane
from dw_runtime.node.asking import join_asking
from dw_runtime.node.node import Node
from dw_runtime.process.role import Application
from dw_runtime.settings import Settings


class ApiIngressRole:
    """The role as ``dw_runtime.process`` runs it."""

    def __init__(self, settings: Settings) -> None:
        self._node = Node(settings, "api-ingress")
        self.app: Application = self._node.serve(control_plane(self._node, join_asking(self._node)), {})

    async def startup(self) -> None:
        """Open the stores and start the pump."""
        await self._node.open()

    async def drain(self) -> None:
        """Not ready any more; requests in flight finish."""
        await self._node.drain()

    async def shutdown(self) -> None:
        """Finish the pump, close the stores."""
        await self._node.close()


def build(settings: Settings) -> ApiIngressRole:
    """Build the role; raises ``SettingsError`` for an illegal configuration."""
    return ApiIngressRole(settings)
