"""What the passes that operators run by hand look at (control-plane §22)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from dw_core.engine.inputs import SweepTask
from dw_core.engine.rows import TaskKind
from dw_core.ids import execution_id, task_id
from dw_runtime.store.database import Database

TASKS_SCANNED_MAX: Final = 10_000
"""Due tasks that one look takes into account, whatever their namespace."""


class ExpiredActivity(NamedTuple):
    """An activity past a deadline, and the task that must be looked at again."""

    run_id: str
    sequence: int
    task_number: int

    @property
    def execution_id(self) -> str:
        """Its public id."""
        return execution_id(self.run_id, self.sequence)

    def to_input(self) -> SweepTask:
        """What the pump is asked to look at again."""
        return SweepTask(run_id=self.run_id, task_number=self.task_number, activity_sequence=self.sequence)


class NamedActivity(NamedTuple):
    """An activity that was asked for by its id; ``task_number`` None when it has no open task."""

    run_id: str
    sequence: int
    status: str
    is_run_closed: bool
    task_number: int | None


class RepairCandidate(NamedTuple):
    """A task that a repair pass offers again: its lease has run out, or nobody has taken it for too long."""

    run_id: str
    task_number: int
    activity_sequence: int
    kind: int
    queue: str
    is_expired: bool

    @property
    def task_id(self) -> str:
        """The public id of the task."""
        return task_id(self.run_id, self.task_number)

    @property
    def task_kind(self) -> TaskKind:
        """Which queue family it belongs to."""
        return TaskKind(self.kind)

    def to_input(self) -> SweepTask:
        """What the pump is asked to look at again."""
        return SweepTask(
            run_id=self.run_id, task_number=self.task_number, activity_sequence=self.activity_sequence or 0
        )


class PassReads:
    """Finds what a pass would work on; whether it does is decided under the lock of each run."""

    def __init__(self, database: Database, *, redispatch_after_seconds: int) -> None:
        self._database = database
        self._redispatch_after = float(redispatch_after_seconds)

    async def expired(self, namespace: str, limit: int) -> list[ExpiredActivity]:
        """The activities that are longest past a deadline."""
        rows = await self._database.read("find_expired_activities", namespace, limit, TASKS_SCANNED_MAX)
        return [ExpiredActivity(*row) for row in rows]

    async def named(self, namespace: str, names: Sequence[tuple[str, int]]) -> dict[tuple[str, int], NamedActivity]:
        """The activities with these runs and workflow sequences, as far as the namespace has them."""
        asked = [{"run_id": run_id, "sequence": sequence} for run_id, sequence in names]
        rows = await self._database.read("find_activities", namespace, msgspec.json.encode(asked).decode())
        return {(row[0], row[1]): NamedActivity(*row) for row in rows}

    async def begin_repair(self, namespace: str, holder: str, seconds: float, *, respects_throttle: bool) -> bool:
        """Whether a repair pass may begin; it is stamped, for all processes."""
        name = f"repair-pass:{namespace}"
        return bool(await self._database.rows("begin_repair_pass", name, holder, seconds, respects_throttle))

    async def candidates(
        self, namespace: str, limit: int, *, run_ids: Sequence[str] | None, workflow_id: str | None, queue: str | None
    ) -> list[RepairCandidate]:
        """Tasks to offer again, one per queue and build in turn."""
        listed = None if run_ids is None else msgspec.json.encode(run_ids).decode()
        scope = (namespace, self._redispatch_after, limit, TASKS_SCANNED_MAX, listed, workflow_id, queue)
        return [RepairCandidate(*row) for row in await self._database.read("find_repair_candidates", *scope)]
