"""TLS before a store of the tests, whose binaries come without it: what a client negotiates here is real."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from pathlib import Path

from tests.harness.certificates import Signed
from tests.harness.forwarding import Forwarder, copy

_SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)


def server_context(signed: Signed, clients: Path) -> ssl.SSLContext:
    """A server that shows ``signed`` and takes only clients that the authority in the file ``clients`` has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    context.load_verify_locations(clients)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsProxy(Forwarder):
    """Takes TLS on a free local :attr:`port` and forwards the content to ``host:port`` as it is.

    With ``is_postgres`` a client asks for TLS in the way of Postgres first, and is turned away when it does not.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, *, is_postgres: bool) -> None:
        super().__init__()
        self._target = (host, port)
        self._context = context
        self._is_postgres = is_postgres
        self.admitted = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
                [asyncio.ensure_future(copy(reader, forth)), asyncio.ensure_future(copy(back, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
