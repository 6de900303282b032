"""Draining a build with the published worker: it finishes what it has, and another build takes the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

from durable_workflow import Client, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Planes, Working
from tests.e2e.test_workflows import start
from tests.harness.waiting import eventually
from tests.harness.wire import wired


@workflow.defn(name="two-builds")
class TwoBuilds:
    """Asks twice which build runs its activities."""

    def run(self, ctx: WorkflowContext) -> Generator[Any, Any, Any]:
        first = yield ctx.schedule_activity("which", [1])
        second = yield ctx.schedule_activity("which", [2])
        return [first, second]


def which(build_id: str, begun: threading.Event, may_end: threading.Event) -> Callable[[int], str]:
    """The activity of a worker, which says its build when it may."""

    @activity.defn(name="which")
    def said(step: int) -> str:
        begun.set()
        assert may_end.wait(60)
        return build_id

    return said


async def test_a_drained_build_finishes_what_it_has_and_another_takes_the_rest(
    client: Client, planes: Planes, queue: str, working: Working
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    async with working([TwoBuilds], [which("old", begun, may_end)], build_id="old") as old:
        handle = await start(client, queue, "two-builds")
        assert await asyncio.to_thread(begun.wait, 30)
        drained = await client.drain_task_queue_build_id(queue, "old")
        assert (drained.build_id, drained.drain_intent) == ("old", "draining")
        async with wired(planes.worker.url) as wire:

            async def is_refused() -> bool:
                poll = {"worker_id": old.worker_id, "task_queue": queue, "timeout_seconds": 0}
                answer = await wire.worker("POST", "/workflow-tasks/poll", poll)
                return bool(answer.json().get("reason") == "worker_draining")

            await eventually(is_refused, "the polls of the drained worker are refused", 30)
        may_end.set()
        async with working([TwoBuilds], [which("new", begun, may_end)], build_id="new"):
            assert await client.get_result(handle, poll_interval=0.05, timeout=60) == ["old", "new"]
            cohorts = await client.list_task_queue_build_ids(queue)
            assert {cohort.build_id: cohort.drain_intent for cohort in cohorts.build_ids} == {
                "old": "draining",
                "new": "active",
            }


async def test_a_resumed_build_takes_work_again(client: Client, queue: str, working: Working) -> None:
    begun, may_end = threading.Event(), threading.Event()
    may_end.set()
    await client.drain_task_queue_build_id(queue, "only")
    handle = await start(client, queue, "two-builds")
    async with working([TwoBuilds], [which("only", begun, may_end)], build_id="only"):

        async def is_registered() -> bool:
            cohorts = await client.list_task_queue_build_ids(queue)
            return any(cohort.build_id == "only" and cohort.draining_worker_count for cohort in cohorts.build_ids)

        await eventually(is_registered, "the drained worker is known", 30)
        assert not begun.is_set()
        await client.resume_task_queue_build_id(queue, "only")
        assert await client.get_result(handle, poll_interval=0.05, timeout=60) == ["only", "only"]
