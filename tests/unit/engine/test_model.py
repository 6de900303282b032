"""Random worlds: anything may happen in any order, and the invariants of engine §8.2 hold after every step."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.commands.parsed import ScheduleActivity
from dw_core.engine.commands.stream_fields import NewItem, OutputDirective
from dw_core.engine.inputs import (
    AcknowledgeCancellation,
    ActivityInput,
    ArchiveWorkflow,
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
    HeartbeatActivity,
    HeartbeatWorkflowTask,
    Input,
    InstanceInput,
    RecoverLeases,
    RedriveWorkflow,
    ReleaseClaim,
    RenewActivityLease,
    RepairWorkflow,
    RequestCancellation,
    StartWorkflow,
    TerminateWorkflow,
    UnblockRun,
    WorkflowTaskInput,
)
from dw_core.engine.rows import Task, TaskKind
from dw_core.engine.sticky import StickyClaim
from dw_core.engine.transition import Rejection
from dw_core.engine.update_tasks import update_of
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.limits import Limits
from dw_core.payloads.codec import NULL_BLOB
from tests.unit.engine.commands import (
    activity,
    apply,
    attributes,
    cancel_member,
    child,
    children,
    continued,
    finish,
    give_up,
    group,
    leaf,
    local,
    memo,
    output,
    refuse,
    retrying,
    select,
    service,
    side_effect,
    timer,
    version,
    wait,
)
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import (
    LEASE_SECONDS,
    NAMESPACE,
    Json,
    Reply,
    World,
    accepted,
    activity_result,
    completion,
    failed_activity,
    failed_task,
    poll,
)

OWNERS = st.sampled_from(["ann", "bob"])
KINDS = st.sampled_from([TaskKind.WORKFLOW, TaskKind.ACTIVITY])
SECONDS = st.none() | st.sampled_from([1, 10, 40])
POLICIES = st.none() | st.builds(
    retrying,
    st.none() | st.integers(1, 3),
    st.sampled_from([0, 2, 20]),
    types=st.sampled_from([(), ("Fatal",)]),
)
TREES = st.recursive(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3),
    lambda inner: st.lists(st.sampled_from(["a", "b"]) | inner, min_size=1, max_size=3),
    max_leaves=3,
)
FAILURES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"message": "no", "type": "Flaky"},
        {"message": "no", "type": "Fatal"},
        {"message": "no", "non_retryable": True},
    ]
)
TASK_FAILURES = st.sampled_from([WAITING_FOR_HISTORY, WAITING_FOR_HISTORY, "KeyError", "NonDeterministicReplayError"])
CHANGED_FENCES: st.SearchStrategy[Json] = st.sampled_from(
    [{}] * 12 + [{"attempt": 9}, {"lease_owner": "eve"}, {"task_number": 99}]
)
OUTPUTS = st.sampled_from(["append"] * 8 + ["close", "error"])
LIMITS = Limits(pending_activity_count=12, pending_timer_count=6, pending_child_count=4, command_batch_size=9)

SESSIONS: Json = {
    "s": {"session_id": "s", "lease_seconds": 20, "ttl_seconds": 2_592_000},
    "t": {"session_id": "t", "lease_seconds": 60, "ttl_seconds": 2_592_000, "max_concurrent_activities": 2},
}

REPORTS = (CompleteWorkflowTask, FailWorkflowTask, CompleteActivity, FailActivity)
READS = (CheckActivity, CheckWorkflowTask)


@st.composite
def activities(draw: st.DrawFn) -> Json:
    """One activity with some policy and timeouts that do not contradict each other."""
    start, run, whole = sorted(draw(st.tuples(*[st.integers(1, 60)] * 3)))
    timeouts: Json = {
        "schedule_to_start_timeout": draw(st.none() | st.just(start)),
        "start_to_close_timeout": draw(st.none() | st.just(run)),
        "heartbeat_timeout": draw(st.none() | st.just(start)),
        "schedule_to_close_timeout": draw(st.none() | st.just(whole)),
    }
    session = draw(st.sampled_from([None, None, None, "s", "t"]))
    if session is not None:
        timeouts["worker_session"] = SESSIONS[session]
    stop = draw(st.sampled_from([None, None, "wait_cancellation_completed", "abandon"]))
    if stop != "abandon" or timeouts["schedule_to_close_timeout"] is not None:
        timeouts["cancellation_policy"] = stop
    return activity(draw(st.sampled_from(["a", "b"])), retry_policy=draw(POLICIES), **timeouts)


@st.composite
def child_starts(draw: st.DrawFn) -> Json:
    """One child with some policies and timeouts."""
    fields: Json = {
        "parent_close_policy": draw(st.sampled_from([None, "abandon", "request_cancel", "terminate"])),
        "retry_policy": draw(POLICIES),
        "execution_timeout_seconds": draw(st.sampled_from([None, 40])),
        "run_timeout_seconds": draw(st.sampled_from([None, 10])),
    }
    return child(**{name: value for name, value in fields.items() if value is not None})


CALLS: st.SearchStrategy[Json] = st.sampled_from([activity("a"), timer(1), timer(40), child()])
MEMBERS: st.SearchStrategy[list[Any]] = st.lists(
    CALLS | st.sampled_from([wait("a"), wait("b", 10)]) | st.lists(CALLS, min_size=1, max_size=2),
    min_size=1,
    max_size=3,
)


SERVICES: st.SearchStrategy[Json] = st.builds(
    lambda name, mode, key: service(name, mode_override=mode, idempotency_key=key),
    st.sampled_from(["greet", "tell", "missing"]),
    st.sampled_from([None, "async", "sync"]),
    st.sampled_from([None, None, "k1", "k2"]),
)


@st.composite
def batches(draw: st.DrawFn) -> list[Json]:
    """A batch of commands, now and then one that must be refused."""
    parts: list[list[Json]] = draw(
        st.lists(
            st.builds(lambda one: [one], activities())
            | st.builds(lambda: [side_effect()])
            | st.builds(lambda what, ordinal: [output(what, 1, ordinal=ordinal)], OUTPUTS, st.integers(0, 3))
            | st.builds(lambda key, seconds: [wait(key, seconds)], st.sampled_from([None, "a", "b"]), SECONDS)
            | st.builds(lambda delay: [timer(delay)], st.sampled_from([0, 1, 10, 40]))
            | st.sampled_from([[local()], [local("failed")], [attributes(Stage="paid", Count=1)], [memo(region="eu")]])
            | st.sampled_from([[attributes(Stage=None)], [memo(region=None)], [local("cancelled")]])
            | st.builds(lambda one: [one], child_starts())
            | st.builds(lambda one: [one], SERVICES)
            | st.builds(
                lambda base, size, policy: children(base, size, retry_policy=policy),
                st.integers(1, 9),
                st.integers(1, 2),
                POLICIES,
            )
            | st.builds(lambda base, members: select(base, *members), st.integers(1, 9), MEMBERS)
            | st.builds(lambda change, number: [version(change, number)], st.sampled_from("xy"), st.integers(0, 1))
            | st.builds(
                lambda base, tree, policy: group(base, tree, retry_policy=policy), st.integers(1, 9), TREES, POLICIES
            ),
            min_size=1,
            max_size=3,
        )
    )
    end: list[Json] = draw(
        st.sampled_from(
            [[]] * 12
            + [[finish()], [give_up()], [continued()], [finish(), side_effect()], [{"type": "no_such_command"}]]
        )
    )
    return [command for part in parts for command in part] + end


class Engine(RuleBasedStateMachine):
    """Operators, workers, sweeps and the clock act on one world."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(LIMITS)
        self.watch = Watch(self.world)
        self.claimed: list[Task] = []
        self.answered: list[tuple[Input, Reply]] = []

    # -- building inputs ---------------------------------------------------------------------------------------------

    def _lease(self, data: st.DataObject) -> Task:
        """One of the leases ever granted, the newest most often."""
        back = data.draw(st.sampled_from([1, 1, 1, 2, 2, 3, 5, 8]))
        return self.claimed[-min(back, len(self.claimed))]

    def _workflow_report(self, task: Task, data: st.DataObject) -> Input:
        kind = data.draw(st.sampled_from(["complete"] * 3 + ["again", "cancel", "fail", "beat", "check", "deliver"]))
        changes = data.draw(CHANGED_FENCES)
        update_id = update_of(task)
        if update_id is not None and data.draw(st.integers(0, 4)):
            return completion(task, data.draw(st.sampled_from([apply(update_id), refuse(update_id)])), **changes)
        if kind == "complete":
            keeps = StickyClaim(
                worker_id=task.lease_owner or "",
                workflow_id=self.world.run(task.run_id).workflow_id,
                run_id=task.run_id,
                ttl_seconds=data.draw(st.sampled_from([2, 60])),
            )
            sticky = data.draw(st.sampled_from([None, None, keeps]))
            return completion(task, *data.draw(batches()), sticky=sticky, **self._positions(task, data), **changes)
        if kind == "again":
            return completion(task, *self._recorded_group(task.run_id, data), **changes)
        if kind == "cancel":
            return completion(task, *self._cancelled_member(task.run_id, data), **changes)
        if kind == "fail":
            return failed_task(task, "boom", data.draw(TASK_FAILURES), **changes)
        fence = _fence(task) | changes
        if kind == "beat":
            return HeartbeatWorkflowTask(**fence, lease_seconds=LEASE_SECONDS)
        if kind == "deliver":
            return self._delivery(task, fence, data)
        return CheckWorkflowTask(**fence)

    def _positions(self, task: Task, data: st.DataObject) -> Json:
        """What a worker reports of message streams: now and then a position that was never appended."""
        if not data.draw(st.booleans()):
            return {}
        owner = (NAMESPACE, self.world.run(task.run_id).workflow_id)
        streams = [row for key, row in self.world.memory.tables["streams"].items() if key[:2] == owner]
        beyond = data.draw(st.sampled_from([0] * 9 + [1]))
        cursors = {s["stream_name"]: data.draw(st.integers(0, s["last_position"])) + beyond for s in streams}
        return {"cursors": cursors, "waits": data.draw(st.sampled_from([{}, {"a": 0}, {"c": 0}]))}

    def _delivery(self, task: Task, fence: Json, data: st.DataObject) -> Input:
        """A cancellation reported into the next call, into a recorded one, or into nothing that is there."""
        run = self.world.run(task.run_id)
        request_id = "none" if run.cancellation is None else run.cancellation.request_id
        following = run.next_workflow_sequence
        span = data.draw(st.sampled_from([1, 1, 1, 2]))
        return DeliverCancellation(
            **fence,
            request_id=request_id,
            sequence=data.draw(st.sampled_from([following, max(1, following - 1), max(1, following - 2), 40])),
            call_kind="parallel" if span > 1 else data.draw(st.sampled_from(["activity", "timer", "condition"])),
            sequence_span=span,
        )

    def _recorded_group(self, run_id: str, data: st.DataObject) -> list[Json]:
        """A recorded group exactly as it is re-sent, or an invalid batch when there is none."""
        groups = self.world.memory.of_run("groups", run_id)
        if not groups:
            return []
        base = data.draw(st.sampled_from([row["base_sequence"] for row in groups]))
        leaves = [row for row in self.world.memory.of_run("activities", run_id) if row["group_base"] == base]
        return [leaf(row["parallel_group_path"], row["activity_type"]) for row in leaves]

    def _cancelled_member(self, run_id: str, data: st.DataObject) -> list[Json]:
        """The cancellation of a member of a recorded selection, or an invalid batch when there is none."""
        groups = [row for row in self.world.memory.of_run("groups", run_id) if row["selection"] is not None]
        if not groups:
            return []
        row = data.draw(st.sampled_from(groups))
        leaves = [
            found["payload"]["parallel_group_path"][0]
            for found in self.world.events(run_id)
            if found["payload"].get("parallel_group_path", [{}])[0].get("parallel_group_base_sequence")
            == row["base_sequence"]
        ]
        outer = data.draw(st.sampled_from(leaves))
        return [
            cancel_member(
                row["base_sequence"],
                row["size"],
                outer["selection_member_index"],
                outer["selection_member_base_sequence"],
                member_size=outer["selection_member_size"],
            )
        ]

    def _activity_report(self, task: Task, data: st.DataObject) -> Input:
        kind = data.draw(st.sampled_from(["complete"] * 2 + ["fail"] * 2 + ["beat", "renew", "check", "stopped"]))
        changes = data.draw(CHANGED_FENCES)
        if kind == "complete":
            return activity_result(task, **changes)
        if kind == "fail":
            return failed_activity(task, data.draw(FAILURES), **changes)
        fence = _fence(task) | {"sequence": task.activity_sequence} | changes
        if kind == "stopped":
            request = self.world.run(task.run_id).cancellation
            return AcknowledgeCancellation(**fence, request_id="none" if request is None else request.request_id)
        if kind == "beat":
            return HeartbeatActivity(**fence, lease_seconds=LEASE_SECONDS, progress={"n": 1})
        if kind == "renew":
            return RenewActivityLease(**fence, lease_seconds=LEASE_SECONDS)
        return CheckActivity(**fence)

    def _report(self, data: st.DataObject) -> Input:
        task = self._lease(data)
        build = self._workflow_report if task.kind is TaskKind.WORKFLOW else self._activity_report
        return build(task, data)

    # -- submitting --------------------------------------------------------------------------------------------------

    def _submit(self, *batch: Input) -> None:
        image = self.world.memory.image() if len(batch) == 1 else b""
        replies = self.world.transact(batch)
        for change, reply in zip(batch, replies, strict=True):
            self._check_reply(change, reply, is_alone=len(batch) == 1)
        if len(batch) == 1 and _changes_nothing(batch[0], replies[0]):
            assert self.world.memory.image() == image, "18, 25: a refusal changes nothing"
        self.answered.extend(zip(batch, replies, strict=True))
        self.claimed += [found.task for found in self.world.dispatched]
        self.world.dispatched.clear()
        self.watch.look()

    def _check_reply(self, change: Input, reply: Reply, *, is_alone: bool) -> None:
        if isinstance(change, StartWorkflow) and isinstance(reply, dict):
            assert self.world.memory.instances[NAMESPACE, change.workflow_id] == reply["run_id"], "34, 36"
        if isinstance(change, HeartbeatActivity) and isinstance(reply, dict) and reply["can_continue"]:
            assert reply["run_closed_at"] is None, "30: a heartbeat never continues a closed run"
        if is_alone and isinstance(change, RenewActivityLease) and isinstance(reply, dict):
            assert not self.world.run(change.run_id).is_terminal, "30: a lease of a closed run is never renewed"

    @initialize()
    def begin(self) -> None:
        """There is a run to work on."""
        self.world.catalogue("greet", handler_binding={"workflow_type": "greeting", "task_queue": "q"})
        self.world.catalogue("tell", "signal_workflow")
        self.world.start("w0", queue="q")
        self.watch.look()

    @rule(number=st.integers(0, 2), policy=st.sampled_from(["fail", "use-existing"]), twice=st.booleans(), run=SECONDS)
    def start(self, number: int, policy: str, twice: bool, run: int | None) -> None:
        """One start, or two of one workflow id at once."""
        starts = [
            self.world.start_input(f"w{number}", duplicate_policy=policy, run_timeout=run) for _ in range(1 + twice)
        ]
        was_known = (NAMESPACE, f"w{number}") in self.world.memory.instances
        before = len(self.world.memory.tables["runs"])
        self._submit(*starts)
        assert len(self.world.memory.tables["runs"]) == before + (not was_known), "36: one start creates the run"

    @rule(number=st.integers(0, 1), policy=POLICIES, wait=SECONDS)
    def start_activity(self, number: int, policy: Json | None, wait: int | None) -> None:
        """A standalone activity, now and then under an id that is taken."""
        command = activity("a", retry_policy=policy, start_to_close_timeout=wait)
        parsed, errors = parse_commands([command])
        assert parsed is not None, errors
        (scheduled,) = parsed.commands
        assert isinstance(scheduled, ScheduleActivity)
        before = self.world.memory.image()
        reply = self.world.start_activity(
            f"job{number}",
            has_retry_policy=scheduled.has_retry_policy,
            retry_policy=scheduled.retry_policy,
            timeouts=scheduled.timeouts,
        )
        assert isinstance(reply, dict) or self.world.memory.image() == before, "a used id changes nothing"
        self.watch.look()

    @rule(number=st.integers(0, 2), name=st.sampled_from("xy"), times=st.integers(1, 3), once=st.booleans())
    def signal(self, number: int, name: str, times: int, once: bool) -> None:
        """Signals, some of them sent twice."""
        request_id = self.world.new_id() if once else None
        sent = [self.world.signal_input(f"w{number}", name, request_id=request_id) for _ in range(times)]
        self._submit(*sent)

    @rule(number=st.integers(0, 2), stream=st.sampled_from("ab"), ids=st.lists(st.integers(0, 6), max_size=4))
    def append(self, number: int, stream: str, ids: list[int]) -> None:
        """Messages, some of them sent twice, some with another content."""
        self._submit(*[self.world.message_input(f"w{number}", stream, f"m{one // 2}", one == 6) for one in ids])

    @rule(data=st.data(), operation=st.sampled_from(["append", "append", "append", "close", "error"]))
    def change_output(self, data: st.DataObject, operation: str) -> None:
        """An operator appends to an output stream, or ends it."""
        run_id = data.draw(st.sampled_from(sorted(key[0] for key in self.world.memory.tables["runs"])))
        keys = data.draw(st.lists(st.sampled_from([None, "k", "l"]), min_size=1, max_size=3))
        items = tuple(NewItem(payload=NULL_BLOB, idempotency_key=key) for key in keys)
        directive = OutputDirective(operation=operation, stream_name="out", items=items, error_reason="broken")
        fields = {"run_id": run_id, "namespace": NAMESPACE, "workflow_id": self.world.run(run_id).workflow_id}
        self._submit(ChangeOutputStream(**fields, directive=directive))

    @rule(number=st.integers(0, 2), name=st.sampled_from("xy"), times=st.integers(1, 3), once=st.booleans())
    def update(self, number: int, name: str, times: int, once: bool) -> None:
        """Updates, some of them sent twice."""
        request_id = self.world.new_id() if once else None
        self._submit(*[self.world.update_input(f"w{number}", name, request_id=request_id) for _ in range(times)])

    @rule(kind=KINDS, owner=OWNERS, slots=st.integers(1, 3))
    def poll(self, kind: TaskKind, owner: str, slots: int) -> None:
        """A worker polls."""
        for found in self.world.poll(kind, owner=owner, slots=slots):
            self.claimed.append(found.task)
        self.watch.look()

    @rule(data=st.data(), owner=OWNERS, times=st.integers(1, 4))
    def work(self, data: st.DataObject, owner: str, times: int) -> None:
        """A worker does what it is given and reports at once: most of what happens in a server."""
        for _ in range(times):
            for kind in (TaskKind.WORKFLOW, TaskKind.ACTIVITY):
                for found in self.world.poll(kind, owner=owner):
                    self.claimed.append(found.task)
                    self.watch.look()
                    self._submit(self._report_on(found.task, data))

    def _report_on(self, task: Task, data: st.DataObject) -> Input:
        if task.kind is TaskKind.ACTIVITY:
            return activity_result(task) if data.draw(st.booleans()) else failed_activity(task, data.draw(FAILURES))
        run = self.world.run(task.run_id)
        if run.cancellation is not None and run.cancellation.delivery is None and data.draw(st.booleans()):
            return self._delivery(task, _fence(task), data)
        return completion(task, *data.draw(batches()))

    @rule(kind=KINDS, owner=OWNERS)
    def hold_poll(self, kind: TaskKind, owner: str) -> None:
        """A worker's poll waits for a task to be opened."""
        self.world.held.append(poll(kind, owner))

    @rule(data=st.data(), owner=OWNERS)
    def claim_by_id(self, data: st.DataObject, owner: str) -> None:
        """A worker names the task it wants."""
        tasks = [row for _, row in self.world.memory.tasks()]
        if not tasks:
            return
        row = data.draw(st.sampled_from(tasks))
        fence = {"run_id": row["run_id"], "namespace": NAMESPACE, "task_number": row["task_number"]}
        reply = self.world.submit(ClaimTask(**fence, lease_owner=owner, lease_seconds=LEASE_SECONDS))
        if isinstance(reply, dict):
            stored = self.world.memory.tables["tasks"][row["run_id"], row["task_number"]]
            self.claimed.append(msgspec.convert(stored, Task))
        self.watch.look()

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        """A worker reports on a lease it has, or once had."""
        self._submit(self._report(data))

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), size=st.integers(2, 4))
    def report_together(self, data: st.DataObject, size: int) -> None:
        """Several reports meet in one transaction."""
        self._submit(*[self._report(data) for _ in range(size)])

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A request is sent once more; a report that was recorded gets its answer and does nothing."""
        change, before = data.draw(st.sampled_from(self.answered[-12:]))
        if isinstance(change, InstanceInput):
            change = msgspec.structs.replace(change, command_id=self.world.new_id())
        image = self.world.memory.image()
        reply = self.world.submit(change)
        if isinstance(change, REPORTS) and isinstance(before, dict):
            assert reply == before, "18: the stored answer"
            assert self.world.memory.image() == image, "18: nothing is done twice"
        self.watch.look()

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A lease is given back, or its owner deregisters."""
        task = self._lease(data)
        if data.draw(st.booleans()):
            self._submit(RecoverLeases(run_id=task.run_id, lease_owner=task.lease_owner or ""))
            return
        self._submit(
            ReleaseClaim(
                run_id=task.run_id,
                task_number=task.task_number,
                activity_sequence=task.activity_sequence,
                attempt=task.attempt,
                lease_owner=task.lease_owner or "",
            )
        )

    @rule(number=st.integers(0, 2), data=st.data())
    def operate(self, number: int, data: st.DataObject) -> None:
        """An operator ends, archives or repairs a run, or asks it to cancel itself; or a worker registers."""
        fields: dict[str, Any] = {
            "namespace": NAMESPACE,
            "workflow_id": f"w{number}",
            "command_id": self.world.new_id(),
            "request_id": data.draw(st.sampled_from([None, f"r{number}"])),
        }
        what = data.draw(
            st.sampled_from(["request"] * 3 + ["repair"] * 2 + ["end", "archive", "unblock"] + ["redrive"] * 3)
        )
        if what == "request":
            seconds = data.draw(st.sampled_from([5, 600, 600]))
            self._submit(*[self.world.request_input(f"w{number}", seconds) for _ in range(1 + number % 2)])
        elif what == "repair":
            self._submit(RepairWorkflow(**fields))
        elif what == "redrive":
            run_id = self.world.memory.instances.get((NAMESPACE, f"w{number}"))
            if run_id is not None:
                self._submit(RedriveWorkflow(run_id=run_id, target_scope="run", **fields))
        elif what == "archive":
            self._submit(ArchiveWorkflow(reason=data.draw(st.sampled_from([None, "audit"])), **fields))
        elif what == "end":
            self._submit(data.draw(st.sampled_from([CancelWorkflow, TerminateWorkflow]))(**fields))
        elif self.claimed:
            build_id = data.draw(st.sampled_from([None, "new"]))
            self._submit(UnblockRun(run_id=self._lease(data).run_id, build_id=build_id))

    @rule(data=st.data())
    def dispatch(self, data: st.DataObject) -> None:
        """The dispatcher takes a service call that is due, maybe one that another dispatcher has taken before."""
        calls = [self.world.call(call_id) for call_id in self.world.memory.services.calls]
        if not calls:
            return
        call = data.draw(st.sampled_from(calls))
        what = data.draw(st.sampled_from(["serve", "serve", "end", "cancel"]))
        if what == "serve" and call.binding_kind == "start_workflow":
            self.world.serve(call)
        else:
            self.world.end_call(call.service_call_id, "cancelled" if what == "cancel" else "completed")
        self.watch.look()

    @rule(seconds=st.sampled_from([0.5, 1, 3, 10, 30, 300]))
    def pass_time(self, seconds: float) -> None:
        """Time passes."""
        self.world.later(seconds)

    @rule(together=st.booleans(), replicas=st.integers(1, 2))
    def sweep(self, together: bool, replicas: int) -> None:
        """The sweeps look at everything that is due; two replicas may have found the same and do all of it."""
        due = self.world.due() * replicas
        if together:
            self._submit(*due)
        else:
            for change in due:
                self._submit(change)

    def teardown(self) -> None:
        """21: with a live worker, a live sweep and a signal for who waits for one, every run comes to its end."""
        for step in range(900):
            if all(self.world.run(key[0]).is_terminal for key in self.world.memory.tables["runs"]):
                return
            self.world.later(1 if step % 30 else LEASE_SECONDS)  # nobody is always too late for a start-by deadline
            self.world.sweep()
            for call in self.world.accepted_calls():
                self.world.end_call(call.service_call_id)
            for namespace, workflow_id in list(self.world.memory.instances):
                run = self.world.run(self.world.memory.instances[namespace, workflow_id])
                if run.open_wait is not None or run.selected_waits:
                    accepted(self.world.signal(workflow_id))
                if run.replay_blocked and not run.is_terminal:
                    accepted(self.world.repair(workflow_id))
            for found in self.world.poll(TaskKind.ACTIVITY, slots=50):
                accepted(self.world.complete_activity(found.task))
            for found in self.world.poll(TaskKind.WORKFLOW, slots=50):
                update_id = update_of(found.task)
                self.world.complete(found.task, finish() if update_id is None else apply(update_id))
            self.watch.look()
        raise AssertionError(f"21: a run never ends: {self._open_runs()}")

    def _open_runs(self) -> list[Any]:
        runs = [self.world.run(key[0]) for key in self.world.memory.tables["runs"]]
        return [(run, self.world.types(run.run_id)) for run in runs if not run.is_terminal]


