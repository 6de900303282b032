"""Loops that run beside the requests of a process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Final

CANCEL_AGAIN_SECONDS: Final = 0.5
"""How long a loop that was cancelled may take to end before it is cancelled again."""


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended.

    It is told again until it has heard: before Python 3.12 ``wait_for`` may take a cancellation for the end of its
    time, and a task group gives one up that meets an error of a member.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(task, return_exceptions=True)


class Background(ABC):
    """A loop that runs from :meth:`start` to :meth:`stop`: a subclass says in ``_loop`` what it does.

    A process whose loop has ended is not alive any more, so ``_loop`` outlives every failure it expects. :meth:`stop`
    cancels it; a subclass that must finish what it has begun stops in its own way.
    """

    TASK_NAME: ClassVar[str]
    """What stack dumps call the loop."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run; there must be a running event loop."""
        self._task = asyncio.create_task(self._loop(), name=self.TASK_NAME)

    async def stop(self) -> None:
        """Stop, wherever it is."""
        if self._task is not None:
            await end_task(self._task)

    @property
    def is_alive(self) -> bool:
        """Whether the loop is running."""
        return self._task is not None and not self._task.done()

    @abstractmethod
    async def _loop(self) -> None:
        """What it does; it returns only when it has been told to stop."""
