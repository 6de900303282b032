"""A keep-alive HTTP/1.1 client that costs as little processor time as Python allows."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length:"


class Refused(Exception):
    """The server answered a request with a status other than 2xx, or in a way this client does not read."""


class Connection(asyncio.Protocol):
    """One connection with at most one request in flight. It reads answers that carry a content length."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_start = 0
        self._body_end = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._is_lost = False

    @classmethod
    async def open(cls, url: str) -> Connection:
        """Connect to the server of ``url``, of which only host and port count."""
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None, "the URL names host and port"
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, parts.hostname, parts.port)
        return connection

    async def send(self, head: bytes, body: bytes) -> bytes:
        """Send one request and return the body of its answer.

        ``head`` is everything from the request line to the last header, without the content length. Raises
        :class:`Refused` when the status is not 2xx, and ``ConnectionError`` when the connection ends.
        """
        assert self._answer is None, "a request is in flight on this connection"
        if self._transport is None or self._is_lost:
            raise ConnectionError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body))
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        """Close the connection; a request in flight ends with ``ConnectionError``."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if not self._body_end and not self._read_head():
            return
        if len(buffer) < self._body_end:
            return
        status, body = buffer[9:12], bytes(buffer[self._body_start : self._body_end])
        del buffer[: self._body_end]
        self._body_end = 0
        if self._answer is None or self._answer.done():
            return
        if status[:1] == b"2":
            self._answer.set_result(body)
        else:
            self._answer.set_exception(Refused(f"{status.decode()}: {body[:400].decode(errors='replace')}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    def _read_head(self) -> bool:
        """Find where the body begins and ends; False while the head is incomplete."""
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return False
        head = bytes(self._buffer[:end]).lower()
        at = head.find(LENGTH)
        if at < 0:
            raise Refused(f"an answer without a content length: {head.decode(errors='replace')}")
        line_end = head.find(b"\r\n", at)
        length = int(head[at + len(LENGTH) : line_end if line_end > 0 else end])
        self._body_start = end + len(HEAD_END)
        self._body_end = self._body_start + length
        return True


def request_head(method: str, path: str, url: str, headers: dict[str, str]) -> bytes:
    """The constant part of a request: its first line, the host and ``headers``."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n").encode()
