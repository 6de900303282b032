"""Waiting for a fact instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PAUSE_SECONDS = 0.01


def wait_until(is_true: Callable[[], bool], fact: str, seconds: float = 15) -> None:
    """Return when ``is_true()`` holds; fail with the words of ``fact`` when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"Still not true after {seconds} s: {fact}.")
        time.sleep(PAUSE_SECONDS)


async def eventually(is_true: Callable[[], Awaitable[bool]], fact: str, seconds: float = 15) -> None:
    """The asynchronous :func:`wait_until`: return when ``await is_true()`` holds."""
    deadline = time.monotonic() + seconds
    while not await is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"Still not true after {seconds} s: {fact}.")
        await asyncio.sleep(PAUSE_SECONDS)
