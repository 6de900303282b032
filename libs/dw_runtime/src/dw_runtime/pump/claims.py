"""Claiming tasks for held polls, inside a pump transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from dw_core.engine.claims import Claimant, decide_claim
from dw_core.engine.rows import Activity, Run, Task, TaskKind, TaskState
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import WakeKey
from dw_runtime.store.link import Call, Row, Rows
from dw_runtime.store.loading import encode_rows
from dw_runtime.store.pages import EMPTY, Page, read_page
from dw_runtime.store.writing import WriteSet


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """One held poll that would take a task now. ``types`` None takes any type; ``token`` is the broker's own handle."""

    key: WakeKey
    claimant: Claimant
    types: frozenset[str] | None
    build_id: str | None
    page_size: int
    is_retry_unchecked: bool
    token: object


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A task leased to a poll, with what its worker needs: ``history`` is the first page of a workflow task's."""

    task: Task
    run: Run
    activity: Activity | None
    arguments: str | None
    history: Page = EMPTY


class Waiters(Protocol):
    """Who holds polls in this process."""

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        """The polls that are waiting on these queues."""

    def take_idle(self, key: WakeKey, task_type: str, compatibility: str | None) -> Want | None:
        """The first poll that may take such a task without a look at its queue, which is known to be empty for it."""

    def unchecked(self) -> list[Claimant]:
        """The claimants of held polls that have not been compared with earlier leases yet."""

    def checked(self, claimants: Sequence[Claimant], repeated: Iterable[str]) -> None:
        """These have been compared; the request ids in ``repeated`` hold leases, which their polls must be given."""

    def settle(
        self, wants: Sequence[Want], granted: Sequence[tuple[Want, Claimed]], leftover: set[WakeKey], *, looked: bool
    ) -> None:
        """The transaction has ended. ``granted`` are committed leases; ``leftover`` queues still have ready tasks
        whose runs were busy; ``looked`` is False when the transaction failed and nothing was learned."""

    def wake(self, key: WakeKey) -> None:
        """A queue has ready tasks now."""

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        """A task of this queue becomes due in ``seconds``."""


class Claims:
    """One claiming pass: leases ready tasks to waiting polls, oldest first; polls that repeat an earlier one get that
    one's lease back.

    :attr:`calls` find candidates; :meth:`match` takes their rows and leaves ``granted``, ``leftover`` (queues whose
    ready tasks were passed over because their run was busy) and ``writes``.
    """

    def __init__(self, wants: Sequence[Want]) -> None:
        self.granted: list[tuple[Want, Claimed]] = []
        self.leftover: set[WakeKey] = set()
        self.writes = WriteSet()
        groups: dict[object, list[Want]] = {}
        for want in wants:
            groups.setdefault(_kind_of_want(want), []).append(want)
        self._pending = list(groups.values())
        self._asked = [want for want in wants if want.is_retry_unchecked and want.claimant.poll_request_id]
        self._snapshots: dict[str, Snapshot] = {}
        self._taken: set[tuple[str, int]] = set()

    @property
    def calls(self) -> list[Call]:
        """The statements whose rows :meth:`match` takes."""
        wanted = encode_rows(_wanted(position, group) for position, group in enumerate(self._pending))
        found: list[Call] = [("pick_tasks", wanted)]
        if self._asked:
            asked = encode_rows(_polled(position, want) for position, want in enumerate(self._asked))
            found.append(("find_polled", asked))
        return found

    def match(self, picked: Rows, polled: Rows = ()) -> None:
        """Give each poll at most one task.

        Workflow tasks go first: from then on what a claimed activity records is kept back, or the history that was read
        for its run's workflow task would lack it.
        """
        restored: set[int] = set()
        for row in polled:
            claimed = _claimed(_decode_task(row[1] or b""), _decode_run(row[2] or b""), row)
            want = self._asked[int(row[7] or b"0")]
            if id(want) not in restored:
                restored.add(id(want))
                self.granted.append((want, claimed))
        self._pending = [[want for want in group if id(want) not in restored] for group in self._pending]
        found = [(_decode_task(row[1] or b""), row) for row in picked]
        for task, row in sorted(found, key=lambda pair: pair[0].kind):
            self._grant(task, row)

    def _grant(self, task: Task, row: Row) -> None:
        """One picked task. It stays ready when its run is busy or another poll of this pass has taken it."""
        group = self._pending[int(row[7] or b"0")]
        task_key = (task.run_id, task.task_number)
        if row[2] is None or task_key in self._taken:
            self.leftover.add(WakeKey(task.namespace, task.kind, task.queue))
            return
        if not group:
            return
        self._taken.add(task_key)
        want = group.pop(0)
        snapshot = self._snapshots.get(task.run_id)
        if snapshot is None:
            snapshot = self._snapshots[task.run_id] = _snapshot(_decode_run(row[2]), has_leased_task=row[3] == b"true")
        assert snapshot.run is not None
        snapshot.tasks[task.task_number] = task
        found = _claimed(task, snapshot.run, row)
        if found.activity is not None:
            snapshot.activities[task.activity_sequence] = found.activity
        transition = decide_claim(snapshot, task, want.claimant, _decode_time(row[0] or b""))
        self.writes.add(transition)
        snapshot.fold(transition)
        leased = transition.tasks[task.task_number]
        assert leased is not None, "a claim leaves the task open"
        self.granted.append((want, msgspec.structs.replace(found, task=leased, run=transition.run)))


_decode_task = msgspec.json.Decoder(Task).decode
_decode_run = msgspec.json.Decoder(Run).decode
_decode_activity = msgspec.json.Decoder(Activity).decode
_decode_time = msgspec.json.Decoder(datetime).decode


def _kind_of_want(want: Want) -> tuple[object, ...]:
    return want.key, want.types, want.build_id, want.page_size, want.claimant.is_cooperative


def _wanted(position: int, group: list[Want]) -> dict[str, object]:
    first = group[0]
    return {
        "position": position,
        "namespace": first.key.namespace,
        "kind": first.key.kind,
        "queue": first.key.queue,
        "slots": len(group),
        "types": None if first.types is None else sorted(first.types),
        "build_id": first.build_id,
        "page_size": first.page_size,
        "is_cooperative": first.claimant.is_cooperative,
    }


def _polled(position: int, want: Want) -> dict[str, object]:
    return {
        "position": position,
        "namespace": want.key.namespace,
        "kind": want.key.kind,
        "queue": want.key.queue,
        "lease_owner": want.claimant.lease_owner,
        "poll_request_id": want.claimant.poll_request_id,
        "page_size": want.page_size,
    }


def _claimed(task: Task, run: Run, row: Row) -> Claimed:
    activity = _decode_activity(row[4]) if row[4] else None
    arguments = activity.arguments if activity is not None else (row[5] or b"").decode()
    return Claimed(task=task, run=run, activity=activity, arguments=arguments, history=read_page(row[6]))


def _snapshot(run: Run, *, has_leased_task: bool) -> Snapshot:
    """Claims need to know only whether events must be buffered; a stand-in task says so."""
    snapshot = Snapshot(run=run)
    if has_leased_task:
        snapshot.tasks[0] = Task(
            run_id=run.run_id,
            task_number=0,
            kind=TaskKind.WORKFLOW,
            namespace=run.namespace,
            queue=run.queue,
            task_type=run.workflow_type,
            state=TaskState.LEASED,
            available_at=run.started_at,
            created_at=run.started_at,
        )
    return snapshot
