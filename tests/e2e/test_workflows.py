"""Workflows of the published SDK against a running server."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.errors import (
    ActivityFailed,
    NonRetryableError,
    WorkflowAlreadyStarted,
    WorkflowFailed,
    WorkflowTerminated,
)
from durable_workflow.workflow import ActivityRetryPolicy, WorkflowContext

from tests.e2e.conftest import Working

Steps = Generator[Any, Any, Any]
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
VALUES: dict[str, Any] = {
    "bytes": b"\x00\xff\x80",
    "large": INT64_MAX,
    "small": INT64_MIN,
    "text": "naïve 漢字 \U0001f680 \u202e\x01 \0 end",
    "maps": {"a": {"b": {"c": [{"d": None}, {"": True}]}}},
    "floats": [0.1, 1e308, 5e-324, 3.0],
    "empty": [{}, [], "", b""],
}
CALLS: Counter[str] = Counter()


@activity.defn(name="double")
def double(number: int) -> int:
    return 2 * number


@activity.defn(name="flaky")
def flaky(key: str, failures: int) -> int:
    CALLS[key] += 1
    if CALLS[key] <= failures:
        raise ValueError(f"call {CALLS[key]}")
    return CALLS[key]


@activity.defn(name="hopeless")
def hopeless(key: str) -> None:
    CALLS[key] += 1
    raise NonRetryableError("never again")


@activity.defn(name="echo")
def echo(value: Any) -> Any:
    return value


@workflow.defn(name="one-step")
class OneStep:
    def run(self, ctx: WorkflowContext, number: int) -> Steps:
        return (yield ctx.schedule_activity("double", [number]))


@workflow.defn(name="sequence")
class Sequence:
    def run(self, ctx: WorkflowContext, number: int, steps: int) -> Steps:
        for _ in range(steps):
            number = yield ctx.schedule_activity("double", [number])
        return number


@workflow.defn(name="fan-out")
class FanOut:
    def run(self, ctx: WorkflowContext, width: int) -> Steps:
        first = yield [ctx.schedule_activity("double", [number]) for number in range(width)]
        second = yield [ctx.schedule_activity("double", [number]) for number in first[:3]]
        return first + second


@workflow.defn(name="retried")
class Retried:
    def run(self, ctx: WorkflowContext, key: str, failures: int, attempts: int) -> Steps:
        policy = ActivityRetryPolicy(max_attempts=attempts, backoff_seconds=[0])
        return (yield ctx.schedule_activity("flaky", [key, failures], retry_policy=policy))


@workflow.defn(name="caught")
class Caught:
    def run(self, ctx: WorkflowContext, key: str) -> Steps:
        policy = ActivityRetryPolicy(max_attempts=5, backoff_seconds=[0])
        try:
            yield ctx.schedule_activity("hopeless", [key], retry_policy=policy)
        except ActivityFailed as error:
            return str(error)
        return "no failure"


@workflow.defn(name="recorded")
class Recorded:
    def run(self, ctx: WorkflowContext) -> Steps:
        drawn = yield ctx.side_effect(lambda: uuid.uuid4().hex)
        version = yield ctx.get_version("rounding", 1, 3)
        echoed = yield ctx.schedule_activity("echo", [drawn])
        again = yield ctx.get_version("rounding", 1, 3)
        patched = yield ctx.patched("new-words")
        return [drawn, echoed, version, again, patched]


@workflow.defn(name="patient")
class Patient:
    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.sleep(1)
        yield ctx.sleep(0)
        return (yield [ctx.start_timer(1), ctx.schedule_activity("double", [4]), ctx.start_timer(0)])


@workflow.defn(name="approval")
class Approval:
    def __init__(self) -> None:
        self.approvals: list[str] = []
        self.taken = 0

    @workflow.signal("approve")
    def approve(self, name: str) -> None:
        self.approvals.append(name)

    def run(self, ctx: WorkflowContext, needed: int, seconds: int) -> Steps:
        while self.taken < needed:
            is_timely = yield ctx.wait_condition(
                lambda: len(self.approvals) > self.taken, key="approvals", timeout=seconds
            )
            if not is_timely:
                return ["too late", *self.approvals]
            yield ctx.schedule_activity("echo", [self.approvals[self.taken]])
            self.taken += 1
        return self.approvals


@workflow.defn(name="broken")
class Broken:
    def run(self, ctx: WorkflowContext) -> Steps:
        yield ctx.side_effect(lambda: 1)
        raise KeyError("missing piece")


@workflow.defn(name="echoed")
class Echoed:
    def run(self, ctx: WorkflowContext, value: Any) -> Steps:
        recorded = yield ctx.side_effect(lambda: value)
        return (yield ctx.schedule_activity("echo", [recorded]))


async def start(client: Client, queue: str, workflow_type: str, *arguments: Any, **options: Any) -> Any:
    """Start a workflow under an id of its own, unless ``options`` name one."""
    options.setdefault("workflow_id", f"{workflow_type}-{uuid.uuid4().hex[:12]}")
    return await client.start_workflow(workflow_type=workflow_type, task_queue=queue, input=list(arguments), **options)


async def result(client: Client, queue: str, workflow_type: str, *arguments: Any) -> Any:
    """Start a workflow and wait for its result."""
    handle = await start(client, queue, workflow_type, *arguments)
    return await client.get_result(handle, poll_interval=0.05, timeout=60)


async def test_one_activity(client: Client, queue: str, working: Working) -> None:
    async with working([OneStep], [double]):
        assert await result(client, queue, "one-step", 21) == 42


@pytest.mark.parametrize("planes", ["standalone"], indirect=True)  # its worker also reads from the control plane
async def test_run_until_serves_one_workflow_to_its_end(client: Client, queue: str) -> None:
    handle = await start(client, queue, "one-step", 4)
    worker = Worker(client, task_queue=queue, workflows=[OneStep], activities=[double])
    execution = await worker.run_until(workflow_id=handle.workflow_id, poll_interval=0.05)
    assert execution.status == "completed"
    assert await client.get_result(handle) == 8


async def test_activities_one_after_the_other(client: Client, queue: str, working: Working) -> None:
    async with working([Sequence], [double]):
        assert await result(client, queue, "sequence", 1, 10) == 1024


async def test_fifty_activities_at_once(client: Client, queue: str, working: Working) -> None:
    async with working([FanOut], [double]):
        assert await result(client, queue, "fan-out", 50) == [2 * n for n in range(50)] + [0, 4, 8]


async def test_many_workflows_at_once(client: Client, queue: str, working: Working) -> None:
    async with working([OneStep], [double]):
        results = await asyncio.gather(*(result(client, queue, "one-step", number) for number in range(20)))
    assert results == [2 * number for number in range(20)]


async def test_an_activity_is_retried_until_it_succeeds(client: Client, queue: str, working: Working) -> None:
    async with working([Retried], [flaky]):
        assert await result(client, queue, "retried", queue, 2, 3) == 3


async def test_an_activity_that_uses_up_its_attempts_fails_the_workflow(
    client: Client, queue: str, working: Working
) -> None:
    async with working([Retried], [flaky]):
        with pytest.raises(WorkflowFailed, match="call 2"):
            await result(client, queue, "retried", queue, 5, 2)
    assert CALLS[queue] == 2


async def test_a_failure_that_is_final_is_not_retried(client: Client, queue: str, working: Working) -> None:
    async with working([Caught], [hopeless]):
        assert "never again" in await result(client, queue, "caught", queue)
    assert CALLS[queue] == 1


async def test_side_effects_and_versions_are_replayed_as_recorded(client: Client, queue: str, working: Working) -> None:
    async with working([Recorded], [echo]):
        drawn, echoed, version, again, patched = await result(client, queue, "recorded")
    assert drawn == echoed
    assert (version, again, patched) == (3, 3, True)


async def test_timers_alone_and_beside_an_activity(client: Client, queue: str, working: Working) -> None:
    async with working([Patient], [double]):
        assert await result(client, queue, "patient") == [None, 8, None]


async def test_signals_reach_a_waiting_workflow_in_order(client: Client, queue: str, working: Working) -> None:
    async with working([Approval], [echo]):
        handle = await start(client, queue, "approval", 3, 60)
        for name in ("ann", "bob", "cyd"):
            await handle.signal("approve", [name])
        assert await client.get_result(handle, poll_interval=0.05, timeout=60) == ["ann", "bob", "cyd"]


async def test_signals_sent_before_any_worker_are_kept(client: Client, queue: str, working: Working) -> None:
    handle = await start(client, queue, "approval", 2, 60)
    for name in ("ann", "bob"):
        await client.signal_workflow(handle.workflow_id, "approve", args=[name])
    async with working([Approval], [echo]):
        assert await client.get_result(handle, poll_interval=0.05, timeout=60) == ["ann", "bob"]


async def test_a_wait_that_nobody_answers_times_out(client: Client, queue: str, working: Working) -> None:
    async with working([Approval], [echo]):
        assert await result(client, queue, "approval", 1, 1) == ["too late"]


async def test_a_failing_workflow_raises_at_its_client(client: Client, queue: str, working: Working) -> None:
    async with working([Broken]):
        with pytest.raises(WorkflowFailed, match="missing piece") as failure:
            await result(client, queue, "broken")
    assert failure.value.exception_class is not None
    assert "KeyError" in failure.value.exception_class


@pytest.mark.parametrize("name", VALUES)
async def test_values_make_the_whole_way_unchanged(client: Client, queue: str, working: Working, name: str) -> None:
    async with working([Echoed], [echo]):
        assert await result(client, queue, "echoed", VALUES[name]) == VALUES[name]


async def test_the_sign_of_zero_survives(client: Client, queue: str, working: Working) -> None:
    async with working([Echoed], [echo]):
        assert repr(await result(client, queue, "echoed", -0.0)) == "-0.0"


async def test_starting_again_names_the_open_run_or_is_refused(client: Client, queue: str, working: Working) -> None:
    first = await start(client, queue, "one-step", 1, workflow_id=queue)
    second = await start(client, queue, "one-step", 2, workflow_id=queue, duplicate_policy="use-existing")
    assert second.run_id == first.run_id
    with pytest.raises(WorkflowAlreadyStarted):
        await start(client, queue, "one-step", 3, workflow_id=queue)
    async with working([OneStep], [double]):
        assert await client.get_result(second, poll_interval=0.05) == 2
    with pytest.raises(WorkflowAlreadyStarted):
        await start(client, queue, "one-step", 4, workflow_id=queue, duplicate_policy="use-existing")


async def test_terminating_while_an_activity_runs_ends_the_workflow(
    client: Client, queue: str, working: Working
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @activity.defn(name="double")
    async def slow(number: int) -> int:
        begun.set()
        await release.wait()
        return number

    async with working([OneStep], [slow]):
        handle = await start(client, queue, "one-step", 1)
        await asyncio.wait_for(begun.wait(), 30)
        await client.terminate_workflow(handle.workflow_id, reason="enough")
        release.set()
        with pytest.raises(WorkflowTerminated):
            await client.get_result(handle, poll_interval=0.05)
