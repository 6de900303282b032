"""Inputs: everything that can change a run, as small values that name it.

Each input says which rows its decision needs (``NEEDS``), so that the locked read of a whole batch fetches exactly
those. ``run_id`` inputs name the run; instance inputs name a workflow id and act on its current run.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import msgspec

from dw_core.engine.commands.parsed import Parsed
from dw_core.engine.commands.stream_fields import OutputDirective
from dw_core.engine.rows import Details, RetryPolicy
from dw_core.engine.run_rows import Timeouts
from dw_core.engine.sticky import StickyClaim
from dw_core.protocol.trace_context import TraceContext


class Need(enum.Flag):
    """Rows beyond the run and its open workflow task that a decision reads."""

    NOTHING = 0
    INBOX = enum.auto()
    OPEN_WORK = enum.auto()
    CONTRACT = enum.auto()
    DETAILS = enum.auto()
    DELIVERIES = enum.auto()
    STREAMS = enum.auto()


class RunInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input that names its run."""

    NEEDS: ClassVar[Need] = Need.NOTHING

    run_id: str
    namespace: str | None = None

    @property
    def needs(self) -> Need:
        """The rows this decision reads."""
        return self.NEEDS


class InstanceInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input that names a workflow id in a namespace and acts on its current run."""

    NEEDS: ClassVar[Need] = Need.NOTHING

    namespace: str
    workflow_id: str
    run_id: str | None = None
    command_id: str
    context: dict[str, Any] | None = None

    @property
    def needs(self) -> Need:
        """The rows this decision reads."""
        return self.NEEDS


class StartWorkflow(InstanceInput, frozen=True, kw_only=True):
    """Start a run (control-plane §12). ``new_run_id`` is used when a run is created; ``service_call_id`` is set
    when the run is to answer a service call.

    A start with a ``request_id`` that was carried out before is answered with the run of that time. ``scheduled`` is
    what the run's history says of the schedule that starts it.
    """

    new_run_id: str
    workflow_type: str
    queue: str
    duplicate_policy: str = "fail"
    details: Details
    priority: int = 5
    fairness_key: str | None = None
    fairness_weight: int = 1
    compatibility: str | None = None
    service_call_id: str | None = None
    request_id: str | None = None
    scheduled: dict[str, Any] | None = None
    trace_context: TraceContext | None = None


class StartActivity(InstanceInput, frozen=True, kw_only=True):
    """Start a standalone activity (control-plane §15.1); ``workflow_id`` is the activity's id.

    ``service_call_id`` is set when it is to answer a service call.
    """

    new_run_id: str
    activity_type: str
    activity_class: str | None = None
    queue: str
    details: Details
    has_retry_policy: bool = False
    retry_policy: RetryPolicy = RetryPolicy()
    timeouts: Timeouts = Timeouts()
    service_call_id: str | None = None
    trace_context: TraceContext | None = None


class CommandInput(InstanceInput, frozen=True, kw_only=True):
    """A command for the current run; ``request_id`` makes its repetition harmless (control-plane §13).

    With ``target_scope`` ``run`` the named run must be the current one.
    """

    request_id: str | None = None
    target_scope: str = "instance"

    @property
    def named_run_id(self) -> str | None:
        """The run that the caller named, None when the current one was meant."""
        return self.run_id if self.target_scope == "run" else None


class SignalWorkflow(CommandInput, frozen=True, kw_only=True):
    """Send a signal (control-plane §13.1); ``arguments`` is the blob of a list.

    ``named`` are the same arguments when their caller has named them: a declared contract says in which order.
    """

    NEEDS: ClassVar[Need] = Need.CONTRACT

    signal_name: str
    arguments: str
    named: dict[str, Any] | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's validator said of an update; ``message`` and ``errors`` belong to a refusal."""

    is_approved: bool
    message: str = ""
    errors: dict[str, Any] = {}


