"""The rows that belong to a run: activities, timers, children, groups, events and what is kept of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import RetryPolicy


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """The four activity timeouts in seconds; None means none."""

    start_to_close_timeout: int | None = None
    schedule_to_start_timeout: int | None = None
    schedule_to_close_timeout: int | None = None
    heartbeat_timeout: int | None = None


class Activity(msgspec.Struct, kw_only=True):
    """An activity execution (engine §1.5). An open one has exactly one open task, which holds its live attempt.

    ``group_base`` is the base sequence of its outermost parallel group, None for a lone activity.
    """

    run_id: str
    sequence: int
    activity_type: str
    queue: str
    status: str = "pending"
    arguments: str | None = None
    has_retry_policy: bool = False
    retry_policy: RetryPolicy = RetryPolicy()
    timeouts: Timeouts = Timeouts()
    cancellation_policy: str | None = None
    parallel_group_path: list[dict[str, Any]] | None = None
    group_base: int | None = None
    attempt_count: int = 0
    scheduled_at: datetime
    closed_at: datetime | None = None


class RecordedActivity(msgspec.Struct, frozen=True):
    """An activity of the run that a redriven one follows; ``result`` is that of its ``ActivityCompleted`` event."""

    activity_type: str
    arguments: str | None
    is_completed: bool
    result: Any


class Timer(msgspec.Struct, kw_only=True):
    """A durable timer (engine §1.6). ``due_at`` is when the clock looks at it: ``fire_at``, or later when
    it was put off.

    ``kind`` is ``timer`` or ``condition_timeout``; ``group_base`` as for activities.
    """

    run_id: str
    sequence: int
    kind: str = "timer"
    status: str = "pending"
    delay_seconds: int
    created_at: datetime
    fire_at: datetime
    due_at: datetime
    fired_at: datetime | None = None
    cancelled_at: datetime | None = None
    parallel_group_path: list[dict[str, Any]] | None = None
    group_base: int | None = None


class ChildCall(msgspec.Struct, kw_only=True):
    """A child workflow as its parent sees it (engine §1.11): one per workflow sequence of the parent.

    ``child_run_id`` is its first run, which every event names; ``current_run_id`` the one that runs now, after retries
    and continuations. ``status`` started|completed|failed|cancelled|terminated|abandoned.
    """

    run_id: str
    sequence: int
    child_workflow_id: str
    child_run_id: str
    current_run_id: str
    workflow_type: str
    status: str = "started"
    parent_close_policy: str = "abandon"
    cancellation_policy: str | None = None
    retry_policy: RetryPolicy | None = None
    execution_timeout_seconds: int | None = None
    run_timeout_seconds: int | None = None
    parallel_group_path: list[dict[str, Any]] | None = None
    group_base: int | None = None
    started_at: datetime
    closed_at: datetime | None = None


class Delivery(msgspec.Struct, kw_only=True):
    """What one run has done to another: written by the first, taken by the second under its own lock.

    ``kind`` is ``child_closed`` or ``child_continued``, about the call ``sequence`` of the run it is meant for,
    ``parent_closed`` or ``cancellation``, for a child, or ``service_call_closed``, whose body is the call that has
    ended. ``ordinal`` is given by the database and orders what one run is sent.
    """

    run_id: str
    ordinal: int = 0
    kind: str
    sequence: int = 0
    body: dict[str, Any]
    created_at: datetime


class Attempt(msgspec.Struct, kw_only=True):
    """A closed attempt, for late and repeated reports. ``status`` completed|failed|cancelled|expired.

    ``cancellation`` is what is known of the callback of an attempt that was told to stop.
    """

    run_id: str
    sequence: int
    attempt: int
    task_number: int
    status: str
    lease_owner: str | None
    reply: dict[str, Any] | None = None
    started_at: datetime | None = None
    closed_at: datetime
    cancellation: dict[str, Any] | None = None


class Receipt(msgspec.Struct, kw_only=True):
    """A closed workflow task. ``outcome`` completed|failed|waiting_for_history|cancelled."""

    run_id: str
    task_number: int
    attempt: int
    lease_owner: str | None
    outcome: str
    reply: dict[str, Any] | None = None
    closed_at: datetime


class Selection(msgspec.Struct, kw_only=True):
    """How a selection stands, by member index: open leaves, the members decided or cancelled, and the first decided."""

    open: list[int] = []
    decided: list[int] = []
    winner: int | None = None


class Group(msgspec.Struct, kw_only=True):
    """An outermost parallel group: how many leaves are still open, and the recorded path of its first leaf.

    ``selection`` is set when it is a durable selection.
    """

    run_id: str
    base_sequence: int
    size: int
    open_count: int
    first_path: list[dict[str, Any]]
    selection: Selection | None = None


class VersionMarker(msgspec.Struct, kw_only=True):
    """A recorded version decision of a run."""

    run_id: str
    change_id: str
    version: int


class InboxEvent(msgspec.Struct, kw_only=True):
    """A history event waiting for the lease to end (engine §4.4). ``resume`` is set when it will wake the run."""

    run_id: str
    event_type: str
    payload: msgspec.Raw
    resume: dict[str, Any] | None = None
    workflow_task_id: str | None = None
    workflow_command_id: str | None = None


class Event(msgspec.Struct, kw_only=True):
    """An appended history event: ``body`` is the exact JSON text that both planes serve."""

    run_id: str
    sequence: int
    event_type: str
    body: str


class Command(msgspec.Struct, kw_only=True):
    """A recorded intake command (engine §1.7); one with a ``request_id`` keeps the ``reply`` its caller was given."""

    command_id: str
    namespace: str
    workflow_id: str
    run_id: str
    command_sequence: int
    command_type: str
    target_scope: str
    status: str
    outcome: str | None
    rejection_reason: str | None = None
    request_id: str | None = None
    payload: dict[str, Any] | None = None
    source: str = "control_plane"
    context: dict[str, Any] | None = None
    accepted_at: datetime | None = None
    applied_at: datetime | None = None
    rejected_at: datetime | None = None
    reply: dict[str, Any] | None = None
