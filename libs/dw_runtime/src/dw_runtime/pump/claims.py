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
from dw_runtime.store.database import Row, Session
from dw_runtime.store.loading import encode_rows
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
    """A task leased to a poll, with what its worker needs: ``history`` is a JSON fragment of the first page."""

    task: Task
    run: Run
    activity: Activity | None
    arguments: str | None
    history: str | None


class Waiters(Protocol):
    """Who holds polls in this process."""

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        """The polls that are waiting on these queues."""

    def take_idle(self, key: WakeKey, task_type: str, compatibility: str | None) -> Want | None:
        """The first poll that may take such a task without a look at its queue, which is known to be empty for it."""

    def unchecked(self) -> list[str]:
        """Request ids of held polls that have not been compared with earlier leases yet."""

    def checked(self, request_ids: Iterable[str], repeated: Iterable[str]) -> None:
        """These ids have been compared; ``repeated`` hold leases, which their polls must be given."""

    def settle(
        self, wants: Sequence[Want], granted: Sequence[tuple[Want, Claimed]], leftover: set[WakeKey], *, looked: bool
    ) -> None:
        """The transaction has ended. ``granted`` are committed leases; ``leftover`` queues still have ready tasks
        whose runs were busy; ``looked`` is False when the transaction failed and nothing was learned."""

    def wake(self, key: WakeKey) -> None:
        """A queue has ready tasks now."""

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        """A task of this queue becomes due in ``seconds``."""


class ClaimResult(msgspec.Struct):
    """What one claiming pass found; delivered after the commit."""

    granted: list[tuple[Want, Claimed]] = []
    leftover: set[WakeKey] = set()


_decode_task = msgspec.json.Decoder(Task).decode
_decode_run = msgspec.json.Decoder(Run).decode
_decode_activity = msgspec.json.Decoder(Activity).decode


async def claim(session: Session, wants: Sequence[Want]) -> ClaimResult:
    """Lease ready tasks to the waiting polls, oldest first; polls that repeat an earlier one get its lease back."""
    result = ClaimResult()
    open_wants = await _restore_earlier(session, wants, result)
    groups: dict[object, list[Want]] = {}
    for want in open_wants:
        groups.setdefault((want.key, want.types, want.build_id, want.page_size), []).append(want)
    if not groups:
        return result
    pending = list(groups.values())
    wanted = encode_rows(_wanted(position, group) for position, group in enumerate(pending))
    grants = _Grants(pending, result)
    for row in await session.rows("pick_tasks", wanted):
        grants.add(row)
    if not grants.writes.is_empty:
        await grants.writes.write(session)
    return result


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
    }


async def _restore_earlier(session: Session, wants: Sequence[Want], result: ClaimResult) -> list[Want]:
    asked = {w.claimant.poll_request_id: w for w in wants if w.is_retry_unchecked and w.claimant.poll_request_id}
    if not asked:
        return list(wants)
    named = [
        {
            "namespace": w.key.namespace,
            "kind": w.key.kind,
            "queue": w.key.queue,
            "lease_owner": w.claimant.lease_owner,
            "poll_request_id": w.claimant.poll_request_id,
            "page_size": w.page_size,
        }
        for w in asked.values()
    ]
    served: set[int] = set()
    for row in await session.rows("find_polled", encode_rows(named)):
        claimed = _claimed(_decode_task(row[1]), _decode_run(row[2]), row)
        want = asked[claimed.task.poll_request_id or ""]
        if id(want) not in served:
            served.add(id(want))
            result.granted.append((want, claimed))
    return [w for w in wants if id(w) not in served]


def _claimed(task: Task, run: Run, row: Row) -> Claimed:
    activity = _decode_activity(row[4]) if row[4] else None
    arguments = activity.arguments if activity is not None else row[5]
    return Claimed(task=task, run=run, activity=activity, arguments=arguments, history=row[6])


class _Grants:
    """Matches locked tasks with the polls that asked for them, and collects what is written."""

    def __init__(self, pending: list[list[Want]], result: ClaimResult) -> None:
        self.writes = WriteSet()
        self._pending = pending
        self._result = result
        self._snapshots: dict[str, Snapshot] = {}
        self._taken: set[tuple[str, int]] = set()

    def add(self, row: Row) -> None:
        """One picked task. It stays ready when its run is busy or another poll of this pass has taken it."""
        now: datetime = row[0]
        task = _decode_task(row[1])
        group = self._pending[row[7]]
        task_key = (task.run_id, task.task_number)
        if row[2] is None or task_key in self._taken:
            self._result.leftover.add(WakeKey(task.namespace, task.kind, task.queue))
            return
        self._taken.add(task_key)
        want = group.pop(0)
        snapshot = self._snapshots.get(task.run_id)
        if snapshot is None:
            run = _decode_run(row[2])
            snapshot = self._snapshots[task.run_id] = _snapshot(run, has_leased_task=row[3])
        assert snapshot.run is not None
        snapshot.tasks[task.task_number] = task
        found = _claimed(task, snapshot.run, row)
        if found.activity is not None:
            snapshot.activities[task.activity_sequence] = found.activity
        transition = decide_claim(snapshot, task, want.claimant, now)
        self.writes.add(transition)
        snapshot.fold(transition)
        leased = transition.tasks[task.task_number]
        assert leased is not None, "a claim leaves the task open"
        self._result.granted.append((want, msgspec.structs.replace(found, task=leased, run=transition.run)))


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
