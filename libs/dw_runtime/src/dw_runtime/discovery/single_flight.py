"""A value that is evaluated once for everybody who asks, and kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Caches ``evaluate()`` for ``fresh_seconds``; ``clock`` gives monotonic seconds.

    An evaluation that raises leaves the old value in place and raises for those who waited for it.
    """

    __slots__ = ("_clock", "_evaluate", "_evaluated_at", "_flight", "fresh_seconds", "value")

    def __init__(
        self,
        evaluate: Callable[[], Awaitable[T]],
        fresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.value: T | None = None
        self.fresh_seconds = fresh_seconds
        self._evaluate = evaluate
        self._evaluated_at = float("-inf")
        self._clock = clock
        self._flight: asyncio.Task[T] | None = None

    def age_seconds(self) -> float:
        """Seconds since the value was evaluated; infinite before the first time."""
        return self._clock() - self._evaluated_at

    def start(self) -> asyncio.Task[T]:
        """The evaluation under way, or a new one."""
        if self._flight is None:
            self._flight = asyncio.get_running_loop().create_task(self._fly())
        return self._flight

    async def fresh(self) -> T:
        """The cached value while it is fresh, else a new one."""
        if self.age_seconds() < self.fresh_seconds:
            value = self.value
            assert value is not None, "a finite age means the value was set"
            return value
        # Shielded: one caller that goes away must not cancel the evaluation for the others.
        return await asyncio.shield(self.start())

    async def _fly(self) -> T:
        try:
            self.value = await self._evaluate()
            self._evaluated_at = self._clock()
            return self.value
        finally:
            self._flight = None


class SingleFlights(Generic[T]):
    """One :class:`SingleFlight` of each name; the ``kept_max`` that were asked for last are remembered."""

    def __init__(
        self, evaluate: Callable[[str], Awaitable[T]], fresh_seconds: float = 0.0, *, kept_max: int = 64
    ) -> None:
        self._evaluate = evaluate
        self._fresh_seconds = fresh_seconds
        self._kept_max = kept_max
        self._flights: OrderedDict[str, SingleFlight[T]] = OrderedDict()

    def of(self, name: str) -> SingleFlight[T]:
        """The value of ``name``, evaluated or not."""
        known = self._flights.get(name)
        if known is None:
            known = self._flights[name] = SingleFlight(lambda: self._evaluate(name), self._fresh_seconds)
            if len(self._flights) > self._kept_max:
                self._flights.popitem(last=False)
        self._flights.move_to_end(name)
        return known

    async def get(self, name: str) -> T:
        """The value of ``name`` while it is fresh, else a new one."""
        return await self.of(name).fresh()
