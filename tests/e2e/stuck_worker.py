"""A worker that takes a task, says so, and never reports on it: ``stuck_worker.py URL QUEUE workflow|activity``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.harness.servers import TOKEN

URL, QUEUE, KIND = sys.argv[1:]


def hang() -> None:
    print("stuck", flush=True)
    threading.Event().wait()


@activity.defn(name="double")
def double(number: int) -> int:
    hang()
    return 0


@workflow.defn(name="one-step")
class OneStep:
    def run(self, ctx: WorkflowContext, number: int) -> Generator[Any, Any, Any]:
        if KIND == "workflow":
            hang()
        return (yield ctx.schedule_activity("double", [number]))


async def main() -> None:
    async with Client(URL, token=TOKEN) as client:
        await Worker(client, task_queue=QUEUE, workflows=[OneStep], activities=[double]).run()


asyncio.run(main())
