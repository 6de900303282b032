"""What a diagnosis of a run is made of (control-plane §10.4)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.engine.rows import Run, Task
from dw_runtime.store.database import Database

PENDING_MAX: Final = 25
"""Workflow tasks, activities, runs and attempts that a cancellation has reached: so many of each are listed."""
FAILURES_MAX: Final = 10
EVENTS_SEARCHED_MAX: Final = 200
"""The newest events of a run in which failures are looked for."""
PREVIEW_BYTES_MAX: Final = 4_096


class PendingActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An open activity and its task."""

    task: Task
    activity_type: str
    scheduled_at: datetime


class RecentFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An event that tells of a failure; ``message`` is cut."""

    sequence: int
    event_type: str
    timestamp: str
    activity_type: str | None = None
    exception_type: str | None = None
    message: str | None = None


class LastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The newest event: the names of its payload's members, its size in bytes, and the beginning of it as JSON text."""

    sequence: int
    event_type: str
    timestamp: str
    bytes: int
    members: list[str] | None = None
    preview: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands at ``now``. ``pollers`` are the live workers of the queues of its tasks, by queue."""

    now: datetime
    workflow_tasks: list[Task]
    activities: list[PendingActivity]
    failures: list[RecentFailure]
    last_event: LastEvent | None
    next_timer_at: datetime | None
    pollers: dict[str, int]
    namespace_workers: int
    queue_workers: int


class ReachedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with a cancellation request, and how the run that has sent it on calls it."""

    run: Run
    parent_run_id: str | None
    parent_close_policy: str | None
    cancellation_policy: str | None


class StoppedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was told to stop; ``acknowledgement`` is what its worker has said of the callback."""

    sequence: int
    attempt: int
    status: str
    activity_type: str
    cancellation_policy: str | None
    acknowledgement: dict[str, Any] | None


class Cascade(msgspec.Struct, frozen=True, kw_only=True):
    """How far a cancellation request has come at ``now``: the run itself, those below it, its activities."""

    now: datetime
    runs: list[ReachedRun]
    attempts: list[StoppedAttempt]


_decode_reached = msgspec.json.Decoder(list[ReachedRun]).decode
_decode_stopped = msgspec.json.Decoder(list[StoppedAttempt]).decode
_decode_tasks = msgspec.json.Decoder(list[Task]).decode
_decode_activities = msgspec.json.Decoder(list[PendingActivity]).decode
_decode_failures = msgspec.json.Decoder(list[RecentFailure]).decode
_decode_event = msgspec.json.Decoder(LastEvent).decode
_decode_pollers = msgspec.json.Decoder(dict[str, int]).decode


class DebugReads:
    """Reads what a diagnosis needs. A worker silent for ``stale_after_seconds`` no longer counts."""

    def __init__(self, database: Database, *, stale_after_seconds: int) -> None:
        self._database = database
        self._stale_after_seconds = stale_after_seconds

    async def findings(self, namespace: str, queue: str, run_id: str) -> Findings:
        """How an existing run stands: two statements, whatever its size."""
        stale = self._stale_after_seconds
        bounds = (PENDING_MAX, FAILURES_MAX, EVENTS_SEARCHED_MAX, PREVIEW_BYTES_MAX)
        ((now, tasks, activities, failures, event, timer, pollers),) = await self._database.read(
            "diagnose_run", run_id, *bounds, stale
        )
        ((everywhere, here),) = await self._database.read("count_workers", namespace, queue, stale)
        return Findings(
            now=now,
            workflow_tasks=_decode_tasks(tasks),
            activities=_decode_activities(activities),
            failures=_decode_failures(failures),
            last_event=None if event is None else _decode_event(event),
            next_timer_at=timer,
            pollers=_decode_pollers(pollers),
            namespace_workers=everywhere,
            queue_workers=here,
        )

    async def cascade(self, run_id: str) -> Cascade:
        """How far the cancellation request of an existing run has come."""
        ((now, runs, attempts),) = await self._database.read("diagnose_cancellation", run_id, PENDING_MAX)
        return Cascade(now=now, runs=_decode_reached(runs), attempts=_decode_stopped(attempts))
