"""Noticing that the client of a held poll has gone away."""

from __future__ import annotations

import asyncio
from typing import Final

from dw_runtime.http.body import Receive

WATCH_AFTER_SECONDS: Final = 0.1
"""A poll that is answered sooner needs no watcher: most polls under load are."""


class HangupWatch:
    """Sets ``disconnected`` when the client hangs up; costs one timer, and one small task only if the poll is held."""

    __slots__ = ("_receive", "_task", "_timer", "disconnected")

    def __init__(self, receive: Receive) -> None:
        self.disconnected = asyncio.Event()
        self._receive = receive
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._start)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected.set()

    def close(self) -> None:
        """Stop watching; call it when the handler has answered."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
