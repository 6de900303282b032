"""Validated commands."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.rows import RetryPolicy, Timeouts


class ScheduleActivity(msgspec.Struct, frozen=True, kw_only=True):
    """``schedule_activity``: ``path`` is the parallel group path as authored, outermost first."""

    activity_type: str
    queue: str | None
    arguments: str
    has_retry_policy: bool
    retry_policy: RetryPolicy
    timeouts: Timeouts
    path: list[dict[str, Any]] | None = None


class StartTimer(msgspec.Struct, frozen=True, kw_only=True):
    """``start_timer``: ``delay_seconds`` as authored; ``path`` as for an activity."""

    delay_seconds: int
    path: list[dict[str, Any]] | None = None


class OpenConditionWait(msgspec.Struct, frozen=True, kw_only=True):
    """``open_condition_wait``: key and fingerprint exactly as sent; no timeout when ``timeout_seconds`` is None."""

    key: str | None = None
    fingerprint: str | None = None
    timeout_seconds: int | None = None
    occurrence_id: str | None = None
    path: list[dict[str, Any]] | None = None


class CancelSelectionOperation(msgspec.Struct, frozen=True, kw_only=True):
    """``cancel_selection_operation``: names a member of an open selection as the worker knows it."""

    selection_group_id: str
    member_key: str | int
    member_index: int
    member_base_sequence: int
    member_size: int
    operation_kind: str
    operation_identity: str

    @property
    def base_sequence(self) -> int:
        """The workflow sequence of the selection's first leaf."""
        return int(self.selection_group_id.split(":")[1])


class StartChildWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """``start_child_workflow``: policies are None when they were not authored; timeouts in seconds."""

    workflow_type: str
    queue: str | None
    arguments: str
    parent_close_policy: str | None = None
    cancellation_policy: str | None = None
    retry_policy: RetryPolicy | None = None
    execution_timeout_seconds: int | None = None
    run_timeout_seconds: int | None = None
    path: list[dict[str, Any]] | None = None


class RecordSideEffect(msgspec.Struct, frozen=True, kw_only=True):
    """``record_side_effect``: the blob is stored as sent."""

    result: str


class RecordVersionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """``record_version_marker``: min_supported <= version <= max_supported."""

    change_id: str
    version: int
    min_supported: int
    max_supported: int


class CompleteWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """``complete_workflow``: a missing result is stored as the encoded null."""

    result: str


class FailWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """``fail_workflow``."""

    message: str
    exception_type: str | None = None
    exception_class: str | None = None
    exception: dict[str, Any] | None = None
    non_retryable: bool = False
    failed_step_sequence: int | None = None
    failed_activity_execution_id: str | None = None


class ContinueAsNew(msgspec.Struct, frozen=True, kw_only=True):
    """``continue_as_new``: what is None stays as it is."""

    workflow_type: str | None = None
    queue: str | None = None
    arguments: str | None = None


WorkflowCommand = (
    ScheduleActivity
    | StartTimer
    | StartChildWorkflow
    | OpenConditionWait
    | CancelSelectionOperation
    | RecordSideEffect
    | RecordVersionMarker
    | CompleteWorkflow
    | FailWorkflow
    | ContinueAsNew
)
TERMINAL = (CompleteWorkflow, FailWorkflow, ContinueAsNew)
LAST = (*TERMINAL, OpenConditionWait)
"""Commands that nothing can follow: the workflow has ended, or is blocked on its condition."""


GROUPED = (ScheduleActivity, StartTimer, StartChildWorkflow, OpenConditionWait)
"""Commands that may be leaves of a parallel group."""


def path_of(command: WorkflowCommand) -> list[dict[str, Any]] | None:
    """The parallel group path of a command; None for a lone call and for commands that are never grouped."""
    return command.path if isinstance(command, GROUPED) else None


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A valid batch: at most one terminal command, and it is last."""

    commands: tuple[WorkflowCommand, ...]

    @property
    def is_terminal(self) -> bool:
        """Whether the batch closes the run."""
        return isinstance(self.commands[-1], TERMINAL)

    @property
    def may_open_runs(self) -> bool:
        """Whether the batch starts children or may be followed by another run of the same workflow."""
        return self.may_be_succeeded or any(isinstance(c, StartChildWorkflow) for c in self.commands)

    @property
    def may_be_succeeded(self) -> bool:
        """Whether another run may follow: by continue-as-new, or because a failed child is retried."""
        return isinstance(self.commands[-1], ContinueAsNew | FailWorkflow)

    @property
    def cancelled_members(self) -> list[CancelSelectionOperation]:
        """The members of selections that the batch cancels."""
        return [c for c in self.commands if isinstance(c, CancelSelectionOperation)]

    @property
    def first_path(self) -> list[dict[str, Any]] | None:
        """The group path of the first command, which a re-sent batch is recognised by (engine §3.5)."""
        return path_of(self.commands[0])

    @property
    def scheduled_activities(self) -> int:
        """How many activities the batch opens."""
        return sum(isinstance(c, ScheduleActivity) for c in self.commands)

    @property
    def started_children(self) -> int:
        """How many children the batch starts."""
        return sum(isinstance(c, StartChildWorkflow) for c in self.commands)

    @property
    def started_timers(self) -> int:
        """How many timers the batch opens; a condition wait with a timeout has one."""
        return sum(
            isinstance(c, StartTimer) or (isinstance(c, OpenConditionWait) and c.timeout_seconds is not None)
            for c in self.commands
        )

    @property
    def change_ids(self) -> list[str]:
        """The version markers the batch records."""
        return [c.change_id for c in self.commands if isinstance(c, RecordVersionMarker)]
