"""Deterministic workflows of the published SDK, and what their activities return."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from durable_workflow import workflow
from durable_workflow.client import WorkflowStreamAppendItem
from durable_workflow.errors import (
    ActivityFailed,
    ChildWorkflowFailed,
    DurableOperationCancelled,
    NexusOperationFailed,
)
from durable_workflow.workflow import ActivityRetryPolicy, ContinueAsNew, WorkflowContext

Steps = Generator[Any, Any, Any]

FOREVER = {"max_attempts": None, "backoff_seconds": [1, 5]}
TWICE = ActivityRetryPolicy(max_attempts=2, backoff_seconds=[2])


class Doomed(Exception):
    """Raised by an activity that never succeeds."""


@workflow.defn(name="sequential")
class Sequential:
    """One activity after the other, each fed with the last result."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        total = 0
        for number in range(count):
            total = yield ctx.schedule_activity("add", [total, number], retry_policy=FOREVER)
        return total


@workflow.defn(name="fan-out")
class FanOut:
    """Flat and nested groups, one after the other."""

    def run(self, ctx: WorkflowContext, width: int) -> Steps:
        flat = yield [ctx.schedule_activity("double", [n], retry_policy=FOREVER) for n in range(width)]
        nested = yield [
            ctx.schedule_activity("double", [flat[0]], retry_policy=FOREVER),
            [ctx.schedule_activity("double", [n], retry_policy=FOREVER) for n in flat],
            [[ctx.schedule_activity("add", [1, 2], retry_policy=FOREVER)]],
        ]
        last = yield ctx.schedule_activity("add", [len(flat), 1], retry_policy=FOREVER)
        return [flat, nested, last]


@workflow.defn(name="recorded-values")
class RecordedValues:
    """Side effects and versions before, between and after activities."""

    def run(self, ctx: WorkflowContext, start: int) -> Steps:
        token = yield ctx.side_effect(next_token)
        version = yield ctx.get_version("first", -1, 2)
        yield ctx.schedule_activity("double", [start], retry_policy=FOREVER)
        echoed = yield ctx.schedule_activity("double", [token], retry_policy=FOREVER)
        again = yield ctx.get_version("first", -1, 2)
        is_patched = yield ctx.patched("second")
        pair = yield [ctx.schedule_activity("double", [n], retry_policy=FOREVER) for n in (version, start)]
        late = yield ctx.side_effect(next_token)
        return [echoed == 2 * token, version == again, is_patched, pair, late > 0]


@workflow.defn(name="failures")
class Failures:
    """Failures that are retried, caught, and compensated, alone and inside a group."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        caught = []
        for number in range(count):
            try:
                yield ctx.schedule_activity("doomed", [number], retry_policy=TWICE)
            except ActivityFailed as error:
                caught.append([str(error), error.exception_type, error.step_sequence])
        try:
            yield [
                ctx.schedule_activity("double", [1], retry_policy=FOREVER),
                ctx.schedule_activity("doomed", [0]),
                ctx.schedule_activity("double", [2], retry_policy=FOREVER),
            ]
        except ActivityFailed as error:
            caught.append([str(error), error.exception_type, error.step_sequence])
        undone = yield ctx.schedule_activity("add", [len(caught), 0], retry_policy=FOREVER)
        return [caught, undone]


@workflow.defn(name="sleeps")
class Sleeps:
    """Timers alone, of no length, in a group, and beside activities."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        total = 0
        for number in range(count):
            yield ctx.sleep(number)
            total = yield ctx.schedule_activity("add", [total, number], retry_policy=FOREVER)
        yield [ctx.start_timer(3), ctx.start_timer(0), ctx.start_timer(1)]
        mixed = yield [
            ctx.start_timer(7),
            ctx.schedule_activity("double", [total], retry_policy=FOREVER),
            [ctx.start_timer(2), ctx.schedule_activity("double", [1], retry_policy=FOREVER)],
        ]
        return [total, mixed]


