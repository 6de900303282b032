"""What a due, asked-for or buffered fire comes to, and what its start comes to (engine §6.19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dw_core.ids import NewId
from dw_core.limits import SCHEDULE_BUFFER_MAX
from dw_core.protocol.timestamps import wire_time
from dw_core.schedules.rows import Buffered, Fire, Kind, OverlapPolicy, Schedule
from dw_core.schedules.spec import CATCH_UP, Occurrence
from dw_core.schedules.writer import ScheduleWriter


class Fired(msgspec.Struct, frozen=True):
    """What became of one occurrence; ``fire`` is there when a run is to be started."""

    occurrence: Occurrence
    outcome: Literal["fired", "buffered", "buffer_full", "skipped"]
    reason: str | None = None
    fire: Fire | None = None


class Started(msgspec.Struct, frozen=True):
    """What the start of a fire came to: a run, one that an earlier fire of the same moment has started, or neither.

    ``reason`` and ``message`` belong to a start that was refused.
    """

    outcome: Literal["started", "already_started", "failed"]
    run_id: str | None = None
    reason: str | None = None
    message: str | None = None
    fields: dict[str, Any] = {}


def fire_one(
    writer: ScheduleWriter,
    kind: Kind,
    occurrence: Occurrence,
    policy: OverlapPolicy,
    new_id: NewId,
    lease_owner: str | None,
) -> Fired:
    """Fire one occurrence, as the policy has it while the run before is open."""
    schedule = writer.schedule
    refused = None
    if schedule.status != "active":
        refused = "status_not_triggerable"
    elif any(one.occurrence_at == occurrence.at for one in writer.pending):
        refused = "occurrence_already_started"
    elif writer.is_exhausted:
        refused = "remaining_actions_exhausted"
    elif writer.is_open and policy == "skip":
        refused = "overlap_policy_skip"
    if refused is not None:
        writer.skip(refused, occurrence)
        return Fired(occurrence, "skipped", refused)
    if writer.is_open and policy in ("buffer_one", "buffer_all"):
        return _buffer(writer, occurrence, policy)
    return Fired(occurrence, "fired", None, writer.fire(kind, occurrence, policy, new_id(), lease_owner))


def _buffer(writer: ScheduleWriter, occurrence: Occurrence, policy: OverlapPolicy) -> Fired:
    schedule = writer.schedule
    capacity = 1 if policy == "buffer_one" else SCHEDULE_BUFFER_MAX
    if len(schedule.buffered_actions) >= capacity:
        writer.skip("buffer_full", occurrence)
        return Fired(occurrence, "buffer_full", "buffer_full")
    waiting = Buffered(
        occurrence_time=occurrence.at,
        cron_expression=occurrence.cron_expression,
        effective_overlap_policy=policy,
        buffered_at=writer.now,
    )
    schedule.buffered_actions = [*schedule.buffered_actions, waiting]
    return Fired(occurrence, "buffered")


def evaluate(writer: ScheduleWriter, new_id: NewId, lease_owner: str | None) -> list[Fired]:
    """What the clock does: first what has waited longest, when the run before has closed, then what is due.

    However late it is, one occurrence is fired; the next one is computed from now (control-plane §20.1).
    """
    schedule = writer.schedule
    fired: list[Fired] = []
    if schedule.status != "active":
        return fired
    if schedule.buffered_actions and not writer.is_open:
        first, *rest = schedule.buffered_actions
        schedule.buffered_actions = rest
        occurrence = Occurrence(first.occurrence_time, first.cron_expression)
        policy = first.effective_overlap_policy
        fired.append(fire_one(writer, "drained", occurrence, policy, new_id, lease_owner))
    due = schedule.next_occurrence
    if due is not None and schedule.next_fire_at is not None and schedule.next_fire_at <= writer.now:
        is_late = writer.now - schedule.next_fire_at > CATCH_UP
        fired.append(fire_one(writer, "scheduled", due, schedule.overlap_policy, new_id, lease_owner))
        writer.schedule_next(due.at, is_late=is_late)
    return fired


def stall(writer: ScheduleWriter, reason: str) -> None:
    """It cannot be evaluated any more (a time zone has gone, say): it is due no more until it is changed."""
    schedule = writer.schedule
    schedule.failures_count += 1
    schedule.next_occurrence_at = schedule.next_cron_expression = schedule.next_fire_at = None
    schedule.buffered_actions = []
    writer.record("ScheduleTriggerSkipped", {"reason": reason, "outcome": "failed"})


def trigger(writer: ScheduleWriter, policy: OverlapPolicy | None, new_id: NewId, lease_owner: str) -> Fired:
    """Fire now, because somebody asks for it; ``policy`` counts for this fire only."""
    occurrence = Occurrence(writer.now, None)
    effective = policy or writer.schedule.overlap_policy
    return fire_one(writer, "triggered", occurrence, effective, new_id, lease_owner)


def backfill(
    writer: ScheduleWriter,
    occurrences: Sequence[Occurrence],
    policy: OverlapPolicy | None,
    new_id: NewId,
    lease_owner: str,
) -> list[Fired]:
    """Fire every occurrence of a window, in order; a policy that buffers starts them all (control-plane §20.2)."""
    effective = policy or writer.schedule.overlap_policy
    if effective in ("buffer_one", "buffer_all"):
        effective = "allow_all"
    return [fire_one(writer, "backfilled", one, effective, new_id, lease_owner) for one in occurrences]


def settle(writer: ScheduleWriter, fire: Fire, started: Started) -> None:
    """Record what the start of a fire came to; a schedule that has been created anew meanwhile is left alone."""
    schedule = writer.schedule
    writer.pending = [one for one in writer.pending if one.trigger_number != fire.trigger_number]
    if schedule.schedule_ulid != fire.schedule_ulid:
        if started.outcome == "started":
            writer.record("ScheduleTriggered", triggered(fire), fire)
        return
    match started.outcome:
        case "started":
            _count(writer, fire)
        case "already_started":
            writer.skip("occurrence_already_started", Occurrence(fire.occurrence_at, fire.cron_expression))
        case "failed":
            schedule.failures_count += 1
            writer.remember(fire, None, "failed")
            payload = {
                "reason": started.reason,
                "message": started.message,
                "outcome": "failed",
                "occurrence_time": wire_time(fire.occurrence_at),
                "skipped_trigger_count": schedule.skipped_trigger_count,
                "last_skipped_at": wire_time(schedule.last_skipped_at),
            }
            writer.record("ScheduleTriggerSkipped", payload)


def _count(writer: ScheduleWriter, fire: Fire) -> None:
    schedule = writer.schedule
    schedule.fires_count += 1
    schedule.last_fired_at = writer.now
    if fire.trigger_number > schedule.latest_trigger_number:
        schedule.latest_trigger_number = fire.trigger_number
        schedule.latest_workflow_instance_id = fire.workflow_id
    writer.remember(fire, fire.run_id, fire.kind)
    writer.record("ScheduleTriggered", triggered(fire), fire)
    if is_used_up(schedule) and schedule.status != "deleted":
        writer.delete("max_runs_exhausted")


def is_used_up(schedule: Schedule) -> bool:
    """Whether it has started every run that it may start."""
    return schedule.remaining_actions == 0


def triggered(fire: Fire) -> dict[str, Any]:
    """The payload of ``ScheduleTriggered``, in the history of the schedule and of the run (engine §2.12)."""
    return {
        "workflow_instance_id": fire.workflow_id,
        "workflow_run_id": fire.run_id,
        "schedule_id": fire.schedule_id,
        "schedule_ulid": fire.schedule_ulid,
        "cron_expression": fire.cron_expression,
        "timezone": fire.timezone,
        "overlap_policy": fire.overlap_policy,
        "outcome": fire.kind,
        "effective_overlap_policy": fire.effective_overlap_policy,
        "trigger_number": fire.trigger_number,
        "occurrence_time": wire_time(fire.occurrence_at),
    }
