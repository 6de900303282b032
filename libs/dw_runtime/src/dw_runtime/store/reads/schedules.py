"""Reads of schedules and of their histories."""

from __future__ import annotations

from datetime import datetime

import msgspec

from dw_core.schedules.filters import ScheduleFilter
from dw_core.schedules.rows import Schedule, ScheduleEvent
from dw_runtime.store.database import Database

_decode_schedule = msgspec.json.Decoder(Schedule).decode
_decode_event = msgspec.json.Decoder(ScheduleEvent).decode


class ScheduleReads:
    """What the control plane shows of schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def describe(self, namespace: str, schedule_id: str) -> Schedule | None:
        """A schedule that has not been deleted."""
        rows = await self._database.read("describe_schedule", namespace, schedule_id)
        return _decode_schedule(rows[0][0]) if rows else None

    async def page(
        self, namespace: str, wanted: ScheduleFilter, behind: tuple[datetime, str] | None, limit: int
    ) -> list[Schedule]:
        """At most ``limit`` schedules, the newest first; ``behind`` is where the page before has ended."""
        created_at, schedule_id = behind or ("infinity", "")
        attributes = msgspec.json.encode(wanted.attributes).decode() if wanted.attributes else None
        common = (namespace, created_at, schedule_id, limit, wanted.schedule_id, wanted.status, wanted.task_queue)
        if wanted.workflow_type is None:
            rows = await self._database.read("list_schedules", *common, wanted.note, attributes)
        else:
            rows = await self._database.read(
                "list_typed_schedules", *common, wanted.note, attributes, wanted.workflow_type
            )
        return [_decode_schedule(text) for (text,) in rows]

    async def history(
        self, namespace: str, schedule_id: str, after_sequence: int, limit: int
    ) -> list[ScheduleEvent] | None:
        """At most ``limit`` entries behind a sequence, also of a deleted schedule; None when there is none."""
        rows = await self._database.read("read_schedule_history", namespace, schedule_id, after_sequence, limit)
        return [_decode_event(text) for (text,) in rows if text is not None] if rows else None

    async def token_key(self) -> bytes:
        """What page tokens are signed with."""
        ((secret,),) = await self._database.read("read_secret", "page-tokens")
        return bytes(secret, "ascii")
