"""The workflows of the golden histories: small, one or two capabilities each, nothing that time or chance decides."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from durable_workflow import workflow
from durable_workflow.client import WorkflowStreamAppendItem
from durable_workflow.errors import (
    ActivityFailed,
    ChildWorkflowFailed,
    DurableOperationCancelled,
    NexusOperationFailed,
    WorkflowCancelled,
)
from durable_workflow.workflow import ContinueAsNew, WorkflowContext

Steps = Generator[Any, Any, Any]
TWICE = {"max_attempts": 2, "backoff_seconds": [5]}


@workflow.defn(name="golden.activities")
class Activities:
    """Two activities in sequence; the second is tried twice and beats its heart."""

    def run(self, ctx: WorkflowContext, name: str) -> Steps:
        first = yield ctx.schedule_activity("echo", [name])
        return (yield ctx.schedule_activity("flaky", [first], retry_policy=TWICE, heartbeat_timeout=60))


@workflow.defn(name="golden.activity-timeouts")
class ActivityTimeouts:
    """One activity that nobody takes in time, one that takes too long, twice, and one whose heart stops."""

    def run(self, ctx: WorkflowContext) -> Steps:
        caught = []
        for name, options in (
            ("elsewhere", {"queue": "nobody", "schedule_to_start_timeout": 10}),
            ("never", {"start_to_close_timeout": 20, "retry_policy": TWICE}),
            ("never", {"heartbeat_timeout": 5, "schedule_to_close_timeout": 600}),
        ):
            try:
                yield ctx.schedule_activity(name, [], **options)
            except ActivityFailed as error:
                caught.append(error.activity_type)
        return caught


@workflow.defn(name="golden.saga")
class Saga:
    """Two steps, a failure, and the compensation of both in reverse order."""

    def run(self, ctx: WorkflowContext, order: str) -> Steps:
        done = []
        try:
            for step in ("reserve", "charge"):
                yield ctx.schedule_activity("echo", [f"{step} {order}"])
                done.append(step)
            yield ctx.schedule_activity("broken", [order])
        except ActivityFailed:
            for step in reversed(done):
                yield ctx.schedule_activity("echo", [f"undo {step} {order}"])
        return done


@workflow.defn(name="golden.groups")
class Groups:
    """A flat group, and a nested one of activities, timers and a child."""

    def run(self, ctx: WorkflowContext) -> Steps:
        flat = yield [ctx.schedule_activity("echo", [n]) for n in range(3)]
        nested = yield [
            ctx.schedule_activity("echo", ["a"]),
            [ctx.start_timer(30), ctx.schedule_activity("echo", ["b"])],
            ctx.start_child_workflow("golden.echo-child", ["c"]),
        ]
        return [flat, nested]


@workflow.defn(name="golden.group-failure")
class GroupFailure:
    """A group in which one activity fails; the run fails with it."""

    def run(self, ctx: WorkflowContext) -> Steps:
        return (yield [ctx.schedule_activity("echo", [1]), ctx.schedule_activity("broken", [2])])


@workflow.defn(name="golden.timers")
class Timers:
    """A timer of no time, and one of an hour."""

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.start_timer(0)
        yield ctx.sleep(3600)
        return "awake"


@workflow.defn(name="golden.signals")
class Signals:
    """Signals before, during and after an activity, then a wait for one more."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.signal("note")
    def note(self, value: Any) -> None:
        """Note a value."""
        self.heard.append(value)

    def run(self, ctx: WorkflowContext, wanted: int) -> Steps:
        yield ctx.schedule_activity("echo", [list(self.heard)])
        yield ctx.wait_condition(lambda: len(self.heard) >= wanted, key="enough")
        return self.heard


@workflow.defn(name="golden.waits")
class Waits:
    """A wait that is met in time, one that is not, and one that two signals have to meet."""

    def __init__(self) -> None:
        self.count = 0

    @workflow.signal("go")
    def go(self) -> None:
        """Count."""
        self.count += 1

    def run(self, ctx: WorkflowContext) -> Steps:
        met = yield ctx.wait_condition(lambda: self.count >= 1, key="one", timeout=60)
        missed = yield ctx.wait_condition(lambda: self.count >= 99, key="many", timeout=60)
        yield ctx.wait_condition(lambda: self.count >= 3, key="three")
        return [met, missed, self.count]


