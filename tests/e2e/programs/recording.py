"""A worker whose workflows record things and clean up. Arguments: URL of the worker plane, task queue."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.errors import WorkflowCancelled
from durable_workflow.workflow import WorkflowContext

TOKEN = "dev-token"
Steps = Generator[Any, Any, Any]


@activity.defn(name="flaky")
def flaky(marks: str) -> str:
    """Fail the first time, mark every call."""
    with Path(marks).open("a", encoding="utf-8") as file:
        file.write("call\n")
    if Path(marks).read_text(encoding="utf-8").count("call") < 2:
        raise ValueError("not yet")
    return "normed"


@activity.defn(name="slow")
def slow(marks: str) -> str:
    """Run until the end of the test, unless somebody stops it."""
    Path(marks).write_text("running", encoding="utf-8")
    time.sleep(120)
    return "too late"


@activity.defn(name="undo")
def undo(number: int) -> int:
    """Undo something."""
    return -number


@workflow.defn(name="recording")
class Recording:
    """Records all it can before and after a signal; a worker without memory of the first half does the second one."""

    def __init__(self) -> None:
        self.is_told = False

    @workflow.signal("go")
    def on_go(self) -> None:
        """Go on."""
        self.is_told = True

    def run(self, ctx: WorkflowContext, marks: str) -> Steps:
        yield ctx.upsert_memo({"stage": "begun", "bytes": b"\x00\xff"})
        yield ctx.upsert_search_attributes({"Stage": "begun", "Count": 1})
        policy = {"max_attempts": 3, "backoff_seconds": [0]}
        normed = yield ctx.local_activity("flaky", [marks], retry_policy=policy)
        yield ctx.wait_condition(lambda: self.is_told, key="told")
        yield ctx.upsert_memo({"stage": "done", "bytes": None})
        yield ctx.upsert_search_attributes({"Stage": "done", "Count": None})
        return normed


@workflow.defn(name="cleaning-up")
class CleaningUp:
    """Waits for an activity that takes too long, and cleans up when it is told to stop."""

    def run(self, ctx: WorkflowContext, marks: str) -> Steps:
        try:
            yield ctx.schedule_activity("slow", [marks])
        except WorkflowCancelled:
            yield ctx.sleep(2)
            undone = yield ctx.schedule_activity("undo", [7])
            yield ctx.upsert_memo({"undone": undone})
            raise
        return None


async def main(url: str, queue: str) -> None:
    async with Client(url, token=TOKEN) as client:
        worker = Worker(
            client,
            task_queue=queue,
            workflows=[Recording, CleaningUp],
            activities=[flaky, slow, undo],
            capabilities=["cooperative_cancellation"],
        )
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
