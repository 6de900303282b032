"""A worker that opens a session with its first activity, hangs in the next, and says so: ``URL QUEUE``."""

from __future__ import annotations

import asyncio
import sys
import threading

from durable_workflow import Client, Worker, activity

from tests.e2e.test_worker_sessions import Pinned
from tests.harness.servers import TOKEN

URL, QUEUE = sys.argv[1:]
CALLS: list[int] = []


@activity.defn(name="where")
def where(step: int) -> str:
    CALLS.append(step)
    if len(CALLS) > 1:
        print("stuck", flush=True)
        threading.Event().wait()
    return "lost"


async def main() -> None:
    async with Client(URL, token=TOKEN) as client:
        await Worker(client, task_queue=QUEUE, worker_id="lost", workflows=[Pinned], activities=[where]).run()


if __name__ == "__main__":
    asyncio.run(main())
