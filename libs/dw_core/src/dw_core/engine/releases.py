"""Giving a lease back before it expires: the poll or the worker that held it has gone."""

from __future__ import annotations

from datetime import datetime

from dw_core.engine.activity_outcomes import redeliver
from dw_core.engine.inputs import RecoverLeases, ReleaseClaim
from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.workflow_tasks import return_to_ready
from dw_core.engine.writer import RunWriter


def decide_release(snapshot: Snapshot, release: ReleaseClaim | RecoverLeases, now: datetime) -> Outcome:
    """Return a leased task to ready, if it is still held as the input says."""
    task = _held(snapshot, release)
    if task is None or task.state is not TaskState.LEASED or task.lease_owner != release.lease_owner:
        return Rejection("task_not_leased", "The lease is no longer held.")
    writer = RunWriter(snapshot, now)
    if task.kind is TaskKind.WORKFLOW:
        return_to_ready(writer, task)
    else:
        redeliver(writer, snapshot.activities[task.activity_sequence], task)
    return writer.finish({"recovered": 1})


def _held(snapshot: Snapshot, release: ReleaseClaim | RecoverLeases) -> Task | None:
    if isinstance(release, RecoverLeases):
        return snapshot.workflow_task
    task = snapshot.tasks.get(release.task_number)
    return task if task is not None and task.attempt == release.attempt else None
