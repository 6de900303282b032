"""Queries with the published client and worker, on one port and with the planes apart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest
from durable_workflow import Client
from durable_workflow.errors import QueryFailed

from dw_standalone.embedded.valkey import EmbeddedValkey
from tests.harness.development import running
from tests.harness.waiting import eventually, wait_until

PROGRAM = Path(__file__).with_name("programs") / "asked.py"
TOKEN = "dev-token"
SHAPES = {"standalone": (), "split": ("--split",)}


class Server(msgspec.Struct, frozen=True):
    """Where the planes answer, and what keeps the programs of a test apart from those of others."""

    control_url: str
    worker_url: str
    queue: str

    def client(self) -> Client:
        """A client of the control plane."""
        return Client(self.control_url, token=TOKEN)


@contextmanager
def server(folder: Path, shape: str, database_url: str, redis_url: str) -> Iterator[Server]:
    """A server of this shape."""
    with running(folder, *SHAPES[shape], environ={"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as dev:
        dev.greeting()
        yield Server(dev.url(0), dev.url(1) if shape == "split" else dev.url(0), f"asked-{uuid.uuid4().hex[:8]}")


@contextmanager
def worker(server: Server) -> Iterator[subprocess.Popen[bytes]]:
    """A worker program; what is left of it is killed at the end."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), server.worker_url, server.queue])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def start(client: Client, server: Server, *, ends: bool) -> str:
    """Start a run and return its workflow id once it has counted to 3: then it has closed, or waits."""
    workflow_id = f"asked-{uuid.uuid4().hex[:8]}"
    await client.start_workflow(workflow_type="asked", workflow_id=workflow_id, task_queue=server.queue, input=[ends])

    async def has_counted() -> bool:
        if ends:
            return (await client.describe_workflow(workflow_id)).status == "completed"
        return (await ask(client, workflow_id, "number")) == 3

    await eventually(has_counted, "the run has counted to 3", 30)
    return workflow_id


async def ask(client: Client, workflow_id: str, name: str, *args: object) -> object:
    """The result of a query, or None while no worker can answer it."""
    try:
        return (await client.query_workflow(workflow_id, name, args=list(args)))["result"]
    except QueryFailed as failed:
        if "No live worker" in str(failed):
            return None
        raise


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_running_workflow_answers(tmp_path: Path, database_url: str, redis_url: str, shape: str) -> None:
    with server(tmp_path, shape, database_url, redis_url) as served, worker(served):
        async with served.client() as client:
            workflow_id = await start(client, served, ends=False)
            assert await ask(client, workflow_id, "number") == 3
            assert await ask(client, workflow_id, "add", 1) == {"sum": 14}
            assert await ask(client, workflow_id, "add", 1, 2) == {"sum": 6}
            many = await asyncio.gather(*(ask(client, workflow_id, "add", number) for number in range(50)))
            assert many == [{"sum": 13 + number} for number in range(50)]
            for name, arguments, words in (
                ("nothing", (), "query"),
                ("fails", (), "not today"),
                ("add", (1, 2, 3), "do not fit"),
            ):
                with pytest.raises(QueryFailed, match=words):
                    await ask(client, workflow_id, name, *arguments)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_completed_run_answers_to_a_new_worker(
    tmp_path: Path, database_url: str, redis_url: str, shape: str
) -> None:
    with server(tmp_path, shape, database_url, redis_url) as served:
        async with served.client() as client:
            with worker(served):
                workflow_id = await start(client, served, ends=True)
            with worker(served) as fresh:

                async def is_answered() -> bool:
                    return await ask(client, workflow_id, "process") == fresh.pid

                await eventually(is_answered, "the new worker answers", 45)
                assert await ask(client, workflow_id, "number") == 3


@pytest.mark.parametrize("shape", SHAPES)
async def test_queries_are_answered_without_valkey(tmp_path: Path, database_url: str, shape: str) -> None:
    valkey = EmbeddedValkey(tmp_path / "valkey")
    with ExitStack() as stack:
        stack.callback(valkey.stop)
        served = stack.enter_context(server(tmp_path, shape, database_url, valkey.start()))
        stack.enter_context(worker(served))
        async with served.client() as client:
            workflow_id = await start(client, served, ends=False)
            valkey.stop()
            for number in range(3):
                assert await ask(client, workflow_id, "add", number) == {"sum": 13 + number}


@pytest.mark.parametrize("shape", SHAPES)
async def test_another_worker_answers_when_the_first_one_dies(
    tmp_path: Path, database_url: str, redis_url: str, shape: str
) -> None:
    with (
        server(tmp_path, shape, database_url, redis_url) as served,
        worker(served) as one,
        worker(served) as two,
    ):
        async with served.client() as client:
            workflow_id = await start(client, served, ends=False)
            seen: set[object] = set()

            async def both_answer() -> bool:
                seen.update(await asyncio.gather(*(ask(client, workflow_id, "process") for _ in range(4))))
                return seen >= {one.pid, two.pid}

            await eventually(both_answer, "both workers take queries", 30)
            survivor = await ask(client, workflow_id, "die_once", str(tmp_path / "died"))
            wait_until(lambda: {one.poll(), two.poll()} == {None, -9}, "one worker has died")
            assert survivor == (one.pid if one.poll() is None else two.pid)
