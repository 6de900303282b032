"""The rows of schedules. Field names are the column names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from dw_core.schedules.spec import Occurrence, Spec, read_spec

OverlapPolicy = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"]
Kind = Literal["scheduled", "triggered", "backfilled", "drained"]
"""Why a run is started: its moment has come, somebody asked for it, or it had to wait for the run before it."""

ENDS: Final[dict[str, Literal["cancel", "terminate"]]] = {"cancel_other": "cancel", "terminate_other": "terminate"}
"""What the run before is told under a policy that makes room."""


class Buffered(msgspec.Struct, kw_only=True):
    """A fire that waits for the run before it to close."""

    occurrence_time: datetime
    cron_expression: str | None = None
    effective_overlap_policy: OverlapPolicy
    buffered_at: datetime


class RecentAction(msgspec.Struct, kw_only=True):
    """A fire that has been carried out or has failed."""

    workflow_id: str | None
    run_id: str | None
    fired_at: datetime
    outcome: str


class Schedule(msgspec.Struct, kw_only=True):
    """A schedule. ``status`` is active|paused|deleted; a deleted one keeps its id for its history.

    ``schedule_ulid`` tells apart schedules that have used one id. ``spec`` and ``action`` are as they were sent.
    ``next_occurrence_at`` is the nominal moment behind ``next_fire_at``, ``latest_trigger_number`` the number of the
    fire that has started ``latest_workflow_instance_id``.
    """

    namespace: str
    schedule_id: str
    schedule_ulid: str
    status: Literal["active", "paused", "deleted"]
    spec: dict[str, Any]
    action: dict[str, Any]
    workflow_type: str
    task_queue: str | None
    overlap_policy: OverlapPolicy
    jitter_seconds: int
    max_runs: int | None
    memo: dict[str, Any]
    search_attributes: dict[str, Any]
    note: str | None
    fires_count: int = 0
    failures_count: int = 0
    skipped_trigger_count: int = 0
    last_skip_reason: str | None = None
    last_skipped_at: datetime | None = None
    last_fired_at: datetime | None = None
    latest_workflow_instance_id: str | None = None
    latest_trigger_number: int = 0
    next_occurrence_at: datetime | None = None
    next_cron_expression: str | None = None
    next_fire_at: datetime | None = None
    paused_at: datetime | None = None
    deleted_at: datetime | None = None
    recent_actions: list[RecentAction] = []
    buffered_actions: list[Buffered] = []
    last_event_sequence: int = 0
    last_trigger_number: int = 0
    created_at: datetime
    updated_at: datetime

    @property
    def timing(self) -> Spec:
        """The specification; it was checked when it was sent."""
        return read_spec(self.spec)

    @property
    def next_occurrence(self) -> Occurrence | None:
        """What ``next_fire_at`` stands for."""
        if self.next_occurrence_at is None:
            return None
        return Occurrence(self.next_occurrence_at, self.next_cron_expression)

    @property
    def remaining_actions(self) -> int | None:
        """How many more runs it starts, None for any number."""
        return None if self.max_runs is None else max(0, self.max_runs - self.fires_count)


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """The order to start one run, kept until it has been carried out.

    Both ids of the run are drawn when the order is given, so that carrying it out twice is seen. ``ends`` is
    cancel|terminate when the run of ``ends_workflow_id`` has to make room; such a fire waits for those before it.
    """

    namespace: str
    schedule_id: str
    schedule_ulid: str
    trigger_number: int
    occurrence_at: datetime
    kind: Kind
    cron_expression: str | None
    timezone: str
    overlap_policy: OverlapPolicy
    effective_overlap_policy: OverlapPolicy
    workflow_id: str
    run_id: str
    action: dict[str, Any]
    memo: dict[str, Any]
    search_attributes: dict[str, Any]
    ends: Literal["cancel", "terminate"] | None
    ends_workflow_id: str | None
    lease_owner: str | None
    due_at: datetime
    created_at: datetime

    @property
    def request_id(self) -> str:
        """One start per schedule and nominal moment, whoever asks for it and how often."""
        return f"schedule:{self.schedule_ulid}:{self.occurrence_at.isoformat()}"


class PendingFire(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision needs to know of a fire that has not been carried out yet."""

    trigger_number: int
    occurrence_at: datetime
    workflow_id: str


class ScheduleEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a schedule's history; ``sequence`` goes on when an id is used again."""

    namespace: str
    schedule_id: str
    sequence: int
    event_id: str
    event_type: str
    payload: dict[str, Any]
    workflow_instance_id: str | None = None
    workflow_run_id: str | None = None
    recorded_at: datetime


class ScheduleSnapshot(msgspec.Struct, kw_only=True):
    """A locked schedule: whether the run it started last is open, and its fires under way, by their numbers."""

    schedule: Schedule
    is_latest_open: bool = False
    pending: list[PendingFire] = []
