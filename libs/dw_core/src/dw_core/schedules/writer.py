"""Collecting what happens to one schedule: its after image, new rows of history, new fires."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.limits import SCHEDULE_RECENT_ACTIONS, WORKFLOW_ID_CHARS_MAX
from dw_core.protocol.timestamps import wire_time
from dw_core.schedules.rows import (
    ENDS,
    Fire,
    Kind,
    OverlapPolicy,
    PendingFire,
    RecentAction,
    Schedule,
    ScheduleEvent,
    ScheduleSnapshot,
)
from dw_core.schedules.spec import Occurrence

INPUT_SHOWN_BYTES: Final = 4096
"""An action whose input is larger stands in history without it."""
_ULID_TAIL: Final = 10


class ScheduleWriter:
    """Works on a copy of the schedule in ``snapshot`` at database time ``now``.

    ``context`` is the command that caused it, for its history; None for what the clock does.
    """

    def __init__(self, snapshot: ScheduleSnapshot, now: datetime, context: dict[str, Any] | None = None) -> None:
        self.schedule: Schedule = msgspec.structs.replace(snapshot.schedule)
        self.now = now
        self.pending = list(snapshot.pending)
        self._has_earlier_fires = bool(snapshot.pending)
        self.is_latest_open = snapshot.is_latest_open
        self.context = context
        self.events: list[ScheduleEvent] = []
        self.fires: list[Fire] = []

    @property
    def is_open(self) -> bool:
        """Whether the run it has started last is open, or is about to be started."""
        return bool(self.pending) or self.is_latest_open

    @property
    def is_exhausted(self) -> bool:
        """Whether every run that it may start has been started or is under way."""
        limit = self.schedule.max_runs
        return limit is not None and self.schedule.fires_count + len(self.pending) >= limit

    def record(self, event_type: str, payload: dict[str, Any], fire: Fire | None = None) -> None:
        """Append to its history."""
        schedule = self.schedule
        schedule.last_event_sequence += 1
        self.events.append(
            ScheduleEvent(
                namespace=schedule.namespace,
                schedule_id=schedule.schedule_id,
                sequence=schedule.last_event_sequence,
                event_id=f"{schedule.schedule_ulid}.{schedule.last_event_sequence}",
                event_type=event_type,
                payload=payload if self.context is None else payload | {"command_context": self.context},
                workflow_instance_id=None if fire is None else fire.workflow_id,
                workflow_run_id=None if fire is None else fire.run_id,
                recorded_at=self.now,
            )
        )

    def schedule_next(self, behind: datetime, *, is_late: bool = False) -> None:
        """Say when it is due next, after the occurrence at ``behind``, which has been fired late or in time."""
        schedule = self.schedule
        seed = schedule.schedule_ulid
        due = schedule.timing.next_due(behind, self.now, schedule.jitter_seconds, seed, is_late=is_late)
        schedule.next_occurrence_at = None if due is None else due.occurrence.at
        schedule.next_cron_expression = None if due is None else due.occurrence.cron_expression
        schedule.next_fire_at = None if due is None else due.fire_at

    def skip(self, reason: str, occurrence: Occurrence) -> None:
        """A fire that is not carried out."""
        schedule = self.schedule
        schedule.skipped_trigger_count += 1
        schedule.last_skip_reason = reason
        schedule.last_skipped_at = self.now
        self.record(
            "ScheduleTriggerSkipped",
            {
                "reason": reason,
                "occurrence_time": wire_time(occurrence.at),
                "skipped_trigger_count": schedule.skipped_trigger_count,
                "last_skipped_at": wire_time(self.now),
            },
        )

    def fire(
        self, kind: Kind, occurrence: Occurrence, policy: OverlapPolicy, run_id: str, lease_owner: str | None
    ) -> Fire:
        """Order a run to be started; it is under way from now on."""
        schedule = self.schedule
        schedule.last_trigger_number += 1
        ends_workflow_id = None
        ends = ENDS.get(policy) if self.is_open else None
        if ends is not None:
            latest = self.pending[-1].workflow_id if self.pending else None
            ends_workflow_id = latest or schedule.latest_workflow_instance_id
        fire = Fire(
            namespace=schedule.namespace,
            schedule_id=schedule.schedule_id,
            schedule_ulid=schedule.schedule_ulid,
            trigger_number=schedule.last_trigger_number,
            occurrence_at=occurrence.at,
            kind=kind,
            cron_expression=occurrence.cron_expression,
            timezone=schedule.timing.timezone,
            overlap_policy=schedule.overlap_policy,
            effective_overlap_policy=policy,
            workflow_id=workflow_id(schedule, occurrence.at),
            run_id=run_id,
            action=schedule.action,
            memo=schedule.memo,
            search_attributes=schedule.search_attributes,
            ends=ends,
            ends_workflow_id=ends_workflow_id,
            lease_owner=None if ends is not None and self._has_earlier_fires else lease_owner,
            due_at=self.now,
            created_at=self.now,
        )
        self.fires.append(fire)
        self.pending.append(
            PendingFire(
                trigger_number=fire.trigger_number, occurrence_at=fire.occurrence_at, workflow_id=fire.workflow_id
            )
        )
        return fire

    def remember(self, fire: Fire, run_id: str | None, outcome: str) -> None:
        """Keep a fire among the recent ones."""
        action = RecentAction(
            workflow_id=fire.workflow_id if run_id is not None else None,
            run_id=run_id,
            fired_at=self.now,
            outcome=outcome,
        )
        self.schedule.recent_actions = [*self.schedule.recent_actions, action][-SCHEDULE_RECENT_ACTIONS:]

    def delete(self, reason: str) -> None:
        """It fires no more, and what it has buffered is dropped; runs under way are not touched."""
        schedule = self.schedule
        schedule.status = "deleted"
        schedule.deleted_at = self.now
        schedule.updated_at = self.now
        schedule.buffered_actions = []
        schedule.next_occurrence_at = schedule.next_cron_expression = schedule.next_fire_at = None
        self.record("ScheduleDeleted", {"reason": reason, "deleted_at": wire_time(self.now)})


def workflow_id(schedule: Schedule, at: datetime) -> str:
    """The workflow id of the run of one occurrence; no other schedule draws it, not even one of the same id."""
    moment = f"{at.timestamp():.6f}".rstrip("0").rstrip(".").replace(".", "_")
    tail = f"-{moment}-{schedule.schedule_ulid[-_ULID_TAIL:].lower()}"
    return schedule.schedule_id[: WORKFLOW_ID_CHARS_MAX - len(tail)] + tail


def shown(action: dict[str, Any]) -> dict[str, Any]:
    """An action as it stands in history."""
    if "input" not in action or len(msgspec.json.encode(action["input"])) <= INPUT_SHOWN_BYTES:
        return action
    return {name: value for name, value in action.items() if name != "input"}
