"""How schedules are shown (control-plane §20.2)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.protocol.timestamps import wire_time
from dw_core.schedules.rows import Schedule, ScheduleEvent


def listed(schedule: Schedule) -> dict[str, Any]:
    """A schedule as it stands in a listing."""
    next_fire, last_fire = wire_time(schedule.next_fire_at), wire_time(schedule.last_fired_at)
    return {
        "schedule_id": schedule.schedule_id,
        "namespace": schedule.namespace,
        "workflow_type": schedule.workflow_type,
        "status": schedule.status,
        "paused": schedule.status == "paused",
        "spec": schedule.spec,
        "action": schedule.action,
        "overlap_policy": schedule.overlap_policy,
        "note": schedule.note,
        "memo": schedule.memo,
        "search_attributes": schedule.search_attributes,
        "jitter_seconds": schedule.jitter_seconds,
        "max_runs": schedule.max_runs,
        "remaining_actions": schedule.remaining_actions,
        "fires_count": schedule.fires_count,
        "failures_count": schedule.failures_count,
        "next_fire_at": next_fire,
        "last_fired_at": last_fire,
        "next_fire": next_fire,
        "last_fire": last_fire,
        "created_at": wire_time(schedule.created_at),
        "updated_at": wire_time(schedule.updated_at),
    }


def described(schedule: Schedule) -> dict[str, Any]:
    """A schedule with what has happened lately."""
    recent = [
        msgspec.structs.asdict(action) | {"fired_at": wire_time(action.fired_at)} for action in schedule.recent_actions
    ]
    buffered = [
        msgspec.structs.asdict(one)
        | {"occurrence_time": wire_time(one.occurrence_time), "buffered_at": wire_time(one.buffered_at)}
        for one in schedule.buffered_actions
    ]
    return listed(schedule) | {
        "latest_workflow_instance_id": schedule.latest_workflow_instance_id,
        "paused_at": wire_time(schedule.paused_at),
        "state": {"status": schedule.status, "paused": schedule.status == "paused", "note": schedule.note},
        "info": {
            "next_fire": wire_time(schedule.next_fire_at),
            "last_fire": wire_time(schedule.last_fired_at),
            "fires_count": schedule.fires_count,
            "failures_count": schedule.failures_count,
            "recent_actions": recent,
            "buffered_actions": buffered,
            "skipped_trigger_count": schedule.skipped_trigger_count,
            "last_skip_reason": schedule.last_skip_reason,
            "last_skipped_at": wire_time(schedule.last_skipped_at),
        },
    }


def event(entry: ScheduleEvent) -> dict[str, Any]:
    """One entry of a schedule's history."""
    return {
        "id": entry.event_id,
        "sequence": entry.sequence,
        "event_type": entry.event_type,
        "payload": entry.payload,
        "workflow_instance_id": entry.workflow_instance_id,
        "workflow_run_id": entry.workflow_run_id,
        "recorded_at": wire_time(entry.recorded_at),
    }
