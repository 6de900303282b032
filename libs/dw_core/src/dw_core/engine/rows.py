"""What decisions read and write first: runs, tasks, and what both refer to. Field names are the column names."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.update_rows import SignalMark
from dw_core.protocol.trace_context import TraceContext
from dw_core.services.rows import ServiceWait
from dw_core.sessions.session import SessionOptions


class TaskKind(enum.IntEnum):
    """Which queue family a task belongs to. Those that are asked never pass through the engine (dw_core.queries)."""

    WORKFLOW = 0
    ACTIVITY = 1
    QUERY = 2
    UPDATE_VALIDATION = 3

    @property
    def is_asked(self) -> bool:
        """A question to a worker that somebody waits for: no history knows of it, and no run's lock delays it."""
        return self in (TaskKind.QUERY, TaskKind.UPDATE_VALIDATION)


class TaskState(enum.IntEnum):
    """Ready to be claimed, or leased to a worker. A closed task has no row, only a receipt."""

    READY = 0
    LEASED = 1


STANDALONE_ACTIVITY = "dw.standalone_activity"
"""The reserved workflow type of runs that host one activity (control-plane §15)."""


class OpenWait(msgspec.Struct, kw_only=True):
    """The condition wait a run is blocked on; each opening is a wait of its own (engine §0.1 rule 7).

    ``fire_at`` is when its timeout timer, which has the same ``sequence``, is due. ``notified_at`` is the history
    sequence of the newest event the condition may depend on, 0 when there was none since the opening. ``path`` is set
    for a condition that is a member of a selection.
    """

    sequence: int
    key: str | None = None
    fingerprint: str | None = None
    occurrence_id: str | None = None
    timeout_seconds: int | None = None
    opened_at: datetime
    fire_at: datetime | None = None
    notified_at: int = 0
    path: list[dict[str, Any]] | None = None


class Cancellation(msgspec.Struct, kw_only=True):
    """The cooperative cancellation request of a run (engine §6.12).

    ``history_sequence`` is that of its event, 0 while it waits for a lease to end; ``delivery`` names the call that was
    interrupted, None before; ``context`` is what the workflow's code is shown.
    """

    request_id: str
    reason: str | None = None
    requested_at: datetime
    cleanup_deadline_at: datetime
    context: dict[str, Any]
    history_sequence: int = 0
    delivery: dict[str, Any] | None = None
    delivered_at: datetime | None = None


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a closed run is kept for good, by which command, and why."""

    archived_at: datetime
    command_id: str
    reason: str | None = None


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded retry policy. ``max_attempts`` None is unlimited; back-offs are whole seconds (worker-plane §12.6)."""

    max_attempts: int | None = 1
    backoff_seconds: tuple[int, ...] = ()
    non_retryable_error_types: tuple[str, ...] = ()

    def pause_after(self, attempt: int) -> int | None:
        """Seconds until the next attempt when the ``attempt``-th has failed; None when there is none."""
        if self.max_attempts is not None and attempt >= self.max_attempts:
            return None
        pauses = self.backoff_seconds
        return pauses[min(attempt, len(pauses)) - 1] if pauses else 0


class ParentCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call of another run that a child run answers: its run and workflow sequence (engine §1.11).

    ``attempt`` counts the runs that retries have started; a run that continued as new belongs to the same attempt.
    """

    workflow_id: str
    run_id: str
    sequence: int
    attempt: int = 1
    retry_policy: RetryPolicy = RetryPolicy()


class Run(msgspec.Struct, kw_only=True):
    """A run: status, deadlines and the counters that decisions need (engine §1.2).

    ``blocked_build_id`` is the build that could not replay a run with ``replay_blocked``; ``has_service_calls``: the
    run answers service calls, which end with it. ``trace_context`` is that of its start, for the workers of its tasks;
    ``redrive_of`` is the failed run that it follows, taking over its results, until it goes another way.
    """

    run_id: str
    namespace: str
    workflow_id: str
    run_number: int = 1
    workflow_type: str
    queue: str
    compatibility: str | None = None
    priority: int = 5
    fairness_key: str | None = None
    fairness_weight: int = 1
    status: str = "pending"
    closed_reason: str | None = None
    started_at: datetime
    closed_at: datetime | None = None
    execution_deadline_at: datetime | None = None
    run_deadline_at: datetime | None = None
    last_progress_at: datetime
    last_history_sequence: int = 0
    history_bytes: int = 0
    next_workflow_sequence: int = 1
    next_task_number: int = 1
    next_command_sequence: int = 1
    last_wake_sequence: int = 0
    consumed_wake_sequence: int = 0
    open_activity_count: int = 0
    open_timer_count: int = 0
    open_child_count: int = 0
    pending_signal_count: int = 0
    newest_signal: SignalMark | None = None
    open_update_count: int = 0
    open_wait: OpenWait | None = None
    selected_waits: list[OpenWait] = []
    service_wait: ServiceWait | None = None
    has_service_calls: bool = False
    task_failure_count: int = 0
    replay_blocked: bool = False
    blocked_build_id: str | None = None
    cancellation: Cancellation | None = None
    cleanup_deadline_at: datetime | None = None
    sticky_worker: str | None = None
    sticky_until: datetime | None = None
    parent: ParentCall | None = None
    trace_context: TraceContext | None = None
    redrive_of: str | None = None
    continued_to_run_id: str | None = None
    archive: Archive | None = None
    output: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Closed for good."""
        return self.closed_at is not None

    @property
    def is_waiting(self) -> bool:
        """Whether something outside its code can still move the run."""
        counts = (self.open_activity_count, self.open_timer_count, self.open_child_count)
        waits = (self.open_wait, self.service_wait)
        return any(counts) or any(wait is not None for wait in waits) or bool(self.selected_waits)

    def wait(self, sequence: int) -> OpenWait | None:
        """The open condition wait with this workflow sequence, alone or in a selection."""
        if self.open_wait is not None and self.open_wait.sequence == sequence:
            return self.open_wait
        return next((wait for wait in self.selected_waits if wait.sequence == sequence), None)

    @property
    def deadline_at(self) -> datetime | None:
        """The earlier of the execution and the run deadline."""
        return _earliest(self.execution_deadline_at, self.run_deadline_at)

    @property
    def ends_at(self) -> datetime | None:
        """When the server closes the run by itself: at its deadline, or at the end of its cleanup."""
        return _earliest(self.deadline_at, self.cleanup_deadline_at)


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


