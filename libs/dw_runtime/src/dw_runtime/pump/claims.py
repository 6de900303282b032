"""Claiming tasks for held polls, inside a pump transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from dw_core.engine.claims import Claimant, decide_claim
from dw_core.engine.rows import Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.sessions.admission import Admission
from dw_core.sessions.session import Session
from dw_core.workers.admission import QueueLimits
from dw_core.workers.shares import FairQueue, ShareState
from dw_runtime.pump.budgets import Budget, Used, lock_names
from dw_runtime.pump.session_rooms import Found, SessionRooms
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call, Row, Rows
from dw_runtime.store.pages import EMPTY, Page, read_page
from dw_runtime.store.writing import WriteSet

Owner = tuple[str, TaskKind, str]
"""A worker's leases of one kind: namespace, kind, worker id."""

LEASES_UNLIMITED = 2**31 - 1


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """One held poll that would take a task now. ``types`` None takes any type; ``token`` is the broker's own handle.

    ``leases_max`` caps the leases of its worker, ``limits`` those of its queue; ``is_shared`` when fairness keys are in
    use there. ``capabilities`` and ``sessions_max`` are those of its worker; ``is_sessioned`` when activities of worker
    sessions wait on its queue.
    """

    key: WakeKey
    claimant: Claimant
    types: frozenset[str] | None
    build_id: str | None
    page_size: int
    is_retry_unchecked: bool
    token: object
    leases_max: int = LEASES_UNLIMITED
    limits: QueueLimits | None = None
    is_shared: bool = False
    capabilities: frozenset[str] = frozenset()
    sessions_max: int = 0
    is_sessioned: bool = False

    @property
    def owner(self) -> Owner:
        """Whose leases a grant counts among."""
        return self.key.namespace, self.key.kind, self.claimant.lease_owner

    @property
    def is_guarded(self) -> bool:
        """Whether its queue may be claimed from only while other processes are held off."""
        return self.is_shared or self.is_sessioned or self.limits is not None


