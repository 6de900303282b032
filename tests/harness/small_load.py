"""Workflows of a bit of everything, run at once with the published SDK."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.harness.servers import TOKEN


@activity.defn(name="small-double")
def double(number: int) -> int:
    return 2 * number


@workflow.defn(name="small-steps")
class Steps:
    """Activities in turn and at once, a timer, and a signal that the application sends."""

    def __init__(self) -> None:
        self.added: int | None = None

    @workflow.signal("add")
    def add(self, number: int) -> None:
        self.added = number

    def run(self, ctx: WorkflowContext, number: int) -> Generator[Any, Any, int]:
        number = yield ctx.schedule_activity("small-double", [number])
        yield ctx.sleep(1)
        yield ctx.wait_condition(lambda: self.added is not None)
        doubled = yield [ctx.schedule_activity("small-double", [number]) for _ in range(3)]
        return int(sum(doubled) + (self.added or 0))


async def run_workflows(
    control_url: str,
    worker_url: str,
    count: int,
    *,
    control_token: str = TOKEN,
    worker_token: str = TOKEN,
    begun: asyncio.Event | None = None,
) -> None:
    """Run ``count`` workflows at once, with a worker of their own, and check what each gives.

    ``begun`` is set when the first one is under way.
    """
    queue = f"q-{uuid.uuid4().hex[:12]}"
    async with (
        Client(control_url, control_token=control_token, worker_token=worker_token) as application,
        Client(worker_url, control_token=control_token, worker_token=worker_token) as serving,
    ):
        worker = Worker(serving, task_queue=queue, workflows=[Steps], activities=[double])
        running = asyncio.create_task(worker.run())

        async def one(number: int) -> Any:
            # The client repeats a start whose answer was lost; then the first one counts.
            handle = await application.start_workflow(
                workflow_type="small-steps",
                workflow_id=f"{queue}-{number}",
                task_queue=queue,
                input=[number],
                duplicate_policy="use-existing",
            )
            if begun is not None:
                begun.set()
            await handle.signal("add", [100])
            return await handle.result(timeout=90)

        results = await asyncio.gather(*map(one, range(count)))
        await worker.stop()
        await running
    assert results == [12 * number + 100 for number in range(count)]
