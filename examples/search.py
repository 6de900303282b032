"""Find runs by what their code has set. Needs a server: `make dev` in another terminal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, workflow
from durable_workflow.errors import ServerError
from durable_workflow.workflow import WorkflowContext
from local_server import run


@workflow.defn(name="order")
class Order:
    def run(self, ctx: WorkflowContext, amount: float) -> Generator[Any, Any, Any]:
        yield ctx.upsert_search_attributes({"Amount": amount})
        return amount


async def main(client: Client, worker_client: Client) -> None:
    try:
        await client.create_search_attribute("Amount", "double")  # a query names only what is registered
    except ServerError as error:
        if error.reason() != "attribute_already_exists":
            raise
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    worker = Worker(worker_client, task_queue=queue, workflows=[Order], activities=[])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        for amount in (5.0, 50.0, 500.0):
            handle = await client.start_workflow(
                workflow_type="order",
                workflow_id=f"{queue}-{amount:g}",
                task_queue=queue,
                input=[amount],
            )
            await client.get_result(handle)
        found = await client.list_workflows(query=f'TaskQueue = "{queue}" AND Amount >= 50')
        for one in found.executions:
            print(one.workflow_id.removeprefix(f"{queue}-"), one.status)
        await worker.stop()


if __name__ == "__main__":
    run(main)
