"""Priority and fair shares with the published worker: the order in which one busy worker is given the work."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Working
from tests.e2e.test_workflows import start
from tests.harness.waiting import eventually

GIVEN: dict[str, list[str]] = defaultdict(list)
ONE_AT_A_TIME = {"max_concurrent_workflow_tasks": 1, "max_concurrent_activity_tasks": 1}


@activity.defn(name="note")
def note(queue: str, label: str) -> None:
    GIVEN[queue].append(label)


@workflow.defn(name="noted")
class Noted:
    def run(self, ctx: WorkflowContext, queue: str, label: str) -> Generator[Any, Any, Any]:
        yield ctx.schedule_activity("note", [queue, label])
        return label


@workflow.defn(name="noted-at-once")
class NotedAtOnce:
    """Notes with its first and only task that it was given to the worker."""

    def run(self, ctx: WorkflowContext, queue: str, label: str) -> str:
        GIVEN[queue].append(label)
        return label


async def test_more_urgent_workflows_go_first(client: Client, queue: str, working: Working) -> None:
    handles = [
        await start(client, queue, "noted-at-once", queue, str(priority), priority=priority)
        for priority in (9, 5, 0, 7, 0)
    ]
    async with working([NotedAtOnce], **ONE_AT_A_TIME):
        for handle in handles:
            await client.get_result(handle, poll_interval=0.05, timeout=60)
    assert GIVEN[queue] == ["0", "0", "5", "7", "9"]


async def test_shares_follow_their_weights_also_across_a_new_worker(
    client: Client, queue: str, working: Working
) -> None:
    shares = {"heavy": 3, "light": 1}
    handles = [
        await start(client, queue, "noted-at-once", queue, key, fairness_key=key, fairness_weight=weight)
        for key, weight in shares.items()
        for _ in range(12)
    ]

    async def is_begun() -> bool:
        return len(GIVEN[queue]) >= 4

    async with working([NotedAtOnce], **ONE_AT_A_TIME):
        await eventually(is_begun, "the first worker has been given some", 30)
    async with working([NotedAtOnce], **ONE_AT_A_TIME):
        await asyncio.gather(*(client.get_result(handle, poll_interval=0.05, timeout=60) for handle in handles))
    for upto in (4, 8, 12, 16):
        assert abs(Counter(GIVEN[queue][:upto])["heavy"] - upto * 3 / 4) <= 1, GIVEN[queue]


async def test_activities_keep_the_share_and_the_priority_of_their_workflow(
    client: Client, queue: str, working: Working
) -> None:
    labels = {"urgent": 1, "later": 8}
    handles = [
        await start(client, queue, "noted", queue, label, priority=labels[label]) for label in ("later", "urgent") * 4
    ]

    async def are_scheduled() -> bool:
        runs = [await client.describe_workflow(handle.workflow_id) for handle in handles]
        return all(run.status == "waiting" for run in runs)

    async with working([Noted]):
        await eventually(are_scheduled, "every activity waits", 30)
    async with working([Noted], [note], **ONE_AT_A_TIME):
        for handle in handles:
            await client.get_result(handle, poll_interval=0.05, timeout=60)
    assert GIVEN[queue] == ["urgent"] * 4 + ["later"] * 4
