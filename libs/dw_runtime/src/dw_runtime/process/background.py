"""Loops that run beside the requests of a process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar


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
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_alive(self) -> bool:
        """Whether the loop is running."""
        return self._task is not None and not self._task.done()

    @abstractmethod
    async def _loop(self) -> None:
        """What it does; it returns only when it has been told to stop."""
