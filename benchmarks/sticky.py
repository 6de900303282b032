"""``python -m benchmarks.sticky``: what a worker reads to take up a long history, with and without its own copy.

A workflow whose history has been made long takes one step after another. For each workflow task the worker reads all
pages of the history, or, when it keeps the history as the SDK's sticky cache does, the start and the page on which its
copy ends.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from benchmarks.caller import Caller
from benchmarks.protocol import ACTIVITY_TYPE, PAYLOAD, WORKFLOW_TYPE
from benchmarks.stack import running_server, running_stores
from dw_runtime.telemetry.logs import configure_logs

PAGE_EVENTS: Final = 500
BATCH_COMMANDS: Final = 900
SCHEDULE: Final[dict[str, Any]] = {"type": "schedule_activity", "activity_type": ACTIVITY_TYPE, "arguments": PAYLOAD}
SIDE_EFFECT: Final[dict[str, Any]] = {"type": "record_side_effect", "result": PAYLOAD}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What taking up one history cost: pages, bytes and milliseconds."""

    pages: int
    size: int
    milliseconds: float


class Worker:
    """A worker of one queue that has one request in flight; ``is_sticky`` when it keeps histories."""

    def __init__(self, caller: Caller, *, is_sticky: bool) -> None:
        self.send = caller.send
        self._is_sticky = is_sticky
        self._queue = f"sticky-{uuid.uuid4().hex[:8]}"
        self._worker_id = f"{self._queue}-worker"
        self._token: str | None = None

    async def begin(self, events: int) -> None:
        """Register, start a workflow and fill its history."""
        body = {"worker_id": self._worker_id, "task_queue": self._queue, "runtime": "python"}
        await self.send("/worker/register", body | {"supported_activity_types": [ACTIVITY_TYPE]})
        await self.send("/workflows", {"workflow_type": WORKFLOW_TYPE, "task_queue": self._queue, "input": PAYLOAD})
        task = (await self._poll("workflow"))[0]
        while task["last_history_sequence"] < events:
            missing = min(BATCH_COMMANDS, events - task["last_history_sequence"])
            await self._complete(task, [SIDE_EFFECT] * missing + [SCHEDULE])
            task = await self._step()
        await self._read(task)
        await self._complete(task, [SCHEDULE])

    async def take_up(self) -> Reading:
        """One step: do the activity, then poll and read what replay needs; only that is measured."""
        await self._do_activity()
        began = time.perf_counter()
        task, size = await self._poll("workflow")
        pages, more = await self._read(task)
        reading = Reading(pages=pages, size=size + more, milliseconds=(time.perf_counter() - began) * 1000)
        await self._complete(task, [SCHEDULE])
        return reading

    async def _step(self) -> dict[str, Any]:
        await self._do_activity()
        return (await self._poll("workflow"))[0]

    async def _do_activity(self) -> None:
        task = (await self._poll("activity"))[0]
        fence = {name: task[name] for name in ("activity_attempt_id", "lease_owner")}
        await self.send(f"/worker/activity-tasks/{task['task_id']}/complete", fence | {"result": PAYLOAD})

    async def _poll(self, kind: str) -> tuple[dict[str, Any], int]:
        body = {"worker_id": self._worker_id, "task_queue": self._queue, "timeout_seconds": 20}
        answer, size = await self.send(f"/worker/{kind}-tasks/poll", body | {"poll_request_id": uuid.uuid4().hex})
        task: dict[str, Any] = answer["task"]
        return task, size

    async def _read(self, task: dict[str, Any]) -> tuple[int, int]:
        """The pages after the first: all of them, or from the one on which the worker's copy ends."""
        pages, size, token = 1, 0, task["next_history_page_token"]
        if token is not None and task.get("sticky_replay_mode") == "sticky_hit_expected":
            token = self._token or token
        while token is not None:
            fence = {name: task[name] for name in ("lease_owner", "workflow_task_attempt")}
            asked = fence | {"next_history_page_token": token, "history_page_size": PAGE_EVENTS}
            page, more = await self.send(f"/worker/workflow-tasks/{task['task_id']}/history", asked)
            self._token = token
            token, pages, size = page["next_history_page_token"], pages + 1, size + more
        return pages, size

    async def _complete(self, task: dict[str, Any], commands: Sequence[dict[str, Any]]) -> None:
        body: dict[str, Any] = {name: task[name] for name in ("lease_owner", "workflow_task_attempt")}
        if self._is_sticky:
            body["sticky_cache"] = {
                "worker_id": self._worker_id,
                "workflow_id": task["workflow_id"],
                "run_id": task["run_id"],
                "build_id": "benchmark",
                "ttl_seconds": 300,
            }
        await self.send(f"/worker/workflow-tasks/{task['task_id']}/complete", body | {"commands": list(commands)})


async def measure(url: str, events: int, steps: int, *, is_sticky: bool) -> list[Reading]:
    """``steps`` readings of a history of at least so many events."""
    caller = await Caller.connect(url)
    try:
        worker = Worker(caller, is_sticky=is_sticky)
        await worker.begin(events)
        return [await worker.take_up() for _ in range(steps)]
    finally:
        caller.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sticky", description=(__doc__ or "").split(":", 1)[1])
    parser.add_argument("--events", type=int, nargs="*", default=[1000, 5000], help="lengths of the history")
    parser.add_argument("--steps", type=int, default=50, help="workflow tasks of each case")
    options = parser.parse_args(arguments)
    configure_logs("warning")
    print("events  sticky  pages     KiB  p50 ms  p95 ms")
    with running_stores() as services, running_server(services) as server:
        for events in options.events:
            for is_sticky in (False, True):
                url = f"http://127.0.0.1:{server.port}"
                found = asyncio.run(measure(url, events, options.steps, is_sticky=is_sticky))
                times = sorted(reading.milliseconds for reading in found)
                print(
                    f"{events:6}  {'yes' if is_sticky else 'no':>6}"
                    f"  {statistics.mean(reading.pages for reading in found):5.1f}"
                    f"  {statistics.mean(reading.size for reading in found) / 1024:6.0f}"
                    f"  {statistics.median(times):6.1f}  {times[int(len(times) * 0.95)]:6.1f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
