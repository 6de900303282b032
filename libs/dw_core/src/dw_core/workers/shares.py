"""Fair shares of one queue: start-time fair queueing over fairness keys (worker-plane §7.6).

Each key of each priority has a share of the queue in proportion to its weight. A grant costs the share
``SHARE_STEP / weight`` of virtual time. The share that begins earliest is granted next; one that had nothing to ask for
begins at the queue's time, so that waiting in silence earns no credit. Tasks without a key form one share of weight 1.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime

import msgspec

from dw_core.engine.rows import Task

SHARE_STEP = 1_000_000
"""Virtual time that a grant of weight 1 takes; weights go up to 1,000 (control-plane §12)."""

TaskKey = tuple[str, int]


class ShareState(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a candidate's share: the end of its newest grant, and the queue's time; None: nothing yet."""

    share: str
    ends_at: int | None = None
    now_at: int | None = None


class Charge(msgspec.Struct, kw_only=True):
    """A share after its newest grant."""

    namespace: str
    queue: str
    kind: int
    priority: int
    share: str
    began_at: int
    ends_at: int


class FairQueue:
    """The candidates of one queue, given out in fair order: strictly by priority, within one by shares, then by age."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str], deque[Task]] = {}
        self._ends_at: dict[tuple[int, str], int] = {}
        self._now_at: dict[int, int] = {}
        self._known: set[TaskKey] = set()
        self.charges: dict[tuple[int, str], Charge] = {}

    def add(self, task: Task, state: ShareState) -> None:
        """A candidate; those of one share come in order of age. One that is known already is ignored."""
        if (task.run_id, task.task_number) in self._known:
            return
        self._known.add((task.run_id, task.task_number))
        key = (task.priority, state.share)
        waiting = self._waiting.setdefault(key, deque())
        waiting.append(task)
        if len(waiting) > 1 and _age(waiting[-2]) > _age(task):
            self._waiting[key] = deque(sorted(waiting, key=_age))
        self._ends_at.setdefault(key, state.ends_at or 0)
        self._now_at.setdefault(task.priority, state.now_at or 0)

    def next(self) -> tuple[Task, str] | None:
        """The candidate that is due next, with its share; it leaves the queue."""
        if not self._waiting:
            return None
        key = min(self._waiting, key=lambda key: (key[0], self._begins_at(key), _age(self._waiting[key][0])))
        waiting = self._waiting[key]
        task = waiting.popleft()
        if not waiting:
            del self._waiting[key]
        return task, key[1]

    def charge(self, task: Task, share: str) -> None:
        """The candidate has been granted."""
        key = (task.priority, share)
        began_at = self._begins_at(key)
        weight = task.fairness_weight if share else 1
        self._now_at[task.priority] = began_at
        self._ends_at[key] = began_at + SHARE_STEP // weight
        self.charges[key] = Charge(
            namespace=task.namespace,
            queue=task.queue,
            kind=task.kind,
            priority=task.priority,
            share=share,
            began_at=began_at,
            ends_at=self._ends_at[key],
        )

    def _begins_at(self, key: tuple[int, str]) -> int:
        return max(self._ends_at[key], self._now_at[key[0]])


def _age(task: Task) -> tuple[datetime, str, int]:
    return task.available_at, task.run_id, task.task_number