@workflow.defn(name="golden.updates")
class Updates:
    """Updates that are applied, one that fails, and a signal between them."""

    def __init__(self) -> None:
        self.total = 0
        self.is_done = False

    @workflow.signal("done")
    def done(self) -> None:
        """No more updates."""
        self.is_done = True

    @workflow.update("add")
    def add(self, number: int) -> int:
        """Add a number that is not negative."""
        if number < 0:
            raise ValueError("must not be negative")
        self.total += number
        return self.total

    @add.validator  # type: ignore[attr-defined,untyped-decorator]
    def check(self, number: int) -> None:
        """Nothing above a thousand."""
        if number > 1000:
            raise ValueError("too much")

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.wait_condition(lambda: self.total >= 5, key="five")
        yield ctx.schedule_activity("echo", [self.total])
        yield ctx.wait_condition(lambda: self.is_done, key="done")
        return self.total


@workflow.defn(name="golden.echo-child")
class EchoChild:
    """A child with one activity."""

    def run(self, ctx: WorkflowContext, value: Any) -> Steps:
        return (yield ctx.schedule_activity("echo", [value]))


@workflow.defn(name="golden.broken-child")
class BrokenChild:
    """A child that fails."""

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.schedule_activity("broken", [])


@workflow.defn(name="golden.children")
class Children:
    """A child that succeeds, one that is tried twice and fails, and one that continues as new."""

    def run(self, ctx: WorkflowContext) -> Steps:
        first = yield ctx.start_child_workflow("golden.echo-child", ["one"])
        try:
            yield ctx.start_child_workflow("golden.broken-child", [], retry_policy=TWICE)
        except ChildWorkflowFailed as error:
            second = type(error).__name__
        third = yield ctx.start_child_workflow("golden.countdown", [1])
        return [first, second, third]


@workflow.defn(name="golden.sleeper")
class Sleeper:
    """Sleeps for a day."""

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.sleep(86_400)
        return "slept"


@workflow.defn(name="golden.leaves-children")
class LeavesChildren:
    """Ends while a child of every parent-close policy still runs; the group is never awaited whole."""

    def run(self, ctx: WorkflowContext) -> Steps:
        children: list[Any] = [
            ctx.start_child_workflow("golden.sleeper", [], parent_close_policy=policy)
            for policy in ("abandon", "request_cancel", "terminate")
        ]
        chosen = yield ctx.select([*children, ctx.start_timer(10)])
        return chosen.key


@workflow.defn(name="golden.countdown")
class Countdown:
    """A chain of runs."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        yield ctx.schedule_activity("echo", [number])
        return "liftoff" if number == 0 else ContinueAsNew(arguments=[number - 1])


@workflow.defn(name="golden.continues")
class Continues:
    """Continues as new with a signal and an update that it has not seen."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @workflow.signal("note")
    def note(self, value: Any) -> None:
        """Note a value."""
        self.heard.append(value)

    @workflow.update("count")
    def count(self) -> int:
        """How many there were."""
        return len(self.heard)

    def run(self, ctx: WorkflowContext, is_last: bool = False) -> Steps:
        yield ctx.wait_condition(lambda: bool(self.heard), key="heard")
        return self.heard if is_last else ContinueAsNew(arguments=[True])


@workflow.defn(name="golden.selection")
class Selection:
    """The first of an activity and a timer; the loser is cancelled, and what is left of it is seen."""

    def run(self, ctx: WorkflowContext) -> Steps:
        first = yield ctx.select({"slow": ctx.start_timer(600), "quick": ctx.schedule_activity("echo", ["won"])})
        yield first.handles["slow"].cancel()
        try:
            yield first.handles["slow"]
        except DurableOperationCancelled:
            return [first.key, first.result(), "cancelled"]
        return None


@workflow.defn(name="golden.selected-condition")
class SelectedCondition:
    """A condition, a group and a child in one selection; a signal decides."""

    def __init__(self) -> None:
        self.is_told = False

    @workflow.signal("go")
    def go(self) -> None:
        """Go on."""
        self.is_told = True

    def run(self, ctx: WorkflowContext) -> Steps:
        first = yield ctx.select(
            [
                ctx.wait_condition(lambda: self.is_told, key="told", timeout=900),
                [ctx.start_timer(600), ctx.schedule_activity("echo", [1])],
                ctx.start_child_workflow("golden.sleeper", []),
            ]
        )
        yield first.handles[2].cancel()
        return [first.key, first.kind]


