"""Standalone activities: one by its id, those of a namespace by page."""

from __future__ import annotations

import msgspec

from dw_core.engine.rows import STANDALONE_ACTIVITY, Run, Task
from dw_core.engine.run_rows import Activity
from dw_core.protocol.problems import Problem
from dw_runtime.store.database import Database, Row, first
from dw_runtime.store.reads.rows import Position, Summary

_decode_run = msgspec.json.Decoder(Run).decode
_decode_summary = msgspec.json.Decoder(Summary).decode
_decode_activity = msgspec.json.Decoder(Activity).decode
_decode_task = msgspec.json.Decoder(Task).decode


class StandaloneActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity with its host run; ``task`` is open until the activity ends, ``ended_by`` the event that ended it."""

    run: Run
    summary: Summary
    activity: Activity
    task: Task | None
    activity_class: str | None
    ended_by: str | None


class ActivityReads:
    """Reads standalone activities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def describe(self, namespace: str, activity_id: str) -> StandaloneActivity:
        """The activity of this id; raises ``Problem`` ``activity_not_found``."""
        row = first(await self._database.read("describe_activity", namespace, activity_id, STANDALONE_ACTIVITY))
        if row is None:
            raise Problem("activity_not_found", f"Activity {activity_id} does not exist.", activity_id=activity_id)
        return _activity(row)

    async def page(
        self, namespace: str, *, bucket: str | None, after: Position | None, size: int
    ) -> list[StandaloneActivity]:
        """At most ``size`` activities behind ``after``, newest first; ``bucket`` is running, completed or failed."""
        started_at = "infinity" if after is None else after.started_at.isoformat()
        run_id = "" if after is None else after.run_id
        rows = await self._database.read(
            "list_activities", namespace, STANDALONE_ACTIVITY, bucket, started_at, run_id, size
        )
        return [_activity(row) for row in rows]


def _activity(row: Row) -> StandaloneActivity:
    run, summary, activity, task, activity_class, before_last = row
    decoded = _decode_run(run)
    return StandaloneActivity(
        run=decoded,
        summary=_decode_summary(summary),
        activity=_decode_activity(activity),
        task=None if task is None else _decode_task(task),
        activity_class=activity_class,
        ended_by=before_last if decoded.is_terminal else None,
    )
