"""A world for engine tests: the store in memory, a clock that only moves when told, and the calls of a worker.

A call goes the way it goes in a server: it becomes an input, the real loading code reads the snapshot it asks for,
``decide`` decides, the real writing code writes. ``decide`` is watched: it must leave its snapshot as it was.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import msgspec

from dw_core.engine.claims import Claimant
from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.commands.stream_fields import OutputDirective, StreamPosition
from dw_core.engine.decide import decide
from dw_core.engine.inputs import (
    AcknowledgeCancellation,
    ActivityInput,
    AppendMessage,
    CancelWorkflow,
    ChangeOutputStream,
    CheckActivity,
    CheckWorkflowTask,
    ClaimTask,
    CompleteActivity,
    CompleteWorkflowTask,
    DeliverCancellation,
    FailActivity,
    FailWorkflowTask,
    FireTimer,
    HeartbeatActivity,
    HeartbeatWorkflowTask,
    Input,
    RenewActivityLease,
    RepairWorkflow,
    RequestCancellation,
    SignalWorkflow,
    StartActivity,
    StartWorkflow,
    SweepTask,
    TakeDeliveries,
    TerminateWorkflow,
    TimeOutRun,
    UpdateWorkflow,
)
from dw_core.engine.rows import Details, Run, Task, TaskKind
from dw_core.engine.run_rows import Activity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.sticky import StickyClaim
from dw_core.engine.transition import Rejection, Transition, WakeKey
from dw_core.engine.update_rows import Update
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.ids import ulid
from dw_core.limits import DEFAULT_LIMITS, Limits
from dw_core.payloads.codec import EMPTY_LIST_BLOB, encode_blob
from dw_core.services import targets
from dw_core.services.rows import CallEnd, Operation, ServiceCall
from dw_runtime.pump.claims import Claimed, Claims, Waiters, Want
from dw_runtime.pump.dispatch import dispatch, missing_pages, with_pages
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Transaction
from dw_runtime.store.loading import load
from dw_runtime.store.writing import WriteSet
from tests.unit.engine.memory import Memory

Json = dict[str, Any]
Reply = Json | Rejection
T = TypeVar("T")

NAMESPACE = "default"
QUEUE = "q"
START = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)
LEASE_SECONDS = 300
SESSIONS_MAX = 10

_encode = msgspec.json.encode


def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("nothing in this world waits")


def _image(snapshot: Snapshot, change: Input) -> bytes:
    fields = {name: getattr(snapshot, name) for name in Snapshot.__struct_fields__}
    listed = {name: list(fields[name].items()) for name in ("attempts", "operations")}
    return _encode([fields | listed, change])


class World:
    """Runs, workers and a clock."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.memory = Memory()
        self.memory.now = START
        self.limits = limits
        self.transitions: list[Transition] = []
        self.held: list[Want] = []
        self.dispatched: list[Claimed] = []
        self._transaction = cast(Transaction, self.memory)
        self._ids = 0

    # -- the clock and ids -------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The database time."""
        return self.memory.now

    def later(self, seconds: float) -> None:
        """Move the clock."""
        self.memory.now += timedelta(seconds=seconds)

    def new_id(self) -> str:
        """The next ULID; they repeat from world to world."""
        self._ids += 1
        return ulid(0, self._ids.to_bytes(10, "big"))

    # -- the road of a change ----------------------------------------------------------------------------------------

    def transact(self, batch: Sequence[Input]) -> list[Reply]:
        """One transaction, as the pump runs it; polls in ``held`` may be given tasks that it opens."""
        loaded = _finish(load(self._transaction, batch))
        writes = WriteSet()
        snapshots: dict[str, Snapshot] = {}
        replies: list[Reply] = []
        for change in batch:
            snapshot = loaded.snapshot(change)
            before = _image(snapshot, change)
            outcome = decide(snapshot, change, loaded.now, self.limits)
            assert _image(snapshot, change) == before, "decide leaves its arguments alone"
            if isinstance(outcome, Rejection):
                replies.append(outcome)
                continue
            if outcome.changes_anything:
                self.transitions.append(outcome)
                writes.add(outcome)
                snapshots.update(loaded.take_over(change, outcome))
            replies.append(
                msgspec.json.decode(_encode(outcome.reply)) if isinstance(outcome.reply, dict) else outcome.reply
            )
        if not writes.is_empty:
            granted = dispatch(cast(Waiters, self), writes, snapshots, loaded.now)
            _finish(self._transaction.ask(writes.calls()))
            pages = missing_pages(granted)
            rows = _finish(self._transaction.ask(pages))
            self.dispatched += [claimed for _, claimed in with_pages(granted, rows[0] if rows else ())]
        return replies

    def take_idle(self, task: Task) -> Want | None:
        """The first held poll of a queue (tasks here have any type and no build)."""
        assert task.task_type and task.compatibility is None
        key = WakeKey(task.namespace, task.kind, task.queue)
        held = (want for want in self.held if want.key == key)
        found = next((want for want in held if task.reserved_for in (None, want.claimant.lease_owner)), None)
        if found is not None:
            self.held.remove(found)
        return found

    def submit(self, change: Input) -> Reply:
        """One input in its own transaction."""
        return self.transact([change])[0]

    # -- operators and the clock's work ------------------------------------------------------------------------------

    def start_input(self, workflow_id: str = "w", **changes: Any) -> StartWorkflow:
        """A start; ``changes`` override its fields, ``run_timeout`` and ``execution_timeout`` its details."""
        run_id = self.new_id()
        details = Details(
            run_id=run_id,
            arguments=changes.pop("arguments", EMPTY_LIST_BLOB),
            run_timeout_seconds=changes.pop("run_timeout", None),
            execution_timeout_seconds=changes.pop("execution_timeout", None),
        )
        fields: Json = {"workflow_type": "greet", "queue": QUEUE, "command_id": self.new_id(), "namespace": NAMESPACE}
        return StartWorkflow(workflow_id=workflow_id, new_run_id=run_id, details=details, **(fields | changes))

    def start(self, workflow_id: str = "w", **changes: Any) -> str:
        """Start a run and return its id."""
        reply = self.submit(self.start_input(workflow_id, **changes))
        assert isinstance(reply, dict), reply
        return str(reply["run_id"])

    def start_activity(self, activity_id: str = "job", **changes: Any) -> Reply:
        """Start a standalone activity."""
        run_id = self.new_id()
        fields: Json = {
            "namespace": NAMESPACE,
            "workflow_id": activity_id,
            "command_id": self.new_id(),
            "new_run_id": run_id,
            "activity_type": "a",
            "queue": QUEUE,
            "details": Details(run_id=run_id, arguments=EMPTY_LIST_BLOB),
        }
        return self.submit(StartActivity(**(fields | changes)))

    def terminate(self, workflow_id: str = "w", reason: str | None = None, request_id: str | None = None) -> Reply:
        """Terminate the current run of a workflow id."""
        return self.submit(
            TerminateWorkflow(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                command_id=self.new_id(),
                reason=reason,
                request_id=request_id,
            )
        )

    def cancel(self, workflow_id: str = "w", reason: str | None = None, **changes: Any) -> Reply:
        """Cancel the current run of a workflow id at once."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id(), "reason": reason}
        return self.submit(CancelWorkflow(workflow_id=workflow_id, **(fields | changes)))

    def request_input(self, workflow_id: str = "w", seconds: int = 600, **changes: Any) -> RequestCancellation:
        """A cooperative cancellation request."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id(), "cleanup_seconds": seconds}
        return RequestCancellation(workflow_id=workflow_id, requester={"type": "operator"}, **(fields | changes))

    def request_cancellation(self, workflow_id: str = "w", seconds: int = 600, **changes: Any) -> Reply:
        """Ask the current run of a workflow id to cancel itself."""
        return self.submit(self.request_input(workflow_id, seconds, **changes))

    def deliver(self, task: Task, request_id: str, sequence: int, call_kind: str, **changes: Any) -> Reply:
        """Report that a cancellation request is delivered into a call."""
        named: Json = {"request_id": request_id, "sequence": sequence, "call_kind": call_kind}
        return self.submit(DeliverCancellation(**(_fence(task) | named | changes)))

    def acknowledge(self, task: Task, request_id: str, **changes: Any) -> Reply:
        """Report that the callback of an attempt has stopped."""
        return self.submit(AcknowledgeCancellation(**(_attempt(task) | {"request_id": request_id} | changes)))

    def repair(self, workflow_id: str = "w", **changes: Any) -> Reply:
        """Repair the current run of a workflow id."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id()}
        return self.submit(RepairWorkflow(workflow_id=workflow_id, **(fields | changes)))

    def signal_input(self, workflow_id: str = "w", name: str = "go", *arguments: Any, **changes: Any) -> SignalWorkflow:
        """A signal for the current run of a workflow id."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id(), "arguments": encode_blob(list(arguments))}
        return SignalWorkflow(workflow_id=workflow_id, signal_name=name, **(fields | changes))

    def signal(self, workflow_id: str = "w", name: str = "go", *arguments: Any, **changes: Any) -> Reply:
        """Send a signal to the current run of a workflow id."""
        return self.submit(self.signal_input(workflow_id, name, *arguments, **changes))

    def update_input(
        self, workflow_id: str = "w", name: str = "set", *arguments: Any, **changes: Any
    ) -> UpdateWorkflow:
        """An update for the current run of a workflow id."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id(), "arguments": encode_blob(list(arguments))}
        return UpdateWorkflow(workflow_id=workflow_id, update_name=name, **(fields | changes))

    def update(self, workflow_id: str = "w", name: str = "set", *arguments: Any, **changes: Any) -> Reply:
        """Send an update to the current run of a workflow id."""
        return self.submit(self.update_input(workflow_id, name, *arguments, **changes))

    def message_input(
        self, workflow_id: str = "w", stream: str = "in", message_id: str = "m1", *arguments: Any, **changes: Any
    ) -> AppendMessage:
        """A message for a stream of a workflow id."""
        fields: Json = {"namespace": NAMESPACE, "command_id": self.new_id(), "arguments": encode_blob(list(arguments))}
        named: Json = {"workflow_id": workflow_id, "stream_name": stream, "message_id": message_id}
        return AppendMessage(**(named | fields | changes))

    def append(
        self, workflow_id: str = "w", stream: str = "in", message_id: str = "m1", *arguments: Any, **changes: Any
    ) -> Reply:
        """Append a message to a stream of a workflow id."""
        return self.submit(self.message_input(workflow_id, stream, message_id, *arguments, **changes))

    def change_output(self, run_id: str, directive: OutputDirective, workflow_id: str = "w") -> Reply:
        """Append to an output stream of a run from outside, or end it."""
        named: Json = {"run_id": run_id, "namespace": NAMESPACE, "workflow_id": workflow_id}
        return self.submit(ChangeOutputStream(**named, directive=directive))

    def due(self) -> list[Input]:
        """What the sweeps find now."""
        found: list[Input] = []
        for _, task in self.memory.tasks():
            if task["sweep_at"] is not None and datetime.fromisoformat(task["sweep_at"]) <= self.now:
                found.append(
                    SweepTask(
                        run_id=task["run_id"],
                        task_number=task["task_number"],
                        activity_sequence=task["activity_sequence"],
                    )
                )
        for (run_id, sequence), timer in self.memory.tables["timers"].items():
            if timer["status"] == "pending" and datetime.fromisoformat(timer["due_at"]) <= self.now:
                found.append(FireTimer(run_id=run_id, sequence=sequence))
        found += [
            TakeDeliveries(run_id=run_id) for run_id in dict.fromkeys(d["run_id"] for d in self.memory.deliveries)
        ]
        for (run_id,) in list(self.memory.tables["runs"]):
            run = self.run(run_id)
            if not run.is_terminal and run.ends_at is not None and run.ends_at <= self.now:
                found.append(TimeOutRun(run_id=run_id))
        return found

    def catalogue(self, name: str, kind: str = "start_workflow", **members: Any) -> None:
        """Put operation ``name`` of service ``desk`` of endpoint ``shop`` into the catalogue."""
        operation = Operation(
            id=name,
            service_id="desk",
            created_at=START,
            updated_at=START,
            operation_name=name,
            **(
                {"namespace": NAMESPACE, "endpoint_name": "shop", "service_name": "desk", "operation_mode": "sync"}
                | members
            ),
            handler_binding_kind=kind,
        )
        self.memory.services.operations[operation.key] = operation

    def call(self, call_id: str) -> ServiceCall:
        """A service call."""
        return msgspec.convert(self.memory.services.calls[call_id], ServiceCall)

    def accepted_calls(self) -> list[ServiceCall]:
        """The calls that a dispatcher would lease."""
        calls = [self.call(call_id) for call_id in self.memory.services.calls]
        return [call for call in calls if call.status == "accepted"]

    def serve(self, call: ServiceCall) -> Reply:
        """Start what answers a call, as the dispatcher does."""
        if call.binding_kind == "activity_execution":
            return self.submit(targets.activity_input(call))
        if call.binding_kind == "update_workflow":
            return self.submit(targets.update_input(call))
        return self.submit(targets.start_input(call, self.limits))

    def end_call(self, call_id: str, status: str = "completed", **members: Any) -> None:
        """End a call without a run, as the dispatcher does."""
        end = CallEnd(service_call_id=call_id, status=status, **({"outcome": status} | members))
        _finish(self._transaction.ask([("end_service_calls", encode_rows([end]))]))

    def sweep(self) -> list[Reply]:
        """One pass of every sweep."""
        return [self.submit(change) for change in self.due()]

    # -- workers -----------------------------------------------------------------------------------------------------

    def poll(
        self,
        kind: TaskKind,
        *,
        owner: str = "worker",
        queue: str = QUEUE,
        slots: int = 1,
        lease_seconds: int = LEASE_SECONDS,
        is_cooperative: bool = True,
    ) -> list[Claimed]:
        """What ``slots`` held polls of one worker are granted."""
        tasks = self.memory.tables["tasks"].values()
        is_sessioned = any(t["session_id"] is not None and t["queue"] == queue and t["kind"] == kind for t in tasks)
        held = poll(kind, owner, queue, lease_seconds, is_cooperative)
        held = msgspec.structs.replace(held, is_sessioned=is_sessioned, sessions_max=SESSIONS_MAX)
        claims = Claims([held] * slots)
        claims.match(*_finish(self._transaction.ask(claims.calls)))
        _finish(self._transaction.ask(claims.writes()))
        return [claimed for _, claimed in claims.granted]

    def claim_workflow(self, owner: str = "worker", *, is_cooperative: bool = True) -> Claimed:
        """Claim the one workflow task that is ready."""
        (claimed,) = self.poll(TaskKind.WORKFLOW, owner=owner, is_cooperative=is_cooperative)
        return claimed

    def claim_activity(self, owner: str = "worker") -> Claimed:
        """Claim the next ready activity task."""
        (claimed,) = self.poll(TaskKind.ACTIVITY, owner=owner)
        return claimed

    def claim_by_id(self, run_id: str, task_number: int, owner: str = "worker") -> Reply:
        """Claim one named task."""
        return self.submit(
            ClaimTask(
                run_id=run_id,
                namespace=NAMESPACE,
                task_number=task_number,
                lease_owner=owner,
                lease_seconds=LEASE_SECONDS,
            )
        )

    def complete(self, task: Task, *commands: Json, **changes: Any) -> Reply:
        """Report commands on a leased workflow task."""
        return self.submit(completion(task, *commands, **changes))

    def complete_keeping(self, task: Task, *commands: Json, ttl_seconds: int = 60, **changes: Any) -> Reply:
        """Report commands and that the worker keeps the run's history."""
        run = self.run(task.run_id)
        claim: Json = {"worker_id": task.lease_owner, "workflow_id": run.workflow_id, "run_id": run.run_id}
        sticky = StickyClaim(**(claim | {"ttl_seconds": ttl_seconds} | changes))
        return self.complete(task, *commands, sticky=sticky)

    def fail(self, task: Task, message: str = "boom", failure_type: str | None = None, **changes: Any) -> Reply:
        """Report a failure of a leased workflow task."""
        return self.submit(failed_task(task, message, failure_type, **changes))

    def wait(self, task: Task, **changes: Any) -> Reply:
        """Acknowledge a workflow task without a new command."""
        return self.fail(task, "Workflow task waiting for scheduled history.", WAITING_FOR_HISTORY, **changes)

    def heartbeat(self, task: Task, **changes: Any) -> Reply:
        """Renew the lease of a workflow task."""
        return self.submit(HeartbeatWorkflowTask(**(_fence(task) | {"lease_seconds": LEASE_SECONDS} | changes)))

    def check(self, task: Task, **changes: Any) -> Reply:
        """Ask whether a workflow task's lease is good."""
        return self.submit(CheckWorkflowTask(**(_fence(task) | changes)))

    def complete_activity(self, task: Task, result: Any = "done", **changes: Any) -> Reply:
        """Report the result of an attempt."""
        return self.submit(activity_result(task, result, **changes))

    def fail_activity(self, task: Task, failure: Json | None = None, **changes: Any) -> Reply:
        """Report the failure of an attempt."""
        return self.submit(failed_activity(task, failure, **changes))

    def heartbeat_activity(self, task: Task, progress: Json | None = None, **changes: Any) -> Reply:
        """Report progress of an attempt."""
        beat = _attempt(task) | {"lease_seconds": LEASE_SECONDS, "progress": progress}
        return self.submit(HeartbeatActivity(**(beat | changes)))

    def renew_activity_lease(self, task: Task, **changes: Any) -> Reply:
        """Renew the lease of an attempt."""
        return self.submit(RenewActivityLease(**(_attempt(task) | {"lease_seconds": LEASE_SECONDS} | changes)))

    def check_activity(self, task: Task, **changes: Any) -> Reply:
        """Ask for the status of an attempt."""
        return self.submit(CheckActivity(**(_attempt(task) | changes)))

    # -- shortcuts ---------------------------------------------------------------------------------------------------

    def decide_with(self, *commands: Json, owner: str = "worker") -> Task:
        """Claim the ready workflow task and complete it with these commands."""
        task = self.claim_workflow(owner).task
        reply = self.complete(task, *commands)
        assert isinstance(reply, dict), reply
        return task

    # -- looking -----------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> Run:
        """A run's row."""
        return msgspec.convert(self.memory.tables["runs"][run_id,], Run)

    def tasks(self, run_id: str, kind: TaskKind | None = None) -> list[Task]:
        """A run's open tasks by number."""
        tasks = [msgspec.convert(row, Task) for row in self.memory.of_run("tasks", run_id)]
        return [task for task in tasks if kind is None or task.kind is kind]

    def workflow_task(self, run_id: str) -> Task | None:
        """A run's open workflow task."""
        tasks = self.tasks(run_id, TaskKind.WORKFLOW)
        return tasks[0] if tasks else None

    def activity(self, run_id: str, sequence: int) -> Activity:
        """An activity execution."""
        return msgspec.convert(self.memory.tables["activities"][run_id, sequence], Activity)

    def updates(self, run_id: str) -> list[Update]:
        """A run's updates in the order of their acceptance."""
        rows = [row for row in self.memory.tables["updates"].values() if row["run_id"] == run_id]
        return sorted((msgspec.convert(row, Update) for row in rows), key=lambda update: update.command_sequence)

    def events(self, run_id: str) -> list[Json]:
        """A run's history, decoded."""
        return [msgspec.json.decode(row["body"]) for row in self.memory.of_run("events", run_id)]

    def types(self, run_id: str) -> list[str]:
        """The event types of a run's history."""
        return [row["event_type"] for row in self.memory.of_run("events", run_id)]