class UpdateWorkflow(CommandInput, frozen=True, kw_only=True):
    """Send an update (control-plane §13.3); ``arguments`` and ``named`` as for a signal.

    ``verdict`` is None until the declared validator has been asked; ``caller`` names the process that waits for the
    outcome, ``service_call_id`` the service call that ends with the update.
    """

    NEEDS: ClassVar[Need] = Need.CONTRACT

    update_name: str
    arguments: str
    named: dict[str, Any] | None = None
    verdict: Verdict | None = None
    caller: str | None = None
    service_call_id: str | None = None


class AppendMessage(CommandInput, frozen=True, kw_only=True):
    """Append a message to a stream (control-plane §14.1); ``arguments`` is the blob of a list."""

    NEEDS: ClassVar[Need] = Need.STREAMS

    stream_name: str
    message_id: str
    arguments: str


class TerminateWorkflow(CommandInput, frozen=True, kw_only=True):
    """Close the current run at once (control-plane §13.5)."""

    NEEDS: ClassVar[Need] = Need.INBOX | Need.OPEN_WORK

    reason: str | None = None


class CancelWorkflow(CommandInput, frozen=True, kw_only=True):
    """Close the current run at once as cancelled (control-plane §13.5)."""

    NEEDS: ClassVar[Need] = Need.INBOX | Need.OPEN_WORK

    reason: str | None = None


class ArchiveWorkflow(CommandInput, frozen=True, kw_only=True):
    """Keep the current run, which is closed, for good (control-plane §13.8)."""

    reason: str | None = None


class RequestCancellation(CommandInput, frozen=True, kw_only=True):
    """Ask the current run to cancel itself, with time to clean up (control-plane §13.6).

    ``command_id`` becomes the id of the request. ``requester`` has ``type``, ``id`` or ``label`` of the caller.
    """

    reason: str | None = None
    cleanup_seconds: int
    requester: dict[str, str]


class RepairWorkflow(CommandInput, frozen=True, kw_only=True):
    """Offer the current run's workflow task again, also that of a blocked run (control-plane §13.7)."""

    NEEDS: ClassVar[Need] = Need.INBOX


class WorkflowTaskInput(RunInput, frozen=True, kw_only=True):
    """A report on a leased workflow task: the fence is (task, owner, attempt)."""

    NEEDS: ClassVar[Need] = Need.INBOX

    task_number: int
    lease_owner: str
    attempt: int


class CheckWorkflowTask(WorkflowTaskInput, frozen=True, kw_only=True):
    """Is this lease still good? Changes nothing (history paging)."""

    NEEDS: ClassVar[Need] = Need.NOTHING


class HeartbeatWorkflowTask(WorkflowTaskInput, frozen=True, kw_only=True):
    """Renew the lease."""

    lease_seconds: int


class CompleteWorkflowTask(WorkflowTaskInput, frozen=True, kw_only=True):
    """Apply commands and close the task. ``parsed`` is None when ``errors`` says what is wrong with them."""

    parsed: Parsed | None
    errors: dict[str, list[str]] | None = None
    sticky: StickyClaim | None = None

    @property
    def needs(self) -> Need:
        """A batch that closes the run also reads what it has to cancel, one that opens a run what that inherits."""
        if self.parsed is None:
            return Need.INBOX
        closes = Need.OPEN_WORK if self.parsed.is_terminal else Need.NOTHING
        streams = Need.STREAMS if self.parsed.reports_streams or self.parsed.may_be_succeeded else Need.NOTHING
        return Need.INBOX | closes | streams | (Need.DETAILS if self.parsed.may_open_runs else Need.NOTHING)


class DeliverCancellation(WorkflowTaskInput, frozen=True, kw_only=True):
    """Throw the run's cancellation request into one durable call (engine §6.12).

    ``sequence`` and ``sequence_span`` name the call; for a selection handle the ``operation`` ones what it stands for.
    """

    NEEDS: ClassVar[Need] = Need.INBOX | Need.OPEN_WORK

    request_id: str
    sequence: int
    call_kind: str
    sequence_span: int = 1
    operation_sequence: int | None = None
    operation_sequence_span: int = 1


