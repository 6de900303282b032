"""A worker whose workflow is edited by updates and signals. Arguments: URL of the worker plane, task queue."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.errors import UpdateRejected
from durable_workflow.workflow import WorkflowContext

TOKEN = "dev-token"


@activity.defn(name="double")
def double(number: int) -> int:
    return 2 * number


@workflow.defn(name="edited")
class Edited:
    """Collects numbers until it is told that they are enough, then doubles their sum."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.is_enough = False

    def run(self, ctx: WorkflowContext) -> Generator[Any, Any, Any]:
        yield ctx.wait_condition(lambda: self.is_enough, key="enough")
        return (yield ctx.schedule_activity("double", [sum(self.numbers)]))

    @workflow.signal("note")
    def note(self, number: int) -> None:
        self.numbers.append(number)

    @workflow.signal("enough")
    def enough(self) -> None:
        self.is_enough = True

    @workflow.update("add")
    def add(self, number: int, times: int = 1) -> list[int]:
        if number < 0:
            raise ValueError("only what adds up")
        self.numbers += [number] * times
        return self.numbers

    @workflow.query("numbers")
    def current_numbers(self) -> list[int]:
        return self.numbers


@workflow.defn(name="guarded")
class Guarded(Edited):
    """The same, with a validator."""

    @workflow.update("limit")
    def limit(self, number: int) -> list[int]:
        self.numbers = [min(known, number) for known in self.numbers]
        return self.numbers

    @workflow.update_validator("limit")
    def check_limit(self, number: int) -> None:
        if number < 1:
            raise UpdateRejected("too low", validation_errors={"number": ["must be positive"]})


async def main(url: str, queue: str) -> None:
    async with Client(url, token=TOKEN) as client:
        worker = Worker(client, task_queue=queue, workflows=[Edited, Guarded], activities=[double])
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.stop()))
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