def poll(
    kind: TaskKind,
    owner: str = "worker",
    queue: str = QUEUE,
    lease_seconds: int = LEASE_SECONDS,
    is_cooperative: bool = True,
) -> Want:
    """A held poll."""
    return Want(
        key=WakeKey(NAMESPACE, kind, queue),
        claimant=Claimant(
            lease_owner=owner,
            poll_request_id=None,
            lease_seconds=lease_seconds,
            is_cooperative=is_cooperative,
        ),
        types=None,
        build_id=None,
        page_size=1000,
        is_retry_unchecked=False,
        token=None,
    )


def _fence(task: Task) -> Json:
    return {
        "run_id": task.run_id,
        "namespace": task.namespace,
        "task_number": task.task_number,
        "lease_owner": task.lease_owner,
        "attempt": task.attempt,
    }


def _attempt(task: Task) -> Json:
    return _fence(task) | {"sequence": task.activity_sequence}


def completion(
    task: Task,
    *commands: Json,
    cursors: dict[str, int] | None = None,
    waits: dict[str, int] | None = None,
    **changes: Any,
) -> CompleteWorkflowTask:
    """A completion as its handler would submit it; ``cursors`` and ``waits`` are positions by stream name."""
    parsed, errors = parse_commands(commands, _positions(cursors), _positions(waits))
    return CompleteWorkflowTask(**(_fence(task) | {"parsed": parsed, "errors": errors or None} | changes))


