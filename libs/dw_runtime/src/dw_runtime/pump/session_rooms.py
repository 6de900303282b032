"""Who may run activities of which worker session, within one claiming pass (worker-plane §15.4)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from dw_core.engine.rows import Task
from dw_core.engine.transition import Rejection
from dw_core.sessions.admission import Admission, Candidate, admit_activity
from dw_core.sessions.session import Session
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call

if TYPE_CHECKING:
    from dw_runtime.pump.claims import Want

SessionKey = tuple[str, str]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A worker of a want, and how many more sessions it may open."""

    lease_owner: str
    sessions_left: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside a picked activity of a session.

    ``session`` is None for one that another transaction holds, then ``is_known``, or for one that does not exist.
    ``running`` are the leased activities of the session by worker.
    """

    session: Session | None = None
    is_known: bool = False
    running: dict[str, int] | None = None


class SessionRooms:
    """Admits workers to sessions. It is exact, because the sessions of a namespace are locked until the leases are
    committed, and each picked one by its row too."""

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], int] = {}
        self._sessions: dict[SessionKey, Session | None] = {}
        self._busy: set[SessionKey] = set()
        self._running: Counter[tuple[SessionKey, str]] = Counter()
        self._saved: dict[SessionKey, Session] = {}

    def note(self, namespace: str, members: list[Member]) -> None:
        """These workers may open so many more sessions."""
        for member in members:
            self._left[namespace, member.lease_owner] = member.sessions_left

    def learn(self, task: Task, found: Found) -> None:
        """What was picked with an activity; the first to be picked of a session tells of it."""
        key = _key(task)
        if key in self._sessions:
            return
        self._sessions[key] = found.session
        if found.is_known and found.session is None:
            self._busy.add(key)
        for worker, running in (found.running or {}).items():
            self._running[key, worker] = running

    def is_busy(self, task: Task) -> bool:
        """Whether another transaction holds the session, so that nothing can be decided now."""
        return _key(task) in self._busy

    def admit(self, task: Task, want: Want, now: datetime) -> Admission | Rejection:
        """Whether the worker of a poll may run this activity now."""
        assert task.worker_session is not None, f"task {task.run_id}.t{task.task_number} has no session"
        key, worker = _key(task), want.claimant.lease_owner
        candidate = Candidate(
            worker_id=worker,
            task_queue=want.key.queue,
            capabilities=want.capabilities,
            sessions_max=want.sessions_max,
            sessions_left=self._left.get((task.namespace, worker), 0),
        )
        running = self._running[key, worker]
        return admit_activity(self._sessions[key], task.worker_session, task.namespace, candidate, running, now)

    def take(self, task: Task, want: Want, admission: Admission) -> None:
        """The worker of this poll has been given the activity."""
        key, worker = _key(task), want.claimant.lease_owner
        self._sessions[key] = self._saved[key] = admission.session
        self._running[key, worker] += 1
        if admission.outcome != "reused":
            self._left[task.namespace, worker] -= 1

    def calls(self) -> list[Call]:
        """The statement that writes what has been decided."""
        return [("save_sessions", encode_rows(self._saved.values()))] if self._saved else []


def _key(task: Task) -> SessionKey:
    assert task.session_id is not None, f"task {task.run_id}.t{task.task_number} has no session"
    return task.namespace, task.session_id


def sessions_lock(namespace: str) -> str:
    """What holds every other process off admissions to the sessions of a namespace."""
    return f"sessions/{namespace}"