class Looked(msgspec.Struct, kw_only=True):
    """What a transaction has learned about the queues it looked at.

    ``leftover`` still have ready tasks whose runs were busy, or must be looked at in another way; on ``shared`` ones
    fairness keys are in use, on ``sessioned`` ones worker sessions; ``throttled`` are the tokens of polls that a cap
    kept from a task; ``rooms`` has how many more leases each worker may hold.
    """

    leftover: set[WakeKey] = msgspec.field(default_factory=set)
    shared: set[WakeKey] = msgspec.field(default_factory=set)
    sessioned: set[WakeKey] = msgspec.field(default_factory=set)
    throttled: list[object] = msgspec.field(default_factory=list)
    rooms: dict[Owner, int] = msgspec.field(default_factory=dict)


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A task leased to a poll, with what its worker needs: ``history`` is the first page of a workflow task's.

    ``session`` is the worker session of an activity, which its worker has been admitted to with ``session_outcome``.
    """

    task: Task
    run: Run
    activity: Activity | None
    arguments: str | None
    history: Page = EMPTY
    session: Session | None = None
    session_outcome: str | None = None


class Waiters(Protocol):
    """Who holds polls in this process."""

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        """The polls that are waiting on these queues."""

    def take_idle(self, task: Task) -> Want | None:
        """The first poll that may take this task without a look at its queue, which is known to be empty for it."""

    def unchecked(self) -> list[Claimant]:
        """The claimants of held polls that have not been compared with earlier leases yet."""

    def checked(self, claimants: Sequence[Claimant], repeated: Iterable[str]) -> None:
        """These have been compared; the request ids in ``repeated`` hold leases, which their polls must be given."""

    def settle(self, wants: Sequence[Want], granted: Sequence[tuple[Want, Claimed]], looked: Looked | None) -> None:
        """The transaction has ended. ``granted`` are committed leases; ``looked`` is None when the transaction failed
        and nothing was learned."""

    def wake(self, key: WakeKey) -> None:
        """A queue has ready tasks now."""

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        """A task of this queue becomes due in ``seconds``."""


class Claims:
    """One claiming pass: leases ready tasks to waiting polls, in order; polls that repeat an earlier one get that one's
    lease back.

    :attr:`calls` find candidates; :meth:`match` takes their rows and leaves ``granted``, ``looked`` and what
    :meth:`writes` has to write.
    """

    def __init__(self, wants: Sequence[Want]) -> None:
        self.granted: list[tuple[Want, Claimed]] = []
        self.looked = Looked()
        self._writes = WriteSet()
        groups: dict[object, list[Want]] = {}
        for want in wants:
            fit = (
                want.key,
                want.types,
                want.build_id,
                want.page_size,
                want.is_guarded,
                want.is_sessioned,
                want.claimant.is_cooperative,
            )
            groups.setdefault(fit, []).append(want)
        self._pending = list(groups.values())
        self._asked = [want for want in wants if want.is_retry_unchecked and want.claimant.poll_request_id]
        self._budget = Budget()
        self._sessions = SessionRooms()
        self._snapshots: dict[str, Snapshot] = {}
        self._taken: set[tuple[str, int]] = set()

    @property
    def calls(self) -> list[Call]:
        """The statements whose rows :meth:`match` takes."""
        found: list[Call] = []
        guarded = [position for position, group in enumerate(self._pending) if group[0].is_guarded]
        plain = [position for position, group in enumerate(self._pending) if not group[0].is_guarded]
        if guarded:
            names = {name for position in guarded for name in lock_names(self._pending[position][0])}
            found.append(("lock_queues", encode_rows(sorted(names))))
        for statement, positions in (("pick_tasks", plain), ("pick_shared_tasks", guarded)):
            if positions:
                found.append((statement, encode_rows(_wanted(p, self._pending[p]) for p in positions)))
        if self._asked:
            asked = encode_rows(_polled(position, want) for position, want in enumerate(self._asked))
            found.append(("find_polled", asked))
        return found

    def match(self, *found: Rows) -> None:
        """Give each poll at most one task; ``found`` are the rows of :attr:`calls`.

        Workflow tasks go first: from then on what a claimed activity records is kept back, or the history that was read
        for its run's workflow task would lack it.
        """
        picked = list(found)
        if self._asked:
            self._restore(picked.pop())
        rows = [row for statement in picked for row in statement if len(row) > 1]
        for row in rows:
            if row[1] is None:
                self._note(row)
        candidates = [(_decode_task(row[1]), row) for row in rows if row[1] is not None]
        for kind in (TaskKind.WORKFLOW, TaskKind.ACTIVITY):
            of_kind = [(task, row) for task, row in candidates if task.kind is kind]
            for task, row in of_kind:
                if row[9] is None:
                    self._grant(task, [row])
            self._grant_fairly([(task, row) for task, row in of_kind if row[9] is not None])
        self._note_throttled()

    def writes(self) -> list[Call]:
        """The statements that write what has been granted."""
        return [
            *([] if self._writes.is_empty else self._writes.calls()),
            *self._budget.calls(),
            *self._sessions.calls(),
        ]

    def _restore(self, polled: Rows) -> None:
        """Polls that repeat one which was granted a lease get that lease."""
        restored: set[int] = set()
        for row in polled:
            claimed = _claimed(_decode_task(row[1] or b""), _decode_run(row[2] or b""), row)
            if row[8]:
                claimed = msgspec.structs.replace(claimed, session=_decode_session(row[8]))
            want = self._asked[int(row[7] or b"0")]
            if id(want) not in restored:
                restored.add(id(want))
                self.granted.append((want, claimed))
        self._pending = [[want for want in group if id(want) not in restored] for group in self._pending]

    def _note(self, row: Row) -> None:
        """What a want's own row says: the rooms of its workers, and how its queue has to be looked at."""
        group = self._pending[int(row[7] or b"0")]
        if not group:
            return
        first = group[0]
        for owner, room in zip(_owners(group), msgspec.json.decode(row[8] or b"[]", type=list[int]), strict=False):
            key = (first.key.namespace, first.key.kind, owner)
            self.looked.rooms[key] = min(room, self.looked.rooms.get(key, room))
        used = msgspec.json.decode(row[9] or b"{}", type=Used)
        if used.is_shared:
            self.looked.shared.add(first.key)
        if used.is_sessioned:
            self.looked.sessioned.add(first.key)
        if first.is_guarded:
            self._budget.note(first, used)
            self._sessions.note(first.key.namespace, used.members or [])
        if (used.is_shared and not first.is_guarded) or (used.is_sessioned and not first.is_sessioned):
            self.looked.leftover.add(first.key)

    def _grant_fairly(self, candidates: Sequence[tuple[Task, Row]]) -> None:
        queues: dict[WakeKey, FairQueue] = {}
        rows: dict[tuple[str, int], list[Row]] = {}
        for task, row in candidates:
            if task.session_id is not None:
                self._sessions.learn(task, msgspec.json.decode(row[9] or b"", type=Found))
            queue = queues.setdefault(WakeKey(task.namespace, task.kind, task.queue), FairQueue())
            queue.add(task, msgspec.json.decode(row[9] or b"", type=ShareState))
            rows.setdefault((task.run_id, task.task_number), []).append(row)
        for queue in queues.values():
            while (due := queue.next()) is not None:
                task, share = due
                if self._grant(task, rows[task.run_id, task.task_number]):
                    queue.charge(task, share)
            self._budget.charges += queue.charges.values()

    def _grant(self, task: Task, rows: Sequence[Row]) -> bool:
        """One picked task, for a poll of any of the wants whose ``rows`` picked it.

        It stays ready when its run is busy, another poll of this pass has taken it, or a cap is reached.
        """
        task_key = (task.run_id, task.task_number)
        if rows[0][2] is None or task_key in self._taken:
            self.looked.leftover.add(WakeKey(task.namespace, task.kind, task.queue))
            return False
        for row in rows:
            group = self._pending[int(row[7] or b"0")]
            want, admission = self._choose(task, group, _decode_time(row[0] or b""))
            if want is not None:
                self._taken.add(task_key)
                group.remove(want)
                self._lease(task, want, row, admission)
                return True
        if task.session_id is not None and (self._taken or self._sessions.is_busy(task)):
            # What this pass has granted of the session, or the holder of its lock, has kept the task back.
            self.looked.leftover.add(WakeKey(task.namespace, task.kind, task.queue))
        return False

    def _choose(self, task: Task, group: Sequence[Want], now: datetime) -> tuple[Want | None, Admission | None]:
        """The first poll with room; one of the worker that a task is reserved for comes first, and an activity of a
        session is for a worker that is admitted to it."""
        able = [want for want in group if self._has_room(want)]
        if task.session_id is not None:
            return self._choose_holder(task, able, now)
        if task.reserved_for is None or task.reserved_until is None:
            return (able[0] if able else None), None
        known = next((want for want in able if want.claimant.lease_owner == task.reserved_for), None)
        return known or (able[0] if able and task.reserved_until <= now else None), None

    def _choose_holder(self, task: Task, able: Sequence[Want], now: datetime) -> tuple[Want | None, Admission | None]:
        for want in () if self._sessions.is_busy(task) else able:
            admission = self._sessions.admit(task, want, now)
            if not isinstance(admission, Rejection):
                return want, admission
        return None, None

    def _has_room(self, want: Want) -> bool:
        return self.looked.rooms.get(want.owner, want.leases_max) > 0 and self._budget.has_room(want)

    def _lease(self, task: Task, want: Want, row: Row, admission: Admission | None) -> None:
        if want.owner in self.looked.rooms:
            self.looked.rooms[want.owner] -= 1
        self._budget.take(want)
        if admission is not None:
            self._sessions.take(task, want, admission)
        snapshot = self._snapshots.get(task.run_id)
        if snapshot is None:
            run = _decode_run(row[2] or b"")
            snapshot = self._snapshots[task.run_id] = _snapshot(run, has_leased_task=row[3] == b"true")
        assert snapshot.run is not None
        snapshot.tasks[task.task_number] = task
        found = _claimed(task, snapshot.run, row)
        if found.activity is not None:
            snapshot.activities[task.activity_sequence] = found.activity
        transition = decide_claim(snapshot, task, want.claimant, _decode_time(row[0] or b""))
        self._writes.add(transition)
        snapshot.fold(transition)
        leased = transition.tasks[task.task_number]
        assert leased is not None, "a claim leaves the task open"
        outcome, session = admission or (None, None)
        claimed = msgspec.structs.replace(
            found, task=leased, run=transition.run, session=session, session_outcome=outcome
        )
        self.granted.append((want, claimed))

    def _note_throttled(self) -> None:
        for group in self._pending:
            self.looked.throttled += [want.token for want in group if not self._has_room(want)]


