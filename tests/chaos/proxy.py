"""A TCP proxy between the servers and a store, through which faults are injected."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class Proxy:
    """Forwards connections to :attr:`target` (host, port) from a free local :attr:`port`, until it is told not to.

    :meth:`cut` closes every connection at once; :meth:`cut_answers` forwards what the servers send and closes instead
    of passing the answer back, so that the outcome of a commit stays unknown; while :attr:`is_refusing` is set, new
    connections are closed at once and counted in :attr:`refused`.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._open: set[asyncio.Task[None]] = set()
        self._swallowing = 0
        self._server: asyncio.Server | None = None
        self.is_refusing = False
        self.refused = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.is_refusing = True
        self.cut()
        await asyncio.gather(*self._open)

    def cut(self) -> None:
        """Close every connection, whatever is under way."""
        for writer in list(self._writers):
            writer.transport.abort()

    def cut_answers(self, count: int) -> None:
        """Swallow the next ``count`` answers and close their connections."""
        self._swallowing = count

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            back, forth = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, forth}
        self._writers |= pair
        ways = self._pump(reader, forth, pair, is_answer=False), self._pump(back, writer, pair, is_answer=True)
        await asyncio.gather(*ways)
        self._writers -= pair

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pair: set[asyncio.StreamWriter],
        *,
        is_answer: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if is_answer and self._swallowing > 0:
                    self._swallowing -= 1
                    break
                writer.write(data)
                await writer.drain()
        for each in pair:
            each.transport.abort()
