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
from dw_core.limits import HISTORY_PAGE_SIZE_MAX
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

    def deliver(self, want: Want, claimed: Claimed) -> None:
        """A task has been committed to this poll."""

    def probed(self, keys: Iterable[WakeKey], leftover: set[WakeKey]) -> None:
        """The queues have been looked at; ``leftover`` may still have ready tasks that were passed over."""


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
    by_key: dict[WakeKey, list[Want]] = {}
    for want in open_wants:
        by_key.setdefault(want.key, []).append(want)
    if not by_key:
        return result
    rows = await session.rows("pick_tasks", encode_rows(map(_wanted, by_key.values())), _page_size(open_wants))
    writes = WriteSet()
    snapshots: dict[str, Snapshot] = {}
    for row in rows:
        _grant(row, by_key, snapshots, writes, result)
    if result.granted and not writes.is_empty:
        await writes.write(session)
    return result


def _page_size(wants: Sequence[Want]) -> int:
    return min(max(want.page_size for want in wants), HISTORY_PAGE_SIZE_MAX)


def _wanted(wants: list[Want]) -> dict[str, object]:
    key = wants[0].key
    types: set[str] | None = set()
    for want in wants:
        types = None if types is None or want.types is None else types | want.types
    return {
        "namespace": key.namespace,
        "kind": key.kind,
        "queue": key.queue,
        "slots": len(wants),
        "types": None if types is None else sorted(types),
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
        }
        for w in asked.values()
    ]
    served: set[int] = set()
    for row in await session.rows("find_polled", encode_rows(named), _page_size(wants)):
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


def _grant(
    row: Row,
    by_key: dict[WakeKey, list[Want]],
    snapshots: dict[str, Snapshot],
    writes: WriteSet,
    result: ClaimResult,
) -> None:
    """Match one locked task with the first poll that may take it. A task whose run is busy stays ready."""
    now: datetime = row[0]
    task = _decode_task(row[1])
    key = WakeKey(task.namespace, task.kind, task.queue)
    if row[2] is None:
        result.leftover.add(key)
        return
    want = next((w for w in by_key.get(key, ()) if _fits(w, task)), None)
    if want is None:
        return
    by_key[key].remove(want)
    snapshot = snapshots.get(task.run_id)
    if snapshot is None:
        snapshot = snapshots[task.run_id] = _snapshot(_decode_run(row[2]), has_leased_task=row[3])
    assert snapshot.run is not None
    snapshot.tasks[task.task_number] = task
    claimed_before = _claimed(task, snapshot.run, row)
    if claimed_before.activity is not None:
        snapshot.activities[task.activity_sequence] = claimed_before.activity
    transition = decide_claim(snapshot, task, want.claimant, now)
    writes.add(transition)
    snapshot.fold(transition)
    leased = transition.tasks[task.task_number]
    assert leased is not None
    result.granted.append((want, msgspec.structs.replace(claimed_before, task=leased, run=transition.run)))


def _fits(want: Want, task: Task) -> bool:
    """A pinned task goes only to its build; an unpinned one to any (worker-plane §7.6)."""
    type_fits = want.types is None or task.task_type in want.types
    return type_fits and (task.compatibility is None or task.compatibility == want.build_id)


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