@workflow.defn(name="listens")
class Listens:
    """Waits with and without a timeout, fed by signals; every signal counts once."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.taken = 0

    @workflow.signal("go")
    def on_go(self, number: int) -> None:
        """Note a signal."""
        self.heard.append(number)

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        yield ctx.wait_condition(lambda: len(self.heard) > 0, key="first")
        timely = []
        for _ in range(count):
            taken = self.taken + 1
            timely.append((yield ctx.wait_condition(lambda: len(self.heard) > self.taken, key="next", timeout=20)))
            self.taken = taken
            yield ctx.schedule_activity("double", [taken], retry_policy=FOREVER)
        return [self.taken, len(timely)]


@workflow.defn(name="describes-itself")
class DescribesItself:
    """Memo and search attributes before, between and after activities."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        yield ctx.upsert_memo({"stage": "begun", "number": number})
        yield ctx.upsert_search_attributes({"Stage": "begun", "Number": number})
        doubled = yield ctx.schedule_activity("double", [number], retry_policy=FOREVER)
        yield ctx.upsert_memo({"stage": None, "doubled": {"b": [doubled], "a": 1.5}})
        yield ctx.sleep(1)
        yield ctx.upsert_search_attributes({"Stage": "done", "Number": None, "Tags": ["a", "b"]})
        return doubled


@workflow.defn(name="updated")
class Updated:
    """Waits for what updates and signals bring, beside activities; a refused update counts for nothing."""

    def __init__(self) -> None:
        self.notes: list[int] = []
        self.wanted = 0

    @workflow.signal("go")
    def on_go(self, number: int) -> None:
        """Note a signal."""
        self.notes.append(number)

    @workflow.update("add")
    def add(self, number: int) -> int:
        """Note an update, unless its number is odd."""
        if number % 2:
            raise ValueError("odd")
        self.notes.append(number)
        return len(self.notes)

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        yield ctx.schedule_activity("double", [count], retry_policy=FOREVER)
        for number in range(1, count + 1):
            self.wanted = number
            timeout = None if number % 2 else 900
            yield ctx.wait_condition(lambda: len(self.notes) >= self.wanted, key="noted", timeout=timeout)
            yield ctx.schedule_activity("double", [number], retry_policy=FOREVER)
        return count


@workflow.defn(name="reads-messages")
class ReadsMessages:
    """Reads messages over two runs, one by one and in bulk, and leaves what it has read for others."""

    def run(self, ctx: WorkflowContext, count: int, read: list[int] | None = None) -> Steps:
        numbers = list(read or [])
        stream = ctx.message_stream("in")
        while len(numbers) < count:
            message = yield from stream.receive_one()
            numbers.append(message.arguments[0])
            yield ctx.append_workflow_stream("out", [WorkflowStreamAppendItem(payload=numbers[-1])])
            yield ctx.schedule_activity("double", [numbers[-1]], retry_policy=FOREVER)
        if read is None:
            return ContinueAsNew(arguments=[2 * count, numbers])
        while len(numbers) < 3 * count:
            for message in (yield from stream.receive(3)):
                numbers.append(message.arguments[0])
        yield ctx.close_workflow_stream("out")
        return numbers[: 3 * count]


@workflow.defn(name="fails")
class Fails:
    """Ends with the failure of its activity."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        yield ctx.schedule_activity("add", [number, 1], retry_policy=FOREVER)
        yield ctx.schedule_activity("doomed", [number], retry_policy=TWICE)
        return None


@workflow.defn(name="family")
class Family:
    """Children alone, in groups, beside other calls, that have children, that fail, and that continue as new."""

    def run(self, ctx: WorkflowContext, width: int) -> Steps:
        alone = yield ctx.start_child_workflow("sequential", [width])
        many = yield [ctx.start_child_workflow("sequential", [number]) for number in range(width)]
        mixed = yield [
            ctx.start_child_workflow("countdown", [width, 0], parent_close_policy="terminate"),
            ctx.schedule_activity("double", [alone], retry_policy=FOREVER),
            [ctx.start_timer(3), ctx.start_child_workflow("listening-child", [width])],
        ]
        caught = []
        for child in ("fails", "grandparent"):
            try:
                caught.append((yield ctx.start_child_workflow(child, [width], retry_policy=TWICE)))
            except ChildWorkflowFailed as error:
                caught.append(str(error))
        return [alone, many, mixed, caught]


@workflow.defn(name="grandparent")
class Grandparent:
    """A child that has a child."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        return (yield ctx.start_child_workflow("countdown", [number, 1]))


