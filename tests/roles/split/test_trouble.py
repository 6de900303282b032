"""What happens when a process, or the Valkey between them, goes away."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from dw_standalone.embedded.valkey import EmbeddedValkey
from tests.harness.servers import TOKEN, Server, serving
from tests.harness.waiting import eventually
from tests.harness.wire import Wire, wired
from tests.roles.split.conftest import SHORT_LEASES, NewSplit

HELD = 100


@activity.defn(name="step")
def step(number: int) -> int:
    return number + 1


@workflow.defn(name="steps")
class Steps:
    def run(self, ctx: WorkflowContext, number: int) -> Generator[Any, Any, Any]:
        for _ in range(10):
            number = yield ctx.schedule_activity("step", [number])
        return number


async def cache_is(server: Server, status: str) -> bool:
    """Whether the process is ready and its cache check has this status; what it says may be a second old."""
    code, body = await asyncio.to_thread(server.get, "/api/ready")
    return bool(code == 200 and body["checks"]["cache"]["status"] == status)


async def start(wire: Wire, queue: str, workflow_id: str) -> str:
    body = {"workflow_id": workflow_id, "workflow_type": "raw", "task_queue": queue}
    run_id: str = (await wire.control("POST", "/workflows", body)).json()["run_id"]
    return run_id


async def test_the_leases_of_a_killed_process_are_recovered_by_the_other(new_split: NewSplit, queue: str) -> None:
    """Worker A loses its only process in the middle of an activity; worker B finishes what A had leased."""
    begun = asyncio.Event()
    ran: Counter[int] = Counter()

    @activity.defn(name="step")
    async def stuck(number: int) -> int:
        if number == 5:
            begun.set()
            await asyncio.Event().wait()
        return number + 1

    @activity.defn(name="step")
    def counted(number: int) -> int:
        ran[number] += 1
        return number + 1

    with new_split(**SHORT_LEASES) as split:
        lost, kept = split.matching
        async with (
            Client(split.ingress.url, token=TOKEN) as application,
            Client(lost.url, token=TOKEN) as one,
            Client(kept.url, token=TOKEN) as other,
        ):
            worker_a = Worker(one, task_queue=queue, workflows=[Steps], activities=[stuck], shutdown_timeout=1)
            running_a = asyncio.create_task(worker_a.run())
            handle = await application.start_workflow(
                workflow_type="steps", workflow_id=queue, task_queue=queue, input=[0]
            )
            await asyncio.wait_for(begun.wait(), 30)
            lost.kill()
            worker_b = Worker(other, task_queue=queue, workflows=[Steps], activities=[counted])
            running_b = asyncio.create_task(worker_b.run())
            assert await application.get_result(handle, poll_interval=0.1, timeout=60) == 10
            running_a.cancel()
            await asyncio.gather(running_a, return_exceptions=True)
            await worker_b.stop()
            await running_b
        async with wired(split.ingress.url) as wire:
            events = Counter(event["event_type"] for event in await wire.events(queue, handle.run_id or ""))
    assert ran == Counter(dict.fromkeys(range(5, 10), 1))
    assert (events["ActivityCompleted"], events["ActivityStarted"], events["WorkflowCompleted"]) == (10, 11, 1)


async def test_a_hundred_held_polls_end_politely_on_sigterm(new_split: NewSplit, queue: str) -> None:
    with new_split() as split:
        leaving = split.matching[0]
        async with wired(leaving.url) as wire:
            await wire.register("w-1", queue, supported_activity_types=["step"])
            body = {"worker_id": "w-1", "task_queue": queue, "timeout_seconds": 60}
            polls = [
                asyncio.create_task(wire.worker("POST", f"/{kind}-tasks/poll", body))
                for kind in ("workflow", "activity")
                for _ in range(HELD // 2)
            ]
            await eventually(partial(leaving.holds, HELD), "the polls are held")
            leaving.terminate()
            answers = await asyncio.wait_for(asyncio.gather(*polls), 5)
            code = await asyncio.to_thread(leaving.exit_code, 5)
        for answer in answers:
            assert (answer.status_code, answer.json()["poll_status"], answer.json()["task"]) == (200, "empty", None)
        assert code == 0, leaving.log
        # What comes while the process leaves goes to the other one.
        async with wired(split.ingress.url) as application, wired(split.matching[1].url) as stays:
            await start(application, queue, queue)
            task = await stays.poll("workflow", "w-1", queue)
            assert task is not None
            assert task["workflow_task_attempt"] == 1


async def test_without_valkey_everything_works_only_slower(new_split: NewSplit, queue: str, tmp_path: Path) -> None:
    valkey = EmbeddedValkey(tmp_path)
    with new_split(REDIS_URL=valkey.start()) as split:
        processes = (split.ingress, *split.matching, split.scheduler)
        for server in processes:
            assert await cache_is(server, "ok")
        async with (
            wired(split.ingress.url) as application,
            wired(split.matching[0].url) as wire,
            Client(split.ingress.url, token=TOKEN) as client,
            Client(split.matching[1].url, token=TOKEN) as workers,
        ):
            await wire.register("w-1", queue)
            held = asyncio.create_task(wire.poll("workflow", "w-1", queue, timeout_seconds=60))
            await eventually(partial(split.matching[0].holds, 1), "the polls are held")
            await asyncio.to_thread(valkey.stop)
            await start(application, queue, f"{queue}-held")
            task = await held
            assert task is not None
            assert task["workflow_id"] == f"{queue}-held"

            worker = Worker(workers, task_queue=f"{queue}-sdk", workflows=[Steps], activities=[step])
            running = asyncio.create_task(worker.run())
            handle = await client.start_workflow(
                workflow_type="steps", workflow_id=queue, task_queue=f"{queue}-sdk", input=[0]
            )
            assert await client.get_result(handle, poll_interval=0.1) == 10
            await worker.stop()
            await running
        for server in processes:
            await eventually(partial(cache_is, server, "warning"), "readiness tells of the loss")
            said = Counter(json.loads(line)["event"] for line in server.log.splitlines())
            assert said["wake.subscription.failed"] == said["readiness.cache.failed"] == 1
            assert said["wake.publish.failed"] <= 1


async def test_a_restarted_process_goes_on_where_the_old_one_stopped(
    new_split: NewSplit, queue: str, tmp_path: Path
) -> None:
    """A rolling restart: the worker's registration and leases outlive the process it spoke to."""
    with new_split() as split:
        old = split.matching[0]
        async with wired(split.ingress.url) as application, wired(old.url) as wire:
            await start(application, queue, queue)
            await wire.register("w-1", queue)
            task = await wire.poll("workflow", "w-1", queue, poll_request_id="poll-1")
            assert task is not None
        began = time.monotonic()
        old.terminate()
        assert old.exit_code() == 0, old.log
        assert time.monotonic() - began < 5
        with serving(tmp_path, old.environ, "matching") as (new,):
            async with wired(new.url) as wire:
                assert await wire.poll("workflow", "w-1", queue, poll_request_id="poll-1") == task
                done = await wire.complete(task, {"type": "complete_workflow"})
                assert done.json()["run_status"] == "completed"
