"""One running server for all end-to-end tests of a test process, and the published SDK as application and worker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from durable_workflow import Client, Worker

from tests.conftest import NewDatabase
from tests.harness.servers import TOKEN, Server, serving

Working = Callable[..., AbstractAsyncContextManager[Worker]]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str) -> Iterator[Server]:
    """A standalone process; the scheduler runs beside it on the same database."""
    with new_database("e2e") as url:
        environ = {"DATABASE_URL": url, "REDIS_URL": redis_url}
        shape = {"DW_SERVER_TOPOLOGY_SHAPE": "standalone_server"}
        with serving(tmp_path_factory.mktemp("e2e"), environ | shape, "standalone", "scheduler") as servers:
            yield servers[0]


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """The application's side."""
    async with Client(server.url, token=TOKEN) as client:
        yield client


@pytest.fixture
def queue() -> str:
    """A task queue of this test alone."""
    return f"q-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def worker_on(
    client: Client, queue: str, workflows: Sequence[Any], activities: Sequence[Any] = (), **options: Any
) -> AsyncIterator[Worker]:
    """A worker of the SDK that serves the queue until the end of the context."""
    worker = Worker(client, task_queue=queue, workflows=list(workflows), activities=list(activities), **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop()
        await running


@pytest.fixture
def working(client: Client, queue: str) -> Working:
    """Runs a worker of the SDK on the queue of the test."""
    return partial(worker_on, client, queue)
