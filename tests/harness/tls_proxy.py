"""TLS before a store of the tests, whose binaries come without it: what a client negotiates here is real."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from pathlib import Path
from typing import Self

from tests.harness.certificates import Signed

_SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)
_CHUNK_BYTES = 65_536


def server_context(signed: Signed, clients: Path) -> ssl.SSLContext:
    """A server that shows ``signed`` and takes only clients that the authority in the file ``clients`` has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    context.load_verify_locations(clients)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsProxy:
    """Takes TLS on a free local :attr:`port` and forwards the content to ``host:port`` as it is.

    With ``is_postgres`` a client asks for TLS in the way of Postgres first, and is turned away when it does not.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, *, is_postgres: bool) -> None:
        self._target = (host, port)
        self._context = context
        self._is_postgres = is_postgres
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        self.admitted = 0

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
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self._is_postgres:
                if await reader.readexactly(len(_SSL_REQUEST)) != _SSL_REQUEST:
                    return
                writer.write(b"S")
                await writer.drain()
            await writer.start_tls(self._context)
            self.admitted += 1
            back, forth = await asyncio.open_connection(*self._target)
            with contextlib.closing(forth):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(_copy(reader, forth)),
                        asyncio.ensure_future(_copy(back, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