_decode_task = msgspec.json.Decoder(Task).decode
_decode_run = msgspec.json.Decoder(Run).decode
_decode_activity = msgspec.json.Decoder(Activity).decode
_decode_session = msgspec.json.Decoder(Session).decode
_decode_time = msgspec.json.Decoder(datetime).decode


def _wanted(position: int, group: list[Want]) -> dict[str, object]:
    first = group[0]
    sessions = {
        want.claimant.lease_owner: {"capabilities": sorted(want.capabilities), "sessions_max": want.sessions_max}
        for want in group
        if want.is_sessioned
    }
    return {
        "position": position,
        "namespace": first.key.namespace,
        "kind": first.key.kind,
        "queue": first.key.queue,
        "owners": [
            {"lease_owner": owner, "polls": polls, "leases_max": leases_max} | sessions.get(owner, {})
            for owner, (polls, leases_max) in _owners(group).items()
        ],
        "is_sessioned": first.is_sessioned,
        "types": None if first.types is None else sorted(first.types),
        "build_id": first.build_id,
        "page_size": first.page_size,
        "is_cooperative": first.claimant.is_cooperative,
        **({} if first.limits is None else msgspec.structs.asdict(first.limits)),
    }


def _owners(group: Sequence[Want]) -> dict[str, tuple[int, int]]:
    """The workers of a group in order of arrival, with how many polls each holds and how many leases it may."""
    owners: dict[str, tuple[int, int]] = {}
    for want in group:
        polls, _ = owners.get(want.claimant.lease_owner, (0, 0))
        owners[want.claimant.lease_owner] = (polls + 1, want.leases_max)
    return owners


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