def _fence(task: Task) -> dict[str, Any]:
    return {
        "run_id": task.run_id,
        "namespace": NAMESPACE,
        "task_number": task.task_number,
        "lease_owner": task.lease_owner,
        "attempt": task.attempt,
    }


def _changes_nothing(change: Input, reply: Reply) -> bool:
    """Whether this answer promises that nothing has happened."""
    if isinstance(change, READS):
        return True
    if not isinstance(reply, Rejection):
        return isinstance(change, HeartbeatActivity) and not reply["heartbeat_recorded"]
    if isinstance(change, HeartbeatActivity) and "worker_session_renewal" in reply.fields:
        return False
    if isinstance(change, RequestCancellation):
        return True
    if isinstance(change, InstanceInput):
        return reply.reason in {"validation_failed", "instance_not_found"}
    is_overdue = isinstance(change, ActivityInput) and "deadline" in reply.message
    assert isinstance(change, WorkflowTaskInput | ActivityInput) or reply.reason in {
        "task_not_leased",
        "task_not_found",
        "task_not_claimable",
        "run_not_active",
        "stream_not_found",
        "stream_closed",
        "stream_errored",
    }
    return not is_overdue


_QUICK = [Phase.explicit, Phase.reuse, Phase.generate]
"""Shrinking a failure takes minutes; ``DW_TEST_SHRINK=1`` asks for it."""

TestEngine = Engine.TestCase
TestEngine.settings = settings(
    max_examples=int(os.environ.get("DW_TEST_EXAMPLES", "40")),
    stateful_step_count=40,
    deadline=None,
    phases=list(Phase) if os.environ.get("DW_TEST_SHRINK") else _QUICK,
)
