"""Request bodies about schedules, as msgspec structs (control-plane §20.2)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dw_core.limits import SCHEDULE_JITTER_SECONDS_MAX, SCHEDULE_NOTE_CHARS_MAX
from dw_core.protocol.fields import Positive, Text, WorkflowId
from dw_core.schedules.rows import OverlapPolicy

Jitter = Annotated[int, Meta(ge=0, le=SCHEDULE_JITTER_SECONDS_MAX)]
Note = Annotated[str, Meta(max_length=SCHEDULE_NOTE_CHARS_MAX)]


class ScheduleCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/schedules``; ``spec`` and ``action`` are read by their own rules and kept as they are sent."""

    spec: dict[str, Any]
    action: dict[str, Any]
    schedule_id: WorkflowId | None = None
    overlap_policy: OverlapPolicy | None = None
    jitter_seconds: Jitter | None = None
    max_runs: Positive | None = None
    memo: dict[str, Any] | None = None
    search_attributes: dict[str, Any] | None = None
    paused: bool = False
    note: Note | None = None


class ScheduleUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``PUT /api/schedules/{schedule_id}``: the members that were sent are changed."""

    spec: dict[str, Any] | UnsetType = UNSET
    action: dict[str, Any] | UnsetType = UNSET
    overlap_policy: OverlapPolicy | UnsetType = UNSET
    jitter_seconds: Jitter | UnsetType = UNSET
    max_runs: Positive | UnsetType | None = UNSET
    memo: dict[str, Any] | UnsetType = UNSET
    search_attributes: dict[str, Any] | UnsetType = UNSET
    note: Note | UnsetType | None = UNSET


class ScheduleNote(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/pause`` and ``…/resume``."""

    note: Note | None = None


class ScheduleTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/trigger``: a policy for this fire only."""

    overlap_policy: OverlapPolicy | None = None


class ScheduleBackfill(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/backfill``: every occurrence from ``start_time`` on and before ``end_time``, two ISO 8601 times."""

    start_time: Text
    end_time: Text
    overlap_policy: OverlapPolicy | None = None
