"""Child workflows and continue-as-new with the published SDK."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.client import WorkflowHandle
from durable_workflow.errors import ChildWorkflowFailed
from durable_workflow.workflow import ChildWorkflowRetryPolicy, WorkflowContext

from tests.e2e.conftest import Working
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]


@activity.defn(name="double")
def double(value: int) -> int:
    return value * 2


@workflow.defn(name="doubling")
class Doubling:
    """A child that does something, or fails for a negative number."""

    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        if number < 0:
            raise ValueError(f"cannot double {number}")
        return (yield ctx.schedule_activity("double", [number]))


@workflow.defn(name="family")
class Family:
    """A lone child, a group of children beside an activity, a grandchild, and a failing child."""

    def run(self, ctx: WorkflowContext, width: int) -> Steps:
        alone = yield ctx.start_child_workflow("doubling", [3])
        many = yield [ctx.start_child_workflow("doubling", [number]) for number in range(width)]
        mixed = yield [ctx.start_child_workflow("doubling", [7]), ctx.schedule_activity("double", [8])]
        nested = yield ctx.start_child_workflow("parent-of-one", [5])
        try:
            yield ctx.start_child_workflow("doubling", [-1])
        except ChildWorkflowFailed as error:
            return [alone, sum(many), mixed, nested, "cannot double -1" in str(error)]
        return None


@workflow.defn(name="parent-of-one")
class ParentOfOne:
    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        return (yield ctx.start_child_workflow("doubling", [number]))


@workflow.defn(name="countdown")
class Countdown:
    """Goes on in a new run for every number."""

    def run(self, ctx: WorkflowContext, number: int, done: int = 0) -> Steps:
        doubled = yield ctx.schedule_activity("double", [number])
        if number == 0:
            return done + doubled
        return ctx.continue_as_new(number - 1, done + doubled)


@workflow.defn(name="waits-for-countdown")
class WaitsForCountdown:
    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        return (yield ctx.start_child_workflow("countdown", [number, 0]))


@workflow.defn(name="napping")
class Napping:
    """A child that takes its time, in two runs."""

    def run(self, ctx: WorkflowContext, left: int) -> Steps:
        yield ctx.sleep(1)
        return ctx.continue_as_new(left - 1) if left else "awake"


@workflow.defn(name="patient-watcher")
class PatientWatcher:
    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        first = yield ctx.schedule_activity("double", [number])
        state = yield ctx.start_child_workflow("napping", [1])
        last = yield ctx.schedule_activity("double", [first])
        return [first, state, last]


FAILS_LEFT: dict[str, int] = {}


@activity.defn(name="stumble")
def stumble(name: str) -> int:
    FAILS_LEFT[name] -= 1
    if FAILS_LEFT[name] >= 0:
        raise RuntimeError("not yet")
    return 42


@workflow.defn(name="stumbling")
class Stumbling:
    def run(self, ctx: WorkflowContext, name: str) -> Steps:
        return (yield ctx.schedule_activity("stumble", [name], retry_policy={"max_attempts": 1}))


@workflow.defn(name="patient-parent")
class PatientParent:
    def run(self, ctx: WorkflowContext, name: str) -> Steps:
        policy = ChildWorkflowRetryPolicy(max_attempts=3, backoff_seconds=[0])
        return (yield ctx.start_child_workflow("stumbling", [name], retry_policy=policy))


ALL = [Doubling, Family, ParentOfOne, Countdown, WaitsForCountdown, Stumbling, PatientParent, Napping, PatientWatcher]


async def _start(client: Client, queue: str, workflow_type: str, argument: Any) -> WorkflowHandle:
    """Start a workflow whose id is the name of its queue."""
    return await client.start_workflow(
        workflow_type=workflow_type, workflow_id=queue, task_queue=queue, input=[argument]
    )


async def _events(client: Client, workflow_id: str, run_id: str) -> list[str]:
    history = await client.get_history(workflow_id, run_id)
    return [event["event_type"] for event in history["events"]]


async def test_children_of_every_kind(client: Client, queue: str, working: Working) -> None:
    handle = await _start(client, queue, "family", 30)
    async with working(ALL, [double]):
        result = await client.get_result(handle, timeout=60)
    assert result == [6, sum(2 * n for n in range(30)), [14, 16], 10, True]


async def test_a_chain_of_runs_ends_with_the_result_of_the_last(client: Client, queue: str, working: Working) -> None:
    handle = await _start(client, queue, "countdown", 4)
    async with working(ALL, [double]):
        # Without the run: the SDK reads the history of a named run, and that one ends with a continuation.
        result = await client.get_result(client.get_workflow_handle(queue), timeout=60)
    assert result == 20
    assert handle.run_id is not None
    types = await _events(client, queue, handle.run_id)
    assert types[-1] == "WorkflowContinuedAsNew"


async def test_a_parent_waits_for_the_last_run_of_a_child(client: Client, queue: str, working: Working) -> None:
    handle = await _start(client, queue, "waits-for-countdown", 3)
    async with working(ALL, [double]):
        assert await client.get_result(handle, timeout=60) == 12
    assert handle.run_id is not None
    types = await _events(client, queue, handle.run_id)
    assert types.count("ChildRunStarted") == 4 and types.count("ChildRunCompleted") == 1


@pytest.mark.parametrize(("failures", "survives"), [(2, True), (3, False)])
async def test_a_failed_child_is_tried_again(
    failures: int, survives: bool, client: Client, queue: str, working: Working
) -> None:
    FAILS_LEFT[queue] = failures
    handle = await _start(client, queue, "patient-parent", queue)
    async with working(ALL, [stumble]):
        if survives:
            assert await client.get_result(handle, timeout=60) == 42
        else:
            with pytest.raises(Exception, match="not yet"):
                await client.get_result(handle, timeout=60)
    assert handle.run_id is not None
    types = await _events(client, queue, handle.run_id)
    assert types.count("ChildRunStarted") == 3
    assert types.count("ChildRunFailed") == (0 if survives else 1)


async def test_a_new_worker_takes_over_from_one_that_has_gone(client: Client, queue: str, working: Working) -> None:
    handle = await _start(client, queue, "patient-watcher", 5)
    run_id = handle.run_id
    assert run_id is not None

    async def has_child() -> bool:
        return "ChildRunStarted" in await _events(client, queue, run_id)

    async with working(ALL, [double]):
        await eventually(has_child, "the child has started", 30)
    async with working(ALL, [double]):
        assert await client.get_result(handle, timeout=60) == [10, "awake", 20]