class Task(msgspec.Struct, kw_only=True):
    """An open task. ``attempt`` counts claims; for activities it is the number of the newest attempt.

    ``needs_cooperation``: only for a worker that understands cancellation requests; ``is_cooperative``: its holder
    does; ``is_cancel_requested``: the holder of this activity should stop.

    An activity with a ``worker_session`` is only for the worker that holds that session, whose id stands alone too.

    Until ``reserved_until`` only the worker ``reserved_for`` may claim it, whose cache holds the run's history.
    """

    run_id: str
    task_number: int
    kind: TaskKind
    namespace: str
    queue: str
    task_type: str
    compatibility: str | None = None
    priority: int = 5
    fairness_key: str | None = None
    fairness_weight: int = 1
    state: TaskState = TaskState.READY
    available_at: datetime
    created_at: datetime
    attempt: int = 0
    repair_count: int = 0
    lease_owner: str | None = None
    leased_at: datetime | None = None
    lease_expires_at: datetime | None = None
    poll_request_id: str | None = None
    claimed_history_sequence: int = 0
    resume: dict[str, Any] | None = None
    activity_sequence: int = 0
    schedule_to_start_at: datetime | None = None
    schedule_to_close_at: datetime | None = None
    start_to_close_at: datetime | None = None
    heartbeat_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    heartbeat_details: Any = None
    sweep_at: datetime | None = None
    needs_cooperation: bool | None = None
    is_cooperative: bool | None = None
    is_cancel_requested: bool | None = None
    reserved_for: str | None = None
    reserved_until: datetime | None = None
    session_id: str | None = None
    worker_session: SessionOptions | None = None

    def next_sweep_at(self) -> datetime | None:
        """When a sweeper must look at this task: the earliest deadline that applies in its state."""
        if self.state is TaskState.LEASED:
            times = (self.lease_expires_at, self.schedule_to_close_at, self.start_to_close_at, self.heartbeat_at)
        else:
            times = (self.schedule_to_start_at, self.schedule_to_close_at, None, None)
        known = [t for t in times if t is not None]
        return min(known) if known else None


class Metadata(msgspec.Struct, kw_only=True):
    """Memo and search attributes of a run, as its start and its updates have left them.

    ``memo`` is what JSON can show of it; ``memo_blob`` is the truth once a workflow has updated it, None before.
    """

    run_id: str
    memo: dict[str, Any] = {}
    memo_blob: str | None = None
    search_attributes: dict[str, Any] = {}
    search_attribute_types: dict[str, str] | None = None


class AttributeType(msgspec.Struct, frozen=True, kw_only=True):
    """The type that a search attribute has in a namespace, fixed by its first typed use (engine §6.5)."""

    namespace: str
    name: str
    type: str


class Details(msgspec.Struct, kw_only=True):
    """What a start fixes for the life of a run and no decision reads again."""

    run_id: str
    arguments: str
    business_key: str | None = None
    memo: dict[str, Any] = {}
    memo_blob: str | None = None
    search_attributes: dict[str, Any] = {}
    search_attribute_types: dict[str, str] | None = None
    execution_timeout_seconds: int | None = None
    run_timeout_seconds: int | None = None
    command_contract: dict[str, Any] | None = None
