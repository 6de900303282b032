"""A listening address whose connections are forwarded elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Self

_CHUNK_BYTES = 65_536


class Forwarder(ABC):
    """Listens on a free local :attr:`port`; a subclass says in ``_serve`` what becomes of a connection."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

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
        task = asyncio.get_running_loop().create_task(self._served(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it is over."""


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until one side ends, which the other is told, if it can be told half of it."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
