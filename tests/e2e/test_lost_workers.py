"""A worker that dies between its poll and its report; leases last two seconds here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from durable_workflow import Client

from tests.conftest import NewDatabase
from tests.e2e.conftest import Planes, worker_on
from tests.e2e.test_workflows import OneStep, double, start
from tests.harness.servers import TOKEN, Server, serving
from tests.harness.wire import wired


@pytest.fixture
def planes(standalone_planes: Planes) -> Planes:
    """These tests are about one process."""
    return standalone_planes


ROOT = Path(__file__).parents[2]
SHORT_LEASES = {
    "DW_WORKFLOW_TASK_TIMEOUT": "2",
    "DW_ACTIVITY_TASK_TIMEOUT": "2",
    "DW_ALLOW_UNSAFE_LIMITS": "true",
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str) -> Iterator[Server]:
    """A standalone process whose leases are short."""
    with new_database("impatient") as url:
        environ = {"DATABASE_URL": url, "REDIS_URL": redis_url, **SHORT_LEASES}
        with serving(tmp_path_factory.mktemp("impatient"), environ, "standalone") as servers:
            yield servers[0]


@contextmanager
def stuck_worker(server: Server, queue: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that is killed at the latest when the context ends."""
    command = [sys.executable, "-m", "tests.e2e.stuck_worker", server.url, queue, kind]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["workflow", "activity"])
async def test_the_task_of_a_killed_worker_goes_to_another_one(impatient: Server, queue: str, kind: str) -> None:
    async with Client(impatient.url, token=TOKEN) as client, wired(impatient.url) as wire:
        handle = await start(client, queue, "one-step", 21)
        with stuck_worker(impatient, queue, kind) as lost:
            assert lost.stdout is not None
            assert lost.stdout.readline() == "stuck\n"
            lost.kill()
            lost.wait()
        async with worker_on(client, queue, [OneStep], [double]):
            assert await client.get_result(handle, poll_interval=0.05) == 42
        events = await wire.events(handle.workflow_id, handle.run_id)
    types = Counter(event["event_type"] for event in events)
    assert types["ActivityScheduled"] == types["ActivityCompleted"] == types["WorkflowCompleted"] == 1
    assert types["ActivityStarted"] == (2 if kind == "activity" else 1)
    (completed,) = (event["payload"] for event in events if event["event_type"] == "ActivityCompleted")
    assert completed["attempt_number"] == types["ActivityStarted"]


async def test_the_manifest_shows_the_leases_that_hold(impatient: Server) -> None:
    async with wired(impatient.url) as wire:
        topology = (await wire.control("GET", "/cluster/info")).json()["topology"]
    leases = topology["matching_role"]["discovery_limits"]
    assert (leases["workflow_task_lease_seconds"], leases["activity_task_lease_seconds"]) == (2, 2)
