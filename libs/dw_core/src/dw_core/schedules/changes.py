"""What operators do to a schedule: create, change, pause, resume, delete (control-plane §20.2)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.protocol.requests_schedules import ScheduleCreate, ScheduleUpdate
from dw_core.protocol.timestamps import wire_time
from dw_core.schedules.actions import read_action
from dw_core.schedules.firing import is_used_up
from dw_core.schedules.rows import Schedule, ScheduleSnapshot
from dw_core.schedules.spec import read_spec
from dw_core.schedules.writer import ScheduleWriter, shown

Context = dict[str, Any]


def create(
    namespace: str,
    schedule_id: str,
    schedule_ulid: str,
    body: ScheduleCreate,
    former: Schedule | None,
    now: datetime,
    context: Context,
) -> ScheduleWriter:
    """A new schedule; the history of a ``former`` one of the same id, which has been deleted, goes on.

    Raises ``Problem`` for a specification and ``Invalid`` for an action that cannot be followed.
    """
    read_spec(body.spec, schedule_id)
    action = read_action(body.action)
    schedule = Schedule(
        namespace=namespace,
        schedule_id=schedule_id,
        schedule_ulid=schedule_ulid,
        status="paused" if body.paused else "active",
        spec=body.spec,
        action=body.action,
        workflow_type=action.workflow_type,
        task_queue=action.task_queue,
        overlap_policy=body.overlap_policy or "skip",
        jitter_seconds=body.jitter_seconds or 0,
        max_runs=body.max_runs,
        memo=body.memo or {},
        search_attributes=body.search_attributes or {},
        note=body.note,
        paused_at=now if body.paused else None,
        last_event_sequence=0 if former is None else former.last_event_sequence,
        created_at=now,
        updated_at=now,
    )
    writer = ScheduleWriter(ScheduleSnapshot(schedule=schedule), now, context)
    if not body.paused:
        writer.schedule_next(now)
    made = writer.schedule
    writer.record("ScheduleCreated", _configuration(made))
    if body.paused:
        writer.record("SchedulePaused", {"reason": body.note, "paused_at": wire_time(now)})
    return writer


def update(writer: ScheduleWriter, body: ScheduleUpdate) -> None:
    """Change what was sent: ``spec`` is replaced, ``action`` merged member by member.

    Raises ``Problem`` for a specification and ``Invalid`` for an action that cannot be followed.
    """
    schedule, now = writer.schedule, writer.now
    sent = {
        name: value for name in ScheduleUpdate.__struct_fields__ if (value := getattr(body, name)) is not msgspec.UNSET
    }
    if "spec" in sent:
        read_spec(sent["spec"], schedule.schedule_id)
    if "action" in sent:
        sent["action"] = schedule.action | sent["action"]
        action = read_action(sent["action"])
        schedule.workflow_type, schedule.task_queue = action.workflow_type, action.task_queue
    changed = sorted(name for name, value in sent.items() if getattr(schedule, name) != value)
    for name, value in sent.items():
        setattr(schedule, name, value)
    schedule.updated_at = now
    if schedule.status == "active" and {"spec", "jitter_seconds"} & set(changed):
        writer.schedule_next(now)
    writer.record("ScheduleUpdated", {"changed_fields": changed} | _configuration(schedule))
    if is_used_up(schedule):
        writer.delete("max_runs_exhausted")


def _configuration(schedule: Schedule) -> dict[str, Any]:
    return {
        "spec": schedule.spec,
        "action": shown(schedule.action),
        "overlap_policy": schedule.overlap_policy,
        "next_fire_at": wire_time(schedule.next_fire_at),
    }


def pause(writer: ScheduleWriter, note: str | None) -> None:
    """It fires no more until it is resumed; what it has buffered waits. Paused again it stays as it is."""
    schedule, now = writer.schedule, writer.now
    if schedule.status == "paused":
        return
    schedule.status = "paused"
    schedule.paused_at = schedule.updated_at = now
    schedule.next_occurrence_at = schedule.next_cron_expression = schedule.next_fire_at = None
    writer.record("SchedulePaused", {"reason": note, "paused_at": wire_time(now)})


def resume(writer: ScheduleWriter, note: str | None) -> None:
    """It fires again, from now on; what it has missed is left to a backfill. One that is active stays as it is."""
    schedule, now = writer.schedule, writer.now
    if schedule.status == "active":
        return
    schedule.status = "active"
    schedule.paused_at = None
    schedule.updated_at = now
    writer.schedule_next(now)
    payload: dict[str, Any] = {"next_fire_at": wire_time(schedule.next_fire_at)}
    writer.record("ScheduleResumed", payload if note is None else payload | {"note": note})
