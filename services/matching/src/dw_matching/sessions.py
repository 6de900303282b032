"""The verbs of worker sessions (worker-plane §15.2).

Whoever needs a session's row and the lock of its namespace takes the row first: a heartbeat of an activity holds the
row when its pump asks for the lock. A claim, which has the lock first, never waits for a row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NoReturn

import msgspec

from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Problem
from dw_core.protocol.reasons import REASONS
from dw_core.sessions.admission import Admission, Candidate, admit, close, refusal, refuse_renewal, renewed
from dw_core.sessions.session import Holder, Session, SessionOptions, snapshot
from dw_core.workers.registration import not_registered
from dw_runtime.pump.session_rooms import sessions_lock
from dw_runtime.store.database import Database
from dw_runtime.store.database import Session as Statements
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.metrics import Metrics

_decode_session = msgspec.json.Decoder(Session).decode

CREATION_TRIES: Final = 5
"""How often a session that another process creates in the same moment is looked at again."""


class _Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A registration as ``read_holder`` gives it."""

    task_queue: str
    capabilities: list[str]
    sessions_max: int
    sessions_held: int
    last_heartbeat_at: datetime
    is_stale: bool
    is_draining: bool
    running: int

    def holder(self, worker_id: str) -> Holder:
        return Holder(
            worker_id=worker_id,
            task_queue=self.task_queue,
            status="draining" if self.is_draining else "active",
            last_heartbeat_at=self.last_heartbeat_at,
            is_stale=self.is_stale,
        )

    def candidate(self, worker_id: str) -> Candidate:
        return Candidate(
            worker_id=worker_id,
            task_queue=self.task_queue,
            capabilities=frozenset(self.capabilities),
            sessions_max=self.sessions_max,
            sessions_left=self.sessions_max - self.sessions_held,
        )


_decode_worker = msgspec.json.Decoder(_Worker).decode


class WorkerSessions:
    """Creates, renews and closes sessions, each verb in one transaction; a repeated verb finds what it has done.

    ``stale_after_seconds`` of silence make a worker stale. Every verb answers with the members of worker-plane §15.2
    or raises the :class:`Problem` of a refusal.
    """

    def __init__(self, database: Database, metrics: Metrics, *, stale_after_seconds: int) -> None:
        self._database = database
        self._metrics = metrics
        self._stale_after = stale_after_seconds

    async def create(self, namespace: str, worker_id: str, options: SessionOptions) -> dict[str, Any]:
        """Give a worker a session: created, reused (renewed) or reacquired."""
        for _ in range(CREATION_TRIES):
            answer = await self._create(namespace, worker_id, options)
            if answer is not None:
                return answer
        raise Problem("backend_unavailable", "The session is being created by another worker.", retryable=True)

    async def _create(self, namespace: str, worker_id: str, options: SessionOptions) -> dict[str, Any] | None:
        """None when the session has come to be between the two locks."""
        session_id = options.session_id
        async with self._database.transaction() as statements:
            now, session = await _locked(statements, namespace, session_id)
            await statements.run("lock_queues", encode_rows([sessions_lock(namespace)]))
            if session is None and (await statements.rows("find_session", namespace, session_id))[0][0]:
                return None
            worker = await self._worker(statements, namespace, worker_id, session_id)
            if worker is None:
                _refuse(not_registered(worker_id))
            admitted = admit(session, options, namespace, worker.candidate(worker_id), now)
            if not isinstance(admitted, Admission):
                _refuse(admitted)
            await _save(statements, admitted.session)
        self._metrics.session_admissions[admitted.outcome].inc()
        return _answer(admitted.outcome, admitted.session, worker.holder(worker_id), worker.running)

    async def heartbeat(
        self, namespace: str, worker_id: str, session_id: str, lease_seconds: int | None
    ) -> dict[str, Any]:
        """Renew a session, for ``lease_seconds`` or the lease it was created with."""

        def renew(session: Session | None, now: datetime) -> tuple[str, Session] | Rejection:
            refused = refuse_renewal(session, worker_id, now, missing="session_not_found")
            if session is None or refused is not None:
                assert refused is not None, "an unknown session is refused"
                return refused
            return "heartbeat_recorded", renewed(session, lease_seconds or session.lease_seconds, now)

        return await self._change(namespace, worker_id, session_id, renew, needs_worker=True)

    async def close(self, namespace: str, worker_id: str, session_id: str) -> dict[str, Any]:
        """End a session for ever; a worker that is no longer registered may still do that."""
        return await self._change(
            namespace, worker_id, session_id, lambda session, now: close(session, worker_id, now), needs_worker=False
        )

    async def _change(
        self,
        namespace: str,
        worker_id: str,
        session_id: str,
        decide: Callable[[Session | None, datetime], tuple[str, Session] | Rejection],
        *,
        needs_worker: bool,
    ) -> dict[str, Any]:
        async with self._database.transaction() as statements:
            now, session = await _locked(statements, namespace, session_id)
            worker = await self._worker(statements, namespace, worker_id, session_id)
            if worker is None and needs_worker:
                _refuse(not_registered(worker_id))
            decided = decide(session, now)
            if isinstance(decided, Rejection):
                _refuse(decided)
            outcome, changed = decided
            await _save(statements, changed)
        holder = None if worker is None else worker.holder(worker_id)
        return _answer(outcome, changed, holder, 0 if worker is None else worker.running)

    async def _worker(self, statements: Statements, namespace: str, worker_id: str, session_id: str) -> _Worker | None:
        rows = await statements.rows("read_holder", namespace, worker_id, self._stale_after, session_id)
        return _decode_worker(rows[0][0]) if rows else None


async def _locked(statements: Statements, namespace: str, session_id: str) -> tuple[datetime, Session | None]:
    ((now, text),) = await statements.rows("lock_session", namespace, session_id)
    return now, _decode_session(text) if text else None


async def _save(statements: Statements, session: Session) -> None:
    await statements.run("save_sessions", encode_rows([session]))


def _answer(outcome: str, session: Session, holder: Holder | None, running: int) -> dict[str, Any]:
    return {
        "admitted": True,
        "outcome": outcome,
        "session": snapshot(session, holder, running),
        "activity_task_id": None,
        "status": 201 if outcome == "created" else 200,
        "reason": None,
    }


def _refuse(rejection: Rejection) -> NoReturn:
    raise Problem(rejection.reason, rejection.message, **refusal(rejection, REASONS[rejection.reason]))