def _positions(named: dict[str, int] | None) -> list[StreamPosition]:
    return [StreamPosition(stream_name=name, position=position) for name, position in (named or {}).items()]


def failed_task(task: Task, message: str, failure_type: str | None = None, **changes: Any) -> FailWorkflowTask:
    """A failure report of a workflow task."""
    return FailWorkflowTask(**(_fence(task) | {"message": message, "failure_type": failure_type} | changes))


def activity_result(task: Task, result: Any = "done", **changes: Any) -> CompleteActivity:
    """A result report of an attempt."""
    return CompleteActivity(**(_attempt(task) | {"result": encode_blob(result)} | changes))


def failed_activity(task: Task, failure: Json | None = None, **changes: Any) -> FailActivity:
    """A failure report of an attempt."""
    reported = failure or {"message": "no", "type": "ValueError"}
    return FailActivity(**(_attempt(task) | {"failure": reported} | changes))


def activity_input(task: Task) -> ActivityInput:
    """The bare fence of an attempt."""
    return ActivityInput(**_attempt(task))


def rejected(reply: Reply) -> Rejection:
    """The reply, which must be a refusal."""
    assert isinstance(reply, Rejection), reply
    return reply


def accepted(reply: Reply) -> Json:
    """The reply, which must not be a refusal."""
    assert isinstance(reply, dict), reply
    return reply
