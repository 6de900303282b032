"""Updates with the published client and worker, on one port and with the planes apart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client
from durable_workflow.errors import SignalFailed, UpdateFailed, UpdateRejected, UpdateValidationFailed

from tests.conftest import NewDatabase
from tests.harness.development import running
from tests.harness.waiting import eventually

PROGRAM = Path(__file__).with_name("programs") / "edited.py"
TOKEN = "dev-token"
SHAPES = {"standalone": (), "split": ("--split",)}


@pytest.fixture(scope="module", params=SHAPES)
def urls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase, redis_url: str
) -> Iterator[tuple[str, str]]:
    """The URLs of the control plane and of the worker plane of a server in one of the shapes."""
    folder = tmp_path_factory.mktemp(request.param)
    with new_database(f"updates-{request.param}") as database_url:
        environ = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
        with running(folder, *SHAPES[request.param], environ=environ) as dev:
            dev.greeting()
            yield dev.url(0), dev.url(1) if request.param == "split" else dev.url(0)


@pytest.fixture
async def client(urls: tuple[str, str]) -> AsyncIterator[Client]:
    async with Client(urls[0], token=TOKEN) as client:
        yield client


@pytest.fixture
def queue() -> str:
    return f"edited-{uuid.uuid4().hex[:8]}"


@contextmanager
def worker(urls: tuple[str, str], queue: str) -> Iterator[None]:
    """A worker program; its successor begins with an empty cache."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), urls[1], queue])
    try:
        yield
        process.terminate()
        process.wait(60)
    finally:
        process.kill()
        process.wait()


async def registered(client: Client, queue: str, workflow_type: str = "edited") -> str:
    """Start a run as soon as its worker has registered, so that the run records what the worker declares."""
    workflow_ids: list[str] = []

    async def is_declared() -> bool:
        workflow_ids.append(f"{workflow_type}-{uuid.uuid4().hex[:8]}")
        handle = await client.start_workflow(
            workflow_type=workflow_type, workflow_id=workflow_ids[-1], task_queue=queue, input=[]
        )
        history = await client.get_history(workflow_ids[-1], str(handle.run_id))
        started = [e["payload"] for e in history["events"] if e["event_type"] == "WorkflowStarted"]
        return "declared_updates" in started[0]

    await eventually(is_declared, "the worker has registered", 30)
    return workflow_ids[-1]


async def add(client: Client, workflow_id: str, *arguments: Any, **options: Any) -> Any:
    """The result of the update ``add``."""
    waits: dict[str, Any] = {"wait_for": "completed", "wait_timeout_seconds": 30}
    answer = await client.update_workflow(workflow_id, "add", args=list(arguments), **waits | options)
    assert answer["update_status"] == "completed", answer
    return answer["result"]


async def test_updates_are_applied_in_order_and_survive_their_worker(
    urls: tuple[str, str], client: Client, queue: str
) -> None:
    with worker(urls, queue):
        workflow_id = await registered(client, queue)
        assert await add(client, workflow_id, 1) == [1]
        await client.signal_workflow(workflow_id, "note", args=[2])
        assert await add(client, workflow_id, 3, 2) == [1, 2, 3, 3]
        with pytest.raises(UpdateFailed, match="only what adds up"):
            await add(client, workflow_id, -1)
    accepted = await client.update_workflow(workflow_id, "add", args=[4], wait_for="accepted", request_id="four")
    assert (accepted["update_status"], accepted["retained"]) == ("accepted", False)
    with worker(urls, queue):
        assert await add(client, workflow_id, 4, request_id="four") == [1, 2, 3, 3, 4]
        again = await client.update_workflow(workflow_id, "add", args=[4], request_id="four")
        assert (again["update_id"], again["result"]) == (accepted["update_id"], [1, 2, 3, 3, 4])
        many = await asyncio.gather(*(add(client, workflow_id, 0) for _ in range(20)))
        assert sorted(len(numbers) for numbers in many) == list(range(6, 26))
        await client.signal_workflow(workflow_id, "enough")
        handle = client.get_workflow_handle(workflow_id)
        assert await client.get_result(handle, timeout=30) == 26
    with pytest.raises(Exception, match="already closed"):
        await add(client, workflow_id, 1)


async def test_what_is_not_declared_is_refused(urls: tuple[str, str], client: Client, queue: str) -> None:
    with worker(urls, queue):
        workflow_id = await registered(client, queue)
        for name, arguments in (("nothing", []), ("note", []), ("note", [1, 2])):
            with pytest.raises(SignalFailed):
                await client.signal_workflow(workflow_id, name, args=arguments)
        for name, arguments in (("nothing", []), ("add", []), ("add", [1, 2, 3])):
            with pytest.raises(Exception, match="declare"):
                await client.update_workflow(workflow_id, name, args=arguments)
        assert await add(client, workflow_id, 1) == [1]


async def test_a_validator_decides_before_an_update_is_accepted(
    urls: tuple[str, str], client: Client, queue: str
) -> None:
    with worker(urls, queue):
        workflow_id = await registered(client, queue, "guarded")
        assert await add(client, workflow_id, 7) == [7]
        with pytest.raises(UpdateRejected) as refused:
            await client.update_workflow(workflow_id, "limit", args=[0], wait_for="completed")
        assert refused.value.validation_errors == {"number": ["must be positive"]}
        answer = await client.update_workflow(workflow_id, "limit", args=[5], wait_for="completed")
        assert (answer["update_status"], answer["result"]) == ("completed", [5])
    with pytest.raises(UpdateValidationFailed):
        await client.update_workflow(workflow_id, "limit", args=[4])
    with worker(urls, queue):

        async def is_validated() -> bool:
            try:
                answer = await client.update_workflow(
                    workflow_id, "limit", args=[3], wait_for="completed", wait_timeout_seconds=30
                )
            except UpdateValidationFailed:
                return False
            return bool(answer["result"] == [3])

        await eventually(is_validated, "the new worker validates", 60)
        await client.signal_workflow(workflow_id, "enough")
        assert await client.get_result(client.get_workflow_handle(workflow_id), timeout=30) == 6
