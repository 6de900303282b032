"""A history of more than six hundred events: paged for the SDK, compressed for who asks."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Generator
from typing import Any

import pytest
from durable_workflow import Client, workflow
from durable_workflow.workflow import WorkflowContext

from tests.e2e.conftest import Planes, Working
from tests.e2e.test_workflows import double, start
from tests.harness.servers import Server
from tests.harness.waiting import eventually
from tests.harness.wire import JSON, Wire, wired


@pytest.fixture
def planes(standalone_planes: Planes) -> Planes:
    """These tests are about one process."""
    return standalone_planes


WIDTH = 205
TOTAL = 2 + 3 * WIDTH
PAGE = 500


@workflow.defn(name="wide")
class Wide:
    def run(self, ctx: WorkflowContext, width: int) -> Generator[Any, Any, Any]:
        return sum((yield [ctx.schedule_activity("double", [number]) for number in range(width)]))


async def test_a_long_history_is_paged_and_compressed(
    server: Server, client: Client, queue: str, working: Working
) -> None:
    async with wired(server.url) as wire:
        handle = await start(client, queue, "wide", WIDTH)

        async def has(events: int) -> bool:
            return len(await wire.events(handle.workflow_id, handle.run_id)) >= events

        async with working([Wide]):
            await eventually(lambda: has(2 + WIDTH), "the activities are scheduled")
        async with working([], [double]):
            await eventually(lambda: has(TOTAL), "the activities are done", seconds=60)
        expected = await wire.events(handle.workflow_id, handle.run_id)
        assert await read_compressed(wire, queue) == expected
        assert (await wire.worker("DELETE", "/registrations/reader")).json()["recovered_workflow_task_count"] == 1
        async with working([Wide]):
            assert await client.get_result(handle, poll_interval=0.05) == sum(2 * n for n in range(WIDTH))
        assert len(await wire.events(handle.workflow_id, handle.run_id)) == TOTAL + 1


async def read_compressed(wire: Wire, queue: str) -> list[JSON]:
    """The history of the ready task, read page by page with gzip."""
    await wire.register("reader", queue)
    task = await wire.poll("workflow", "reader", queue, history_page_size=PAGE, accept_history_encoding="gzip")
    assert task is not None
    assert task["total_history_events"] == TOTAL
    events = unpacked(task)
    assert len(events) == PAGE
    answer = await wire.worker(
        "POST",
        f"/workflow-tasks/{task['task_id']}/history",
        {
            "lease_owner": "reader",
            "workflow_task_attempt": task["workflow_task_attempt"],
            "next_history_page_token": task["next_history_page_token"],
            "history_page_size": PAGE,
            "accept_history_encoding": "gzip",
        },
    )
    page = answer.json()
    assert page["next_history_page_token"] is None
    return events + unpacked(page)


def unpacked(body: JSON) -> list[JSON]:
    """The events of a page that must be compressed."""
    assert (body["history_events"], body["history_events_encoding"]) == ([], "gzip")
    events: list[JSON] = json.loads(gzip.decompress(base64.b64decode(body["history_events_compressed"])))
    return events
