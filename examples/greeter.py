"""Start a workflow, run its one activity here, print the result. Needs a server: `make dev` in another terminal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext
from local_server import run


@activity.defn(name="greet")
def greet(name: str) -> str:
    return f"Hello, {name}!"


@workflow.defn(name="greeter")
class Greeter:
    def run(self, ctx: WorkflowContext, name: str) -> Generator[Any, Any, Any]:
        return (yield ctx.schedule_activity("greet", [name]))


async def main(client: Client, worker_client: Client) -> None:
    worker = Worker(worker_client, task_queue="greetings", workflows=[Greeter], activities=[greet])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        handle = await client.start_workflow(
            workflow_type="greeter",
            workflow_id=f"greeter-{uuid.uuid4().hex[:8]}",
            task_queue="greetings",
            input=["Ada"],
        )
        print(await client.get_result(handle))
        await worker.stop()


if __name__ == "__main__":
    run(main)
