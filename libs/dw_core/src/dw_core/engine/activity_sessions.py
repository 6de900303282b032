"""What the reports on an attempt do to its worker session (worker-plane §12.3, §15.4).

The lease of the attempt and that of the session are independent: a session that cannot be renewed does not end the
attempt, but its worker is told.
"""

from __future__ import annotations

from typing import Any

from dw_core.engine.rows import Task
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection
from dw_core.engine.writer import RunWriter
from dw_core.sessions.admission import refuse_renewal, renewed
from dw_core.sessions.session import SessionRenewal, affinity


def session_of(snapshot: Snapshot, task: Task | None) -> dict[str, Any] | None:
    """The session of an attempt's task, None when it has none."""
    if task is None or task.worker_session is None:
        return None
    return affinity(task.worker_session, snapshot.sessions.get(task.worker_session.session_id))


def renew_session(writer: RunWriter, task: Task, reply: dict[str, Any]) -> dict[str, Any] | Rejection:
    """Renew the session of a task that has reported progress; the reply, refused when the session is lost."""
    if task.worker_session is None:
        return reply
    assert task.lease_owner is not None, "only a holder reports progress"
    session_id = task.worker_session.session_id
    session = writer.snapshot.sessions.get(session_id)
    refused = refuse_renewal(session, task.lease_owner, writer.now, missing="session_missing")
    if refused is not None or session is None:
        assert refused is not None
        renewal = {"admitted": False, "outcome": None, "reason": refused.reason, "error": refused.message}
        known = affinity(task.worker_session, session)
        told = {name: value for name, value in reply.items() if name != "reason"}
        return Rejection(
            refused.reason, refused.message, told | {"worker_session": known, "worker_session_renewal": renewal}
        )
    kept = renewed(session, session.lease_seconds, writer.now, is_shorter_allowed=False)
    writer.transition.session_renewals.append(
        SessionRenewal(
            namespace=kept.namespace,
            session_id=session_id,
            lease_owner=task.lease_owner,
            lease_expires_at=kept.lease_expires_at,
        )
    )
    return reply | {"worker_session": affinity(task.worker_session, kept)}
