"""``python -m benchmarks.shapes``: workflows of several shapes, one at a time on an otherwise idle server.

One activity, ten activities after each other, a hundred at once, a signal, and timers. Steps are compared with the one
activity of the first case, in the same run, because the milliseconds of a machine mean little by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from benchmarks.caller import Caller
from benchmarks.protocol import ACTIVITY_TYPE, PAYLOAD, WORKFLOW_TYPE
from benchmarks.stack import running_server, running_stores
from dw_runtime.telemetry.logs import configure_logs

ACTIVITY_POLLERS: Final = 8
STEPS: Final = 10
WIDTH: Final = 100
TIMERS: Final = 100
Json = dict[str, Any]

SCHEDULE: Final[Json] = {"type": "schedule_activity", "activity_type": ACTIVITY_TYPE, "arguments": PAYLOAD}
FINISH: Final[Json] = {"type": "complete_workflow", "result": PAYLOAD}
WAIT: Final[Json] = {"type": "open_condition_wait", "condition_key": "signalled"}


def group(prefix: str, kind: str, command: Json, size: int) -> list[Json]:
    """A flat parallel group of equal commands."""
    found = []
    for index in range(size):
        entry = {
            "parallel_group_id": f"{prefix}:1:{size}",
            "parallel_group_kind": kind,
            "parallel_group_base_sequence": 1,
            "parallel_group_size": size,
            "parallel_group_index": index,
        }
        found.append(command | entry | {"parallel_group_path": [entry]})
    return found


class Bench:
    """A worker with one workflow poll and several activity polls; activities do nothing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._queue = f"shapes-{uuid.uuid4().hex[:8]}"
        self._pollers: list[asyncio.Task[None]] = []
        self._callers: list[Caller] = []

    async def __aenter__(self) -> Bench:
        self._caller, self._signaller = await self._connect(), await self._connect()
        body = {"worker_id": self._queue, "task_queue": self._queue, "runtime": "python"}
        await self._caller.send("/worker/register", body | {"supported_activity_types": [ACTIVITY_TYPE]})
        for _ in range(ACTIVITY_POLLERS):
            self._pollers.append(asyncio.create_task(self._work(await self._connect())))
        return self

    async def __aexit__(self, *_: object) -> None:
        for poller in self._pollers:
            poller.cancel()
        await asyncio.gather(*self._pollers, return_exceptions=True)
        for caller in self._callers:
            caller.close()

    async def _connect(self) -> Caller:
        caller = await Caller.connect(self._url)
        self._callers.append(caller)
        return caller

    async def _work(self, caller: Caller) -> None:
        while True:
            task = await self._poll(caller, "activity")
            if task is not None:
                fence = {name: task[name] for name in ("activity_attempt_id", "lease_owner")}
                path = f"/worker/activity-tasks/{task['task_id']}/complete"
                await caller.send(path, fence | {"result": PAYLOAD})

    async def _poll(self, caller: Caller, kind: str) -> Json | None:
        body = {"worker_id": self._queue, "task_queue": self._queue, "timeout_seconds": 20}
        answer, _ = await caller.send(f"/worker/{kind}-tasks/poll", body | {"poll_request_id": uuid.uuid4().hex})
        task: Json | None = answer["task"]
        return task

    async def start(self) -> tuple[str, str]:
        """Start a workflow; its id and that of its run."""
        body = {"workflow_type": WORKFLOW_TYPE, "task_queue": self._queue, "input": PAYLOAD}
        answer, _ = await self._signaller.send("/workflows", body)
        return answer["workflow_id"], answer["run_id"]

    async def decide(self, commands: Sequence[Json]) -> Json:
        """Take the next workflow task and complete it."""
        task = None
        while task is None:
            task = await self._poll(self._caller, "workflow")
        fence = {name: task[name] for name in ("lease_owner", "workflow_task_attempt")}
        path = f"/worker/workflow-tasks/{task['task_id']}/complete"
        await self._caller.send(path, fence | {"commands": list(commands)})
        return task

    async def steps(self, count: int) -> float:
        """Milliseconds of a workflow of activities, one after the other."""
        began = time.perf_counter()
        await self.start()
        for _ in range(count):
            await self.decide([SCHEDULE])
        await self.decide([FINISH])
        return (time.perf_counter() - began) * 1000

    async def one_step(self) -> float:
        """Milliseconds of the smallest workflow."""
        return await self.steps(1)

    async def ten_steps(self) -> float:
        """Milliseconds of ten activities, one after the other."""
        return await self.steps(STEPS)

    async def fan_out(self) -> float:
        """Milliseconds of a hundred activities at once."""
        began = time.perf_counter()
        await self.start()
        await self.decide(group("parallel-activities", "activity", SCHEDULE, WIDTH))
        await self.decide([FINISH])
        return (time.perf_counter() - began) * 1000

    async def signal(self) -> float:
        """Milliseconds from sending a signal until the worker that waits for it has its task."""
        workflow_id, _ = await self.start()
        await self.decide([WAIT])
        polled = asyncio.create_task(self._poll(self._caller, "workflow"))
        await asyncio.sleep(0.02)  # the poll is held before the signal is sent
        began = time.perf_counter()
        await self._signaller.send(f"/workflows/{workflow_id}/signal/go", {"input": []})
        task = await polled
        elapsed = (time.perf_counter() - began) * 1000
        assert task is not None, "a signal wakes the workflow that waits for it"
        fence = {name: task[name] for name in ("lease_owner", "workflow_task_attempt")}
        path = f"/worker/workflow-tasks/{task['task_id']}/complete"
        await self._caller.send(path, fence | {"commands": [FINISH]})
        return elapsed

    async def timers(self) -> list[float]:
        """Milliseconds by which each of a hundred timers was late, by the clock of the database."""
        workflow_id, run_id = await self.start()
        commands = group("parallel-timers", "timer", {"type": "start_timer"}, TIMERS)
        await self.decide([command | {"delay_seconds": 1 + index % 3} for index, command in enumerate(commands)])
        await self.decide([FINISH])
        path = f"/workflows/{workflow_id}/runs/{run_id}/history?page_size=1000"
        history, _ = await self._signaller.send(path, method="GET")
        fired = [event["payload"] for event in history["events"] if event["event_type"] == "TimerFired"]
        return [
            (datetime.fromisoformat(one["fired_at"]) - datetime.fromisoformat(one["fire_at"])).total_seconds() * 1000
            for one in fired
        ]


