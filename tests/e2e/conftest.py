"""Running servers of both shapes for the end-to-end tests of a test process, and the published SDK as application and
worker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
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


class Planes(msgspec.Struct, frozen=True):
    """Where each plane answers: one process in the standalone shape, two in the split one."""

    control: Server
    worker: Server


@pytest.fixture(scope="session")
def split_planes(
    tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str
) -> Iterator[Planes]:
    """The processes of the split shape."""
    with new_database("e2e_split") as url:
        environ = {"DATABASE_URL": url, "REDIS_URL": redis_url}
        shape = {"DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution"}
        commands = ("api-ingress", "matching", "scheduler")
        with serving(tmp_path_factory.mktemp("e2e-split"), environ | shape, *commands) as servers:
            yield Planes(servers[0], servers[1])


@pytest.fixture
def standalone_planes(server: Server) -> Planes:
    """Both planes in one process."""
    return Planes(server, server)


@pytest.fixture(params=["standalone", "split"])
def planes(request: pytest.FixtureRequest) -> Planes:
    """A server of either shape. A module whose tests are about one process overrides this."""
    found = request.getfixturevalue(f"{request.param}_planes")
    assert isinstance(found, Planes)
    return found


@pytest.fixture
async def client(planes: Planes) -> AsyncIterator[Client]:
    """The application's side."""
    async with Client(planes.control.url, token=TOKEN) as client:
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
async def working(planes: Planes, queue: str) -> AsyncIterator[Working]:
    """Runs a worker of the SDK on the queue of the test."""
    async with Client(planes.worker.url, token=TOKEN) as client:
        yield partial(worker_on, client, queue)
