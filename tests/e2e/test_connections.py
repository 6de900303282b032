"""Connections that are lost on either side of the server."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import psycopg
import pytest
from durable_workflow import Client

from tests.e2e.conftest import Planes, Working
from tests.e2e.test_workflows import Sequence, double, start
from tests.harness.servers import TOKEN, Server
from tests.harness.waiting import eventually
from tests.harness.wire import wired


@pytest.fixture
def planes(standalone_planes: Planes) -> Planes:
    """These tests are about one process."""
    return standalone_planes


STEPS = 30


async def test_a_poll_whose_connection_is_closed_takes_nothing(server: Server, queue: str) -> None:
    async with wired(server.url) as wire:
        await wire.register("w-1", queue)
        before = await asyncio.to_thread(server.held_polls)
        async with wired(server.url) as leaving:
            poll = asyncio.create_task(leaving.poll("workflow", "w-1", queue, timeout_seconds=60))
            await eventually(lambda: server.holds(before + 1), "the poll is held")
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)
        await eventually(lambda: server.holds(before), "the poll has been let go")
        body = {"workflow_id": queue, "workflow_type": "raw", "task_queue": queue}
        assert (await wire.control("POST", "/workflows", body)).status_code == 201
        task = await wire.poll("workflow", "w-1", queue)
        assert task is not None
        assert task["workflow_task_attempt"] == 1


@pytest.mark.parametrize(
    ("path", "token", "mebibytes", "status", "reason"),
    [
        ("/api/workflows", TOKEN, 10, 413, "payload_too_large"),
        ("/api/external-payloads/v1", TOKEN, 65, 413, "external_payload_oversized"),
        ("/api/external-payloads/v1", "nobody", 10, 401, "external_payload_unauthorized"),
        ("/api/external-payloads/v1", "nobody", 1, 401, "external_payload_unauthorized"),
        ("/nowhere", TOKEN, 10, 404, "not_found"),
        ("/nowhere", TOKEN, 1, 404, "not_found"),
    ],
)
async def test_a_body_that_is_refused_unread_does_not_cost_the_client_its_answer(
    server: Server, path: str, token: str, mebibytes: int, status: int, reason: str
) -> None:
    headers = {"authorization": f"Bearer {token}", "x-durable-workflow-control-plane-version": "2"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
        for _ in range(3):
            answer = await http.post(path, content=bytes(mebibytes * 1_048_576))
            assert (answer.status_code, answer.json()["reason"]) == (status, reason)


@pytest.mark.parametrize("path", ["/nowhere", "/api/external-payloads/v1"])
async def test_a_connection_is_kept_when_the_body_follows_its_refusal(server: Server, path: str) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for _ in range(2):
            writer.write(f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 5\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
            assert head.startswith((b"HTTP/1.1 404", b"HTTP/1.1 401")) and b"connection: close" not in head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
            await reader.readexactly(int(length.partition(b": ")[2]))
            writer.write(b"later")
    finally:
        writer.close()


async def test_a_workflow_survives_the_loss_of_every_database_connection(
    server: Server, client: Client, queue: str, working: Working
) -> None:
    """Again and again until the workflow is done: what was committed counts once, what was not is done again."""
    async with working([Sequence], [double]), wired(server.url) as wire:
        handle = await start(client, queue, "sequence", 1, STEPS)
        result = asyncio.create_task(client.get_result(handle, poll_interval=0.2, timeout=90))
        seen = 0
        async with await psycopg.AsyncConnection.connect(server.environ["DATABASE_URL"], autocommit=True) as admin:
            while not result.done() and seen < STEPS // 2:
                rows = await admin.execute(
                    "SELECT count(*) FROM activity_executions WHERE run_id = %s AND status = 'completed'",
                    (handle.run_id,),
                )
                row = await rows.fetchone()
                assert row is not None
                if row[0] >= seen + 3:
                    seen = row[0]
                    await admin.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND application_name = 'dw-server'"
                    )
                else:
                    await asyncio.sleep(0.005)
        assert await result == 2**STEPS
        types = Counter(event["event_type"] for event in await wire.events(handle.workflow_id, handle.run_id))
    assert seen >= STEPS // 2
    assert types["ActivityScheduled"] == types["ActivityCompleted"] == STEPS
    assert types["WorkflowCompleted"] == 1