class FailWorkflowTask(WorkflowTaskInput, frozen=True, kw_only=True):
    """Report a failed task, or the acknowledgement that nothing can be done before history grows (engine §4.6).

    ``build_id`` is the build of the reporting worker.
    """

    message: str
    failure_type: str | None = None
    reason: str | None = None
    build_id: str | None = None


class ActivityInput(RunInput, frozen=True, kw_only=True):
    """A report on an activity attempt: the fence is (task, attempt, owner)."""

    task_number: int
    sequence: int
    attempt: int
    lease_owner: str


class CheckActivity(ActivityInput, frozen=True, kw_only=True):
    """The status of an attempt. Changes nothing (worker-plane §12.9)."""


class HeartbeatActivity(ActivityInput, frozen=True, kw_only=True):
    """Renew the attempt's lease and heartbeat deadline, keep its progress."""

    lease_seconds: int
    progress: dict[str, Any] | None = None


class RenewActivityLease(ActivityInput, frozen=True, kw_only=True):
    """Renew the attempt's lease and nothing else (worker-plane §16.2)."""

    lease_seconds: int


class CompleteActivity(ActivityInput, frozen=True, kw_only=True):
    """The attempt succeeded with this result blob."""

    result: str


class FailActivity(ActivityInput, frozen=True, kw_only=True):
    """The attempt failed. ``failure`` keeps the neutral fields of worker-plane §12.5."""

    failure: dict[str, Any]


class AcknowledgeCancellation(ActivityInput, frozen=True, kw_only=True):
    """The worker has stopped the callback of an attempt that was to be cancelled (worker-plane §16.4)."""

    request_id: str


class SweepTask(RunInput, frozen=True, kw_only=True):
    """A task whose lease or deadline has passed, seen by a sweeper; re-checked under the lock."""

    NEEDS: ClassVar[Need] = Need.INBOX

    task_number: int
    activity_sequence: int = 0


class FireTimer(RunInput, frozen=True, kw_only=True):
    """A timer that is due, seen by the clock; re-checked under the lock."""

    NEEDS: ClassVar[Need] = Need.INBOX

    sequence: int


class TimeOutRun(RunInput, frozen=True, kw_only=True):
    """A run past its deadline, or past the end of its cleanup, seen by a sweeper; re-checked under the lock."""

    NEEDS: ClassVar[Need] = Need.INBOX | Need.OPEN_WORK | Need.DETAILS | Need.STREAMS


class ChangeOutputStream(RunInput, frozen=True, kw_only=True):
    """Append to an output stream of a run, or end it, from outside (control-plane §14.2); also of a closed run."""

    workflow_id: str
    directive: OutputDirective


class EndOverfullRun(RunInput, frozen=True, kw_only=True):
    """A run whose history is full and whose code wants to go on; re-checked under the lock."""

    NEEDS: ClassVar[Need] = Need.INBOX | Need.OPEN_WORK | Need.DETAILS


class TakeDeliveries(RunInput, frozen=True, kw_only=True):
    """Take what other runs have left for this one."""

    NEEDS: ClassVar[Need] = Need.INBOX | Need.DELIVERIES


class UnblockRun(RunInput, frozen=True, kw_only=True):
    """A worker of another build has come for a blocked run (engine §4.6); re-checked under the lock."""

    build_id: str | None


class ClaimTask(RunInput, frozen=True, kw_only=True):
    """Lease one particular task, named by its id (the ``claim`` operation of the bridges)."""

    task_number: int
    lease_owner: str
    lease_seconds: int


class ReleaseClaim(RunInput, frozen=True, kw_only=True):
    """Give a lease back: the poll it was granted to has gone away before the answer was sent."""

    NEEDS: ClassVar[Need] = Need.INBOX

    task_number: int
    activity_sequence: int = 0
    attempt: int
    lease_owner: str


class RecoverLeases(RunInput, frozen=True, kw_only=True):
    """Return the run's workflow task to ready because its owner has deregistered (worker-plane §6.3)."""

    NEEDS: ClassVar[Need] = Need.INBOX

    lease_owner: str


Input = RunInput | InstanceInput