@workflow.defn(name="golden.cleans-up")
class CleansUp:
    """Cleans up after a cancellation request and ends as cancelled."""

    def run(self, ctx: WorkflowContext) -> Steps:
        try:
            yield ctx.schedule_activity("never", [], cancellation_policy="try_cancel")
        except WorkflowCancelled:
            yield ctx.schedule_activity("echo", ["cleaned"])
            raise
        return None


@workflow.defn(name="golden.recorded")
class Recorded:
    """Side effects, version markers, memo and search attributes around an activity."""

    def run(self, ctx: WorkflowContext) -> Steps:
        token = yield ctx.side_effect(lambda: "drawn once")
        version = yield ctx.get_version("pricing", 1, 3)
        is_patched = yield ctx.patched("rounding")
        yield ctx.upsert_memo({"stage": "begun", "note": b"\x00\xff"})
        yield ctx.upsert_search_attributes({"Stage": "begun", "Count": 1, "Tags": ["a", "b"]})
        yield ctx.schedule_activity("echo", [token])
        yield ctx.upsert_memo({"stage": None})
        yield ctx.upsert_search_attributes({"Count": None})
        again = yield ctx.get_version("pricing", 1, 3)
        return [token, version, again, is_patched]


@workflow.defn(name="golden.local")
class Local:
    """A local activity that is tried twice, and one that fails for good."""

    def run(self, ctx: WorkflowContext) -> Steps:
        first = yield ctx.local_activity("flaky", ["a"], retry_policy=TWICE)
        try:
            yield ctx.local_activity("broken", ["b"])
        except ActivityFailed as error:
            return [first, error.exception_type]
        return None


@workflow.defn(name="golden.messages")
class Messages:
    """Reads a stream over two runs."""

    def run(self, ctx: WorkflowContext, read: list[Any] | None = None) -> Steps:
        stream = ctx.message_stream("orders")
        values = list(read or [])
        values.append((yield from stream.receive_one()).arguments)
        values.extend(message.arguments for message in (yield from stream.receive(2)))
        return ContinueAsNew(arguments=[values]) if read is None else values


@workflow.defn(name="golden.output")
class Output:
    """Leaves items in two streams; one is closed, the other ends in an error."""

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.append_workflow_stream("rows", [WorkflowStreamAppendItem(payload=n, item_type="row") for n in (1, 2)])
        yield ctx.schedule_activity("echo", ["between"])
        yield ctx.append_workflow_stream("rows", [WorkflowStreamAppendItem(payload_reference="s3://rows/3")])
        yield ctx.close_workflow_stream("rows", retention_seconds=60)
        yield ctx.append_workflow_stream("log", [WorkflowStreamAppendItem(payload="begun", content_type="text/plain")])
        yield ctx.error_workflow_stream("log", "broken pipe")
        return "written"


@workflow.defn(name="golden.fails")
class Fails:
    """Raises an exception of its own."""

    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.schedule_activity("echo", [1])
        raise ValueError("the workflow's own fault")


@workflow.defn(name="golden.services")
class Services:
    """Calls of a service that are answered, only started, failed, cancelled, and not there at all."""

    def run(self, ctx: WorkflowContext) -> Steps:
        greet = ("shop", "desk", "greet")
        answered = yield ctx.call_nexus_service(*greet, ["ann"], idempotency_key="k-1")
        yield ctx.call_nexus_service(*greet, ["bob"], mode="async", wait_for="accepted", idempotency_key="k-2")
        caught = []
        for key, operation in (("k-3", "greet"), ("k-4", "greet"), ("k-5", "missing")):
            try:
                yield ctx.call_nexus_service("shop", "desk", operation, [operation], idempotency_key=key)
            except NexusOperationFailed as failed:
                caught.append(failed.outcome)
        return [answered.result, *caught]


@workflow.defn(name="golden.mended")
class Mended:
    """Fails after its first activity, until it is redriven."""

    def run(self, ctx: WorkflowContext) -> Steps:
        first = yield ctx.schedule_activity("echo", ["kept"])
        return [first, (yield ctx.schedule_activity("flaky", [2]))]


def golden_workflows() -> list[Any]:
    """Every workflow of the golden histories, for ``durable-workflow-replay-verify --workflows``."""
    return [
        found
        for found in globals().values()
        if isinstance(found, type) and getattr(found, "__workflow_name__", "").startswith("golden.")
    ]
