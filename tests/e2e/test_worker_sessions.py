"""Worker sessions with the published worker: activities of a session stay together, also after a killed worker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.worker_session import WorkerSessionOptions
from durable_workflow.workflow import WorkflowContext

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.e2e.test_activity_lease_renewal import SHAPES, shape
from tests.e2e.test_workflows import start
from tests.harness.servers import TOKEN
from tests.harness.wire import wired

ROOT = Path(__file__).parents[2]


@workflow.defn(name="pinned")
class Pinned:
    """Asks three times, twice at once in the end, which worker runs the activities of its session."""

    def run(self, ctx: WorkflowContext, session_id: str, lease_seconds: int) -> Generator[Any, Any, Any]:
        session = WorkerSessionOptions(session_id, lease_seconds=lease_seconds)
        first = yield ctx.schedule_activity("where", [1], worker_session=session)
        second = yield ctx.schedule_activity("where", [2], worker_session=session)
        both = yield [ctx.schedule_activity("where", [step], worker_session=session) for step in (3, 4)]
        return [first, second, *both]


def where(name: str) -> Callable[[int], str]:
    """The activity of a worker, which says its name."""

    @activity.defn(name="where")
    def said(step: int) -> str:
        return name

    return said


@contextmanager
def stuck_holder(url: str, queue: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that holds a session, and is killed when the context ends."""
    command = [sys.executable, "-m", "tests.e2e.stuck_session_worker", url, queue]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", SHAPES)
async def test_the_activities_of_a_session_stay_on_one_worker_until_it_is_killed(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    with shape(name, tmp_path, new_database, redis_url) as (control, matching):
        async with Client(control.url, token=TOKEN) as client, Client(matching.url, token=TOKEN) as plane:
            moved = await start(client, queue, "pinned", f"moved-{queue}", 2)
            with stuck_holder(matching.url, queue) as lost:
                assert lost.stdout is not None
                assert await asyncio.to_thread(lost.stdout.readline) == "stuck\n"
            async with (
                worker_on(plane, queue, [Pinned], [where("a")], worker_id=f"a-{queue}"),
                worker_on(plane, queue, [Pinned], [where("b")], worker_id=f"b-{queue}"),
            ):
                handles = [await start(client, queue, "pinned", f"s-{number}-{queue}", 60) for number in range(8)]
                found = [await client.get_result(handle, poll_interval=0.05, timeout=60) for handle in handles]
                assert [len(set(names)) for names in found] == [1] * len(found), found
                first, *later = await client.get_result(moved, poll_interval=0.05, timeout=60)
                assert first == "lost"
                assert len(set(later)) == 1
                assert set(later) <= {"a", "b"}


@pytest.mark.parametrize("name", SHAPES)
async def test_a_worker_creates_renews_and_closes_a_session_and_closes_those_it_holds_when_it_stops(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    with shape(name, tmp_path, new_database, redis_url) as (control, matching):
        async with Client(control.url, token=TOKEN) as client, Client(matching.url, token=TOKEN) as plane:
            async with worker_on(plane, queue, [Pinned], [where("a")]) as worker:
                handle = await start(client, queue, "pinned", "opened/lazily", 60)
                assert await client.get_result(handle, poll_interval=0.05, timeout=60) == ["a"] * 4
                session = worker.worker_session(WorkerSessionOptions("opened by hand", lease_seconds=30))
                assert (await session.create())["outcome"] == "created"
                assert (await session.renew())["outcome"] == "heartbeat_recorded"
                assert (await session.close())["outcome"] == "closed"
                worker_id = worker.worker_id
            async with wired(matching.url) as wire:
                answer = await wire.worker("DELETE", "/sessions/opened%2Flazily", {"worker_id": worker_id})
            assert answer.json()["outcome"] == "already_closed"
