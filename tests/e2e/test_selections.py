"""Durable selections with the published SDK."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from durable_workflow import Client, activity, workflow
from durable_workflow.errors import DurableOperationCancelled
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Working
from tests.harness.waiting import eventually

Steps = Generator[Any, Any, Any]


@activity.defn(name="double")
def double(value: int) -> int:
    return value * 2


@workflow.defn(name="quickest")
class Quickest:
    """An activity against a timer that is cancelled, then a signal against a timer that is left alone."""

    def __init__(self) -> None:
        self.called = False

    @workflow.signal("call")
    def on_call(self) -> None:
        """Note the signal."""
        self.called = True

    def run(self, ctx: WorkflowContext) -> Steps:
        race = yield ctx.select({"work": ctx.schedule_activity("double", [21]), "time": ctx.start_timer(3600)})
        yield race.handles["time"].cancel()
        try:
            yield race.handles["time"]
            given_up = False
        except DurableOperationCancelled:
            given_up = True
        call = yield ctx.select([ctx.start_timer(3600), ctx.wait_condition(lambda: self.called, key="called")])
        pair = yield [ctx.schedule_activity("double", [n]) for n in (1, 2)]
        return [race.key, race.result(), given_up, call.key, self.called, pair]


async def test_the_first_member_to_end_wins(client: Client, queue: str, working: Working) -> None:
    handle = await client.start_workflow(workflow_type="quickest", workflow_id=queue, task_queue=queue)

    async def waits() -> bool:
        assert handle.run_id is not None
        history = await client.get_history(queue, handle.run_id)
        return any(event["event_type"] == "ConditionWaitOpened" for event in history["events"])

    async with working([Quickest], [double]):
        await eventually(waits, "the condition is open", 30)
        await handle.signal("call")
        assert await client.get_result(handle, timeout=60) == ["work", 42, True, 1, True, [2, 4]]
