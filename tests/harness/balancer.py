"""What a Service of a cluster is: one address whose new connections go to the replicas that are ready."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Self

from tests.harness.servers import Server

_CHUNK_BYTES = 65_536


class Balancer:
    """Forwards each new connection to one of :attr:`targets` in turn; those that are open stay where they are."""

    def __init__(self) -> None:
        self.targets: list[Server] = []
        self.port = 0
        self._turn = itertools.count()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self.targets[next(self._turn) % len(self.targets)]
        with contextlib.closing(writer), contextlib.suppress(OSError):
            back, forth = await asyncio.open_connection("127.0.0.1", target.port)
            with contextlib.closing(forth):
                await asyncio.gather(_copy(reader, forth), _copy(back, writer))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until one side ends, which the other is told."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
        sink.write_eof()
