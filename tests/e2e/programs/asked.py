"""A worker whose workflow answers queries. Arguments: URL of the worker plane, task queue."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

TOKEN = "dev-token"


@activity.defn(name="count")
def count(number: int) -> int:
    return number + 1


@workflow.defn(name="asked")
class Asked:
    """Counts to 3, then ends or waits for an activity that no worker takes."""

    def __init__(self) -> None:
        self.number = 0

    def run(self, ctx: WorkflowContext, ends: bool) -> Generator[Any, Any, Any]:
        while self.number < 3:
            self.number = yield ctx.schedule_activity("count", [self.number])
        if not ends:
            yield ctx.schedule_activity("count", [self.number], queue="nobody")
        return self.number

    @workflow.query("number")
    def current_number(self) -> int:
        return self.number

    @workflow.query("add")
    def add(self, left: int, right: int = 10) -> dict[str, int]:
        return {"sum": self.number + left + right}

    @workflow.query("fails")
    def fails(self) -> int:
        raise ValueError("not today")

    @workflow.query("process")
    def process(self) -> int:
        return os.getpid()

    @workflow.query("die_once")
    def die_once(self, mark: str) -> int:
        """The first worker that is asked dies before it answers."""
        try:
            Path(mark).touch(exist_ok=False)
        except FileExistsError:
            return os.getpid()
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


async def main(url: str, queue: str) -> None:
    async with Client(url, token=TOKEN) as client:
        worker = Worker(client, task_queue=queue, workflows=[Asked], activities=[count])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.stop()))
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