@workflow.defn(name="listening-child")
class ListeningChild:
    """A child that waits for time to pass."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        yield ctx.wait_condition(lambda: False, key="never", timeout=number)
        return number


@workflow.defn(name="countdown")
class Countdown:
    """A chain of runs."""

    def run(self, ctx: WorkflowContext, number: int, total: int = 0) -> Steps:
        doubled = yield ctx.schedule_activity("double", [number], retry_policy=FOREVER)
        if number == 0:
            return total + doubled
        return ContinueAsNew(arguments=[number - 1, total + doubled])


@workflow.defn(name="selects")
class Selects:
    """Selections of every kind of member; losers are awaited, cancelled, or left alone. No race decides the result."""

    def __init__(self) -> None:
        self.heard = 0

    @workflow.signal("go")
    def on_go(self, number: int) -> None:
        """Note a signal."""
        self.heard += 1

    def run(self, ctx: WorkflowContext, width: int) -> Steps:
        results: list[Any] = []
        for number in range(width):
            first = yield ctx.select(
                {
                    "late": ctx.start_timer(100_000_000),
                    "work": ctx.schedule_activity("double", [number], retry_policy=FOREVER),
                }
            )
            results.append([first.key, first.result()])
            yield first.handles["late"].cancel()
            try:
                yield first.handles["late"]
            except DurableOperationCancelled:
                results.append("given up")
        both = yield ctx.select(
            [
                [ctx.schedule_activity("add", [1, width], retry_policy=FOREVER), ctx.start_timer(2)],
                ctx.start_child_workflow("listening-child", [100_000_000]),
                ctx.wait_condition(lambda: False, key="never", timeout=90_000_000),
            ]
        )
        results.append([both.key, both.kind])
        if both.kind == "group":
            results.append((yield both.handles[0]))
        yield both.handles[1].cancel()
        doomed = yield ctx.select([ctx.schedule_activity("doomed", [1]), ctx.start_timer(100_000_000)])
        results.append([doomed.key, doomed.succeeded])
        pair = yield [ctx.schedule_activity("double", [n], retry_policy=FOREVER) for n in (1, 2)]
        quick = yield ctx.select([ctx.start_timer(1), ctx.schedule_activity("double", [9], retry_policy=FOREVER)])
        rest = yield next(iter(quick.remaining().values()))
        return [results, pair, sorted([str(quick.result()), str(rest)])]


@workflow.defn(name="calls-services")
class CallsServices:
    """Service calls that succeed, fail, do not resolve, and are not waited for, between other steps."""

    def run(self, ctx: WorkflowContext, count: int) -> Steps:
        results: list[Any] = []
        for number in range(count):
            answer = yield ctx.call_nexus_service("shop", "desk", "double", [number])
            results.append(answer.result)
            results.append((yield ctx.schedule_activity("add", [number, 1], retry_policy=FOREVER)))
        for operation in ("missing", "refuse"):
            try:
                yield ctx.call_nexus_service("shop", "desk", operation)
            except NexusOperationFailed as failed:
                results.append(failed.outcome)
        started = yield ctx.start_nexus_operation("shop", "desk", "double", [1])
        yield ctx.start_timer(1)
        return [*results, started.accepted]


WORKFLOWS: list[Any] = [
    Sequential,
    FanOut,
    RecordedValues,
    Failures,
    Sleeps,
    Listens,
    DescribesItself,
    Updated,
    ReadsMessages,
    Fails,
    Family,
    Countdown,
    Selects,
    CallsServices,
]
"""What the test starts."""
ALL_WORKFLOWS = [*WORKFLOWS, Grandparent, ListeningChild]

_tokens = iter(range(1, 2**31))


def next_token() -> int:
    """A value that no replay could make up."""
    return next(_tokens)


def _doomed(number: int) -> int:
    raise Doomed(f"never {number}")


ACTIVITIES: dict[str, Callable[..., Any]] = {
    "add": lambda left, right: left + right,
    "double": lambda value: value * 2,
    "doomed": _doomed,
}
