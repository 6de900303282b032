"""Memo, search attributes and local activities with the published worker, one that dies in the middle included."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.e2e.recording_server import SHAPES, recording_server
from tests.harness.waiting import eventually


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_workflow_records_is_seen_and_survives_its_worker(
    tmp_path: Path, database_url: str, redis_url: str, shape: str
) -> None:
    marks, workflow_id = tmp_path / "marks", f"recording-{uuid.uuid4().hex[:8]}"
    with recording_server(tmp_path, shape, database_url, redis_url) as server:
        async with server.client() as client:
            with server.worker():
                handle = await client.start_workflow(
                    workflow_type="recording",
                    workflow_id=workflow_id,
                    task_queue=server.queue,
                    input=[str(marks)],
                )

                async def waits() -> bool:
                    return bool((await server.describe(workflow_id))["wait_kind"] == "condition")

                await eventually(waits, "the workflow waits for its signal", 30)
                shown = await server.describe(workflow_id)
                assert shown["memo"] == {"stage": "begun", "bytes": "AP8="}
                assert shown["search_attributes"] == {"Stage": "begun", "Count": 1}
            await eventually(server.holds_no_poll, "the server notices that the worker is gone", 30)
            with server.worker():
                await handle.signal("go")
                assert await handle.result(timeout=30) == "normed"
            assert marks.read_text(encoding="utf-8").count("call") == 2, "what was recorded is not done again"
            ended = await server.describe(workflow_id)
            assert (ended["memo"], ended["search_attributes"]) == ({"stage": "done"}, {"Stage": "done"})
