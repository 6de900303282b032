"""Noticing that the client of a held poll has gone away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from dw_runtime.http.body import Receive

WATCH_AFTER_SECONDS: Final = 0.1
"""A poll that is answered sooner needs no watcher: most polls under load are."""


class HangupWatch:
    """Calls back when the client hangs up; costs one timer, and one small task only if the poll is held."""

    __slots__ = ("_callback", "_receive", "_task", "_timer")

    def __init__(self, receive: Receive) -> None:
        self._callback: Callable[[], None] | None = None
        self._receive = receive
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._start)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._callback is not None:
            self._callback()

    def notify(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called once, in the event loop, when the client hangs up before it is answered."""
        self._callback = callback

    def close(self) -> None:
        """Stop watching; call it when the handler has answered."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
