"""Activities that run longer than their lease, with the published worker; leases last two seconds here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.e2e.test_lost_workers import SHORT_LEASES, stuck_worker
from tests.e2e.test_workflows import OneStep, double, start
from tests.harness.servers import TOKEN, Server, serving

SHAPES = {
    "standalone": ("standalone", "scheduler"),
    "split": ("api-ingress", "matching", "scheduler"),
}
LONGER_THAN_A_LEASE = 5.0
STARTED: Counter[str] = Counter()


@activity.defn(name="slow")
async def slow(name: str) -> str:
    STARTED[name] += 1
    await asyncio.sleep(LONGER_THAN_A_LEASE)
    return name


@workflow.defn(name="patient")
class Patient:
    def run(self, ctx: WorkflowContext, name: str) -> Generator[Any, Any, Any]:
        return (yield ctx.schedule_activity("slow", [name]))


@contextmanager
def shape(name: str, folder: Path, new_database: NewDatabase, redis_url: str) -> Iterator[tuple[Server, Server]]:
    """The processes that serve the control plane and the worker plane in this shape."""
    with new_database(f"leases-{name}") as url:
        environ = {"DATABASE_URL": url, "REDIS_URL": redis_url, **SHORT_LEASES}
        with serving(folder, environ, *SHAPES[name]) as servers:
            yield servers[0], servers[1 if name == "split" else 0]


@pytest.mark.parametrize("name", SHAPES)
async def test_an_activity_outlives_its_lease_and_that_of_a_killed_worker_does_not(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    """The worker renews in the background, so only one attempt runs; a killed worker renews nothing."""
    with shape(name, tmp_path, new_database, redis_url) as (control, matching):
        async with Client(control.url, token=TOKEN) as client, Client(matching.url, token=TOKEN) as plane:
            lost_run = await start(client, queue, "one-step", 21)
            with stuck_worker(matching, queue, "activity") as lost:
                assert lost.stdout is not None
                assert await asyncio.to_thread(lost.stdout.readline) == "stuck\n"
                lost.kill()
                lost.wait()
            handle = await start(client, queue, "patient", queue)
            async with worker_on(plane, queue, [OneStep, Patient], [double, slow]):
                assert await client.get_result(handle, poll_interval=0.05) == queue
                assert await client.get_result(lost_run, poll_interval=0.05) == 42
            assert STARTED[queue] == 1
