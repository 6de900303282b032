"""What a refusal leaves unread of a body.

A connection that is closed while bytes wait in it is reset, and the reset overtakes the answer: the client, or the
gateway before us, learns nothing of why. So the answer goes first, and then the rest is taken and thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Final

from dw_runtime.http.body import BODY_SECONDS, Receive
from dw_runtime.http.headers import RawHeaders

DISCARD_BYTES_MAX: Final = 134_217_728
"""As much is thrown away; who sends more is cut off. It is twice the largest payload, and less work than the same bytes
as bodies of ordinary size, which are read and parsed before anybody is asked who they are."""

DISCARD_SECONDS: Final = BODY_SECONDS
"""How long that may take: no longer than a body that is wanted."""


class UnreadBody:
    """The messages of a body, and whether the last of them has come."""

    __slots__ = ("_receive", "is_over")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_over = False

    async def __call__(self) -> MutableMapping[str, Any]:
        """The next message."""
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.is_over = True
        return message

    async def discard(self) -> None:
        """Take what is left, in bounds of bytes and of time."""
        left = DISCARD_BYTES_MAX
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self.is_over and left > 0:
                    left -= len((await self()).get("body", b""))


def may_stay_unread(headers: RawHeaders, limit_bytes: int) -> bool:
    """Whether a body may be larger than what is read of it at once, ``limit_bytes``; chunks announce no length."""
    announced = headers.get(b"content-length")
    if announced is None:
        return b"transfer-encoding" in headers
    return announced.isdigit() and int(announced) > limit_bytes
