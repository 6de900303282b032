"""How many requests a namespace may make: per minute, and at a time (control-plane §3, check 7)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from dw_core.protocol.problems import Problem

MINUTE: Final = 60.0
NAMESPACES_MAX: Final = 10_000
"""Namespaces that are counted at a time; the one that was quiet longest is forgotten first."""
BUSY_RETRY_SECONDS: Final = 1


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of each namespace on one process; None is no limit."""

    per_minute: int | None = None
    at_a_time: int | None = None


class _Use(msgspec.Struct):
    minute: int = 0
    requests: int = 0
    running: int = 0


class RequestAdmission:
    """Counts the requests of namespaces on this process. ``clock`` gives seconds since the epoch.

    A process counts for itself: behind a gateway that spreads requests evenly, n processes admit n times as much.
    """

    def __init__(self, limits: RequestLimits, clock: Callable[[], float] = time.time) -> None:
        self._limits = limits
        self._clock = clock
        self._uses: OrderedDict[str, _Use] = OrderedDict()

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self._limits != RequestLimits()

    @contextmanager
    def admitted(self, namespace: str) -> Iterator[None]:
        """Count one request while it runs; raises ``Problem`` when the namespace has used up a limit."""
        use = self._use(namespace)
        now = self._clock()
        minute = int(now // MINUTE)
        if use.minute != minute:
            use.minute, use.requests = minute, 0
        limits = self._limits
        if limits.per_minute is not None and use.requests >= limits.per_minute:
            left = max(1, round((minute + 1) * MINUTE - now))
            raise _exhausted("namespace_request_rate_exhausted", namespace, limits.per_minute, left)
        if limits.at_a_time is not None and use.running >= limits.at_a_time:
            raise _exhausted("namespace_request_concurrency_exhausted", namespace, limits.at_a_time, BUSY_RETRY_SECONDS)
        use.requests += 1
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def _use(self, namespace: str) -> _Use:
        use = self._uses.setdefault(namespace, _Use())
        self._uses.move_to_end(namespace)
        if len(self._uses) > NAMESPACES_MAX:
            self._uses.popitem(last=False)
        return use


def _exhausted(reason: str, namespace: str, limit: int, seconds: int) -> Problem:
    return Problem(
        reason,
        f"Namespace [{namespace}] has used up its {limit} requests; retry in {seconds} s.",
        namespace=namespace,
        limit=limit,
        retryable=True,
        retry_after_seconds=seconds,
    )
