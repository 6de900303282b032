"""Cancelling with the published client and worker: at once, and with time to clean up."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client
from durable_workflow.errors import WorkflowCancelled

from tests.e2e.recording_server import SHAPES, RecordingServer, recording_server
from tests.harness.waiting import eventually


async def start(client: Client, server: RecordingServer, marks: Path) -> Any:
    """A workflow whose activity is running."""
    handle = await client.start_workflow(
        workflow_type="cleaning-up",
        workflow_id=f"cleaning-{uuid.uuid4().hex[:8]}",
        task_queue=server.queue,
        input=[str(marks)],
    )

    async def runs() -> bool:
        return marks.exists()

    await eventually(runs, "the slow activity runs", 30)
    return handle


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_cancelled_workflow_ends_at_once(tmp_path: Path, database_url: str, redis_url: str, shape: str) -> None:
    with recording_server(tmp_path, shape, database_url, redis_url) as server, server.worker():
        async with server.client() as client:
            handle = await start(client, server, tmp_path / "marks")
            await handle.cancel(reason="enough")
            with pytest.raises(WorkflowCancelled, match="enough"):
                await handle.result(timeout=10)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_workflow_cleans_up_although_its_worker_dies(
    tmp_path: Path, database_url: str, redis_url: str, shape: str
) -> None:
    with recording_server(tmp_path, shape, database_url, redis_url) as server:
        async with server.client() as client:
            with server.worker():
                handle = await start(client, server, tmp_path / "marks")
                answer = await handle.request_cancellation(reason="late", cleanup_timeout_seconds=120)
                assert (answer["accepted"], answer["duplicate"]) == (True, False)
                again = await handle.request_cancellation(reason="again")
                assert again["duplicate"] is True

                async def is_delivered() -> bool:
                    shown = await server.describe(handle.workflow_id)
                    return bool(shown["cancellation_request"]["delivered_at"] and shown["wait_kind"] == "timer")

                await eventually(is_delivered, "the cancellation is delivered", 30)
            with server.worker(), pytest.raises(WorkflowCancelled, match="late"):
                await handle.result(timeout=40)
            ended = await server.describe(handle.workflow_id)
            assert (ended["status"], ended["closed_reason"]) == ("cancelled", "cancelled")
            assert ended["memo"] == {"undone": -7}
