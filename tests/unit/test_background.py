"""Stopping a loop."""

from __future__ import annotations

import asyncio

from dw_runtime.process.background import Background


class Deaf(Background):
    """A loop that does not hear the first cancellation."""

    TASK_NAME = "deaf"
    cancelled = 0

    async def _loop(self) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if self.cancelled > 1:
                    raise


async def test_a_loop_that_takes_a_cancellation_for_something_else_is_told_again() -> None:
    loop = Deaf()
    loop.start()
    await asyncio.sleep(0)
    await loop.stop()
    assert (loop.cancelled, loop.is_alive) == (2, False)
