"""What the caps on leases and dispatches leave, and what fair shares have been granted, within one claiming pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from dw_core.workers.shares import Charge
from dw_runtime.pump.session_rooms import Member, sessions_lock
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call

if TYPE_CHECKING:
    from dw_runtime.pump.claims import Want

Scope = tuple[str, ...]


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue has used of its caps; None where there is no cap. ``dispatched`` is by scope, in this minute.

    ``is_shared`` and ``is_sessioned`` say that tasks with a fairness key and activities of sessions wait there;
    ``members`` are the workers that may take the latter."""

    queue_leases: int | None = None
    namespace_leases: int | None = None
    dispatched: dict[str, int] | None = None
    is_shared: bool = False
    is_sessioned: bool = False
    members: list[Member] | None = None


class Budget:
    """Counts down what the caps leave. It is exact, because the queues are locked until the leases are committed."""

    def __init__(self) -> None:
        self.charges: list[Charge] = []
        self._left: dict[Scope, int] = {}
        self._dispatched: Counter[tuple[str, int, str]] = Counter()

    def note(self, want: Want, used: Used) -> None:
        """The queue of this poll has used so much."""
        for scope, left in _left(want, used):
            self._left[scope] = min(left, self._left.get(scope, left))

    def has_room(self, want: Want) -> bool:
        """Whether no cap of its queue keeps this poll from a task."""
        return all(self._left.get(scope, 1) > 0 for scope, _ in _left(want, Used()))

    def take(self, want: Want) -> None:
        """This poll has been granted a task."""
        for scope, _ in _left(want, Used()):
            if scope in self._left:
                self._left[scope] -= 1
        if want.limits is not None:
            for name in want.limits.budgets(want.key.queue):
                self._dispatched[want.key.namespace, want.key.kind, name] += 1

    def calls(self) -> list[Call]:
        """The statements that write what has been granted."""
        calls: list[Call] = []
        if self.charges:
            calls.append(("charge_shares", encode_rows(self.charges)))
        if self._dispatched:
            counted = (
                {"namespace": namespace, "kind": kind, "scope": scope, "dispatched": count}
                for (namespace, kind, scope), count in sorted(self._dispatched.items())
            )
            calls.append(("count_dispatches", encode_rows(counted)))
        return calls


def _left(want: Want, used: Used) -> Iterator[tuple[Scope, int]]:
    """Every scope in which the queue of a poll is capped, with what is left of the cap."""
    limits, key = want.limits, want.key
    if limits is None:
        return
    within = (key.namespace, key.kind.name)
    if limits.queue_leases_max is not None:
        yield ("leases", *within, key.queue), limits.queue_leases_max - (used.queue_leases or 0)
    if limits.namespace_leases_max is not None:
        yield ("leases", *within), limits.namespace_leases_max - (used.namespace_leases or 0)
    for name, cap in limits.budgets(key.queue).items():
        yield ("dispatches", *within, name), cap - (used.dispatched or {}).get(name, 0)


def lock_names(want: Want) -> Iterator[str]:
    """What holds other processes off the queue of a poll; caps of a namespace need the whole namespace."""
    within = f"claims/{want.key.namespace}/{want.key.kind.name}"
    yield within if want.limits is not None else f"{within}/{want.key.queue}"
    if want.is_sessioned:
        yield sessions_lock(want.key.namespace)
