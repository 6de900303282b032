"""A worker whose workflow reads messages and leaves items. Arguments: URL of the worker plane, task queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, workflow
from durable_workflow.client import WorkflowStreamAppendItem
from durable_workflow.workflow import ContinueAsNew, WorkflowContext

TOKEN = "dev-token"
PER_RUN = 3
RUNS = 3
Steps = Generator[Any, Any, Any]


@workflow.defn(name="streaming")
class Streaming:
    """Doubles the numbers of its messages into an output stream; a chain of runs, each of which reads a few."""

    def run(self, ctx: WorkflowContext, total: int = 0, runs: int = RUNS) -> Steps:
        numbers = ctx.message_stream("numbers")
        for _ in range(PER_RUN):
            message = yield from numbers.receive_one()
            total += message.arguments[0]
            items = [WorkflowStreamAppendItem(payload=2 * message.arguments[0], item_type="double")]
            yield ctx.append_workflow_stream("doubles", items)
        yield ctx.close_workflow_stream("doubles")
        return total if runs == 1 else ContinueAsNew(arguments=[total, runs - 1])


async def main(url: str, queue: str) -> None:
    async with Client(url, token=TOKEN) as client:
        await Worker(client, task_queue=queue, workflows=[Streaming], activities=[]).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
