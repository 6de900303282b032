"""Validated commands."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dw_core.engine.commands.fields import INTEGER_MAX
from dw_core.engine.commands.stream_fields import OutputDirective, StreamPosition
from dw_core.engine.rows import RetryPolicy
from dw_core.engine.run_rows import Timeouts
from dw_core.limits import SECONDS_MAX
from dw_core.services.rows import CallOptions
from dw_core.sessions.session import SessionOptions


class ScheduleActivity(msgspec.Struct, frozen=True, kw_only=True):
    """``schedule_activity``: ``path`` is the parallel group path as authored, outermost first."""

    activity_type: str
    queue: str | None
    arguments: str
    has_retry_policy: bool
    retry_policy: RetryPolicy
    timeouts: Timeouts
    cancellation_policy: str | None = None
    path: list[dict[str, Any]] | None = None
    worker_session: SessionOptions | None = None


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

    @property
    def needs_cooperation(self) -> bool:
        """Whether its policies ask for cooperative cancellation, which the worker must have declared."""
        return self.cancellation_policy not in (None, "abandon") or self.parent_close_policy == "request_cancellation"


class RecordSideEffect(msgspec.Struct, frozen=True, kw_only=True):
    """``record_side_effect``: the blob is stored as sent; ``output`` is what it does to an output stream."""

    result: str
    output: OutputDirective | None = None


class RecordVersionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """``record_version_marker``: min_supported <= version <= max_supported."""

    change_id: str
    version: int
    min_supported: int
    max_supported: int


class UpsertSearchAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """``upsert_search_attributes``: ``types`` are the declared ones; a null value removes its name."""

    attributes: dict[str, Any]
    types: dict[str, str]


class UpsertMemo(msgspec.Struct, frozen=True, kw_only=True):
    """``upsert_memo``: ``blob`` is the patch as sent, ``entries`` what it holds; a null entry removes its key."""

    blob: str
    entries: dict[str, Any]


class LocalHeartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A heartbeat of a local attempt, some milliseconds after its start (strict)."""

    elapsed_ms: Annotated[int, Meta(ge=0, le=INTEGER_MAX)]
    details: dict[str, Any] | None = None


class LocalAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One attempt of a local activity, as the worker reports it (strict; engine §6.14)."""

    attempt_number: int
    outcome: Literal["completed", "failed", "timed_out", "cancelled"]
    attempt_id: Annotated[str, Meta(max_length=255)] | None = None
    duration_ms: Annotated[int, Meta(ge=0, le=INTEGER_MAX)] | None = None
    message: str | None = None
    exception_type: Annotated[str, Meta(max_length=255)] | None = None
    non_retryable: bool = False
    timeout_kind: Literal["start_to_close", "schedule_to_close", "heartbeat"] | None = None
    retry_reason: Literal["failure", "timeout", "cold_replay"] | None = None
    backoff_seconds: Annotated[int, Meta(ge=0, le=SECONDS_MAX)] | None = None
    heartbeats: list[LocalHeartbeat] = []


class RecordLocalActivity(msgspec.Struct, frozen=True, kw_only=True):
    """``record_local_activity``: work already done by the worker; ``result`` is a blob when it has completed."""

    activity_type: str
    outcome: str
    attempts: tuple[LocalAttempt, ...]
    arguments: str
    result: str | None
    message: str | None
    exception_type: str | None
    non_retryable: bool
    timeout_kind: str | None
    has_retry_policy: bool
    retry_policy: RetryPolicy
    timeouts: Timeouts


class StartServiceOperation(msgspec.Struct, frozen=True, kw_only=True):
    """``start_service_operation``: names as authored; ``namespace`` None is the run's own."""

    endpoint_name: str
    service_name: str
    operation_name: str
    request_payload: str
    namespace: str | None = None
    idempotency_key: str | None = None
    mode_override: str | None = None
    wait_for: str | None = None
    wait_timeout_seconds: int | None = None
    metadata: dict[str, Any] | None = None
    options: CallOptions = CallOptions()

    @property
    def is_answered_at_once(self) -> bool:
        """Whether the code only waits for the call to be accepted (engine §2.11)."""
        return self.wait_for == "accepted" or self.mode_override == "async"


class CompleteUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``complete_update``: a missing result is stored as the encoded null."""

    update_id: str
    result: str


class FailUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``fail_update``."""

    update_id: str
    message: str
    exception_type: str | None = None
    exception_class: str | None = None
    non_retryable: bool = False


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
    | UpsertSearchAttributes
    | UpsertMemo
    | RecordLocalActivity
    | StartServiceOperation
    | CompleteUpdate
    | FailUpdate
    | CompleteWorkflow
    | FailWorkflow
    | ContinueAsNew
)
UPDATES = (CompleteUpdate, FailUpdate)
TERMINAL = (CompleteWorkflow, FailWorkflow, ContinueAsNew)
LAST = (*TERMINAL, OpenConditionWait)
"""Commands that nothing can follow: the workflow has ended, or is blocked on its condition."""


GROUPED = (ScheduleActivity, StartTimer, StartChildWorkflow, OpenConditionWait)
"""Commands that may be leaves of a parallel group."""


def path_of(command: WorkflowCommand) -> list[dict[str, Any]] | None:
    """The parallel group path of a command; None for a lone call and for commands that are never grouped."""
    return command.path if isinstance(command, GROUPED) else None


_PAYLOADS = ("arguments", "result", "blob", "request_payload")


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A valid batch: at most one terminal command, and it is last.

    ``cursors`` and ``waits`` are what the worker reports of message streams beside it.
    """

    commands: tuple[WorkflowCommand, ...]
    cursors: tuple[StreamPosition, ...] = ()
    waits: tuple[StreamPosition, ...] = ()

    @property
    def reports_streams(self) -> bool:
        """Whether the worker says how far it has consumed message streams, or what it waits for."""
        return bool(self.cursors or self.waits)

    @property
    def outputs(self) -> list[OutputDirective]:
        """What the batch does to output streams."""
        effects = (c for c in self.commands if isinstance(c, RecordSideEffect))
        return [effect.output for effect in effects if effect.output is not None]

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
    def service_operations(self) -> list[StartServiceOperation]:
        """The service operations that the batch calls."""
        return [c for c in self.commands if isinstance(c, StartServiceOperation)]

    @property
    def largest_payload(self) -> int:
        """Bytes of the largest payload of the batch."""
        blobs = [getattr(c, name, None) for c in self.commands for name in _PAYLOADS]
        blobs += [item.payload for output in self.outputs for item in output.items]
        return max((len(blob) * 3 // 4 for blob in blobs if isinstance(blob, str)), default=0)

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
    def updates_metadata(self) -> bool:
        """Whether the batch changes memo or search attributes."""
        return any(isinstance(c, UpsertMemo | UpsertSearchAttributes) for c in self.commands)

    @property
    def required_capabilities(self) -> list[tuple[str, str]]:
        """What the reporting worker must have declared, each with the reason of the refusal otherwise (engine §3.3)."""
        needed: dict[str, str] = {}
        if self.reports_streams:
            needed["message_streams"] = "message_streams_unavailable"
        for command in self.commands:
            match command:
                case UpsertMemo():
                    needed["memo_upserts"] = "workflow_metadata_capability_not_advertised"
                case UpsertSearchAttributes(types=types) if types:
                    needed["typed_search_attributes"] = "typed_search_attributes_unavailable"
                case ScheduleActivity(cancellation_policy=policy) if policy is not None:
                    needed["cooperative_cancellation"] = "activity_cancellation_policy_not_supported"
                case StartChildWorkflow() if command.needs_cooperation:
                    needed["cooperative_cancellation"] = "child_cancellation_policy_not_supported"
                case RecordLocalActivity():
                    needed["local_activities"] = "worker_capability_not_supported"
        return list(needed.items())

    @property
    def started_types(self) -> list[tuple[str, str]]:
        """Queue and type of the runs the batch starts, as far as it names both."""
        return [
            (c.queue, c.workflow_type)
            for c in self.commands
            if isinstance(c, StartChildWorkflow | ContinueAsNew) and c.queue is not None and c.workflow_type is not None
        ]

    @property
    def update_ids(self) -> list[str]:
        """The updates the batch reports on."""
        return [c.update_id for c in self.commands if isinstance(c, UPDATES)]

    @property
    def change_ids(self) -> list[str]:
        """The version markers the batch records."""
        return [c.change_id for c in self.commands if isinstance(c, RecordVersionMarker)]
