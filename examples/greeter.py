"""Start a workflow, run its one activity here, print the result. Needs a server: `make dev` in another terminal."""

from __future__ import annotations

import asyncio
import os
import uuid

from durable_workflow import Client, Worker, activity, workflow


@activity.defn(name="greet")
def greet(name: str) -> str:
    return f"Hello, {name}!"


@workflow.defn(name="greeter")
class Greeter:
    def run(self, ctx, name: str):
        return (yield ctx.schedule_activity("greet", [name]))


async def main() -> None:
    url = os.environ.get("DURABLE_WORKFLOW_SERVER_URL", "http://127.0.0.1:8080")
    token = os.environ.get("DURABLE_WORKFLOW_AUTH_TOKEN", "dev-token")
    async with Client(url, token=token, namespace="default") as client:
        handle = await client.start_workflow(
            workflow_type="greeter",
            workflow_id=f"greeter-{uuid.uuid4().hex[:8]}",
            task_queue="greetings",
            input=["Ada"],
        )
        worker = Worker(client, task_queue="greetings", workflows=[Greeter], activities=[greet])
        await worker.run_until(workflow_id=handle.workflow_id)
        print(await client.get_result(handle))


if __name__ == "__main__":
    asyncio.run(main())