def _row(name: str, times: Sequence[float], base: float | None) -> str:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    middle = statistics.median(ordered)
    ratio = "" if base is None else f"{middle / base:8.2f}"
    return f"{name:32}{len(ordered):8}{middle:10.1f}{p99:10.1f}{ratio}"


async def _measure(url: str, rounds: int) -> None:
    print(f"{'case':32}{'rounds':>8}{'p50 ms':>10}{'p99 ms':>10}{'x first':>8}")
    async with Bench(url) as bench:
        cases: list[tuple[str, Callable[[], Awaitable[float]], int]] = [
            ("one activity", bench.one_step, rounds),
            (f"{STEPS} activities in turn", bench.ten_steps, rounds),
            (f"{WIDTH} activities at once", bench.fan_out, max(rounds // 5, 5)),
            ("signal to waiting worker", bench.signal, rounds),
        ]
        base: float | None = None
        for name, case, count in cases:
            await case()
            times = [await case() for _ in range(count)]
            base = base or statistics.median(times)
            print(_row(name, times, base), flush=True)
        print(_row("lateness of timers", await bench.timers(), None), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=(__doc__ or "").split(":", 1)[1])
    parser.add_argument("--rounds", type=int, default=100, help="workflows of each case")
    options = parser.parse_args(arguments)
    configure_logs("warning")
    with (
        running_stores() as services,
        running_server(services) as server,
        running_server(services, role="scheduler"),
    ):
        asyncio.run(_measure(f"http://127.0.0.1:{server.port}", options.rounds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
