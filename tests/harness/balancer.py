"""What a Service of a cluster is: one address whose new connections go to the replicas that are ready."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from tests.harness.forwarding import Forwarder, copy
from tests.harness.servers import Server


class Balancer(Forwarder):
    """Forwards each new connection to one of :attr:`targets` in turn; those that are open stay where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[Server] = []
        self._turn = itertools.count()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self.targets[next(self._turn) % len(self.targets)]
        back, forth = await asyncio.open_connection("127.0.0.1", target.port)
        with contextlib.closing(forth):
            await asyncio.gather(copy(reader, forth), copy(back, writer))
