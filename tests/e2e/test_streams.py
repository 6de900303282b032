"""Message streams and output streams with the published client and worker, one that dies in the middle included."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from durable_workflow import Client

from tests.e2e.programs.streaming import PER_RUN, RUNS
from tests.e2e.recording_server import SHAPES, recording_server
from tests.harness.waiting import eventually


async def doubles(client: Client, workflow_id: str, run_id: str) -> list[int]:
    """What a run leaves, read until its stream ends."""
    return [item.payload async for item in client.iter_workflow_stream(workflow_id, run_id, "doubles")]


def verify(bundle: Path) -> None:
    """The published verifier accepts an exported run."""
    command = [Path(sys.executable).with_name("durable-workflow-history-bundle-verify"), bundle]
    verdict = subprocess.run(command, capture_output=True, text=True, check=False)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize("shape", SHAPES)
async def test_messages_are_consumed_in_order_across_runs_and_workers(
    tmp_path: Path, database_url: str, redis_url: str, shape: str
) -> None:
    workflow_id = f"streaming-{uuid.uuid4().hex[:8]}"
    with recording_server(tmp_path, shape, database_url, redis_url) as server:
        async with server.client() as client:
            handle = await client.start_workflow(
                workflow_type="streaming", workflow_id=workflow_id, task_queue=server.queue, input=[]
            )

            async def append(number: int) -> None:
                answer = await handle.append_message("numbers", f"m{number}", [number])
                assert answer["position"] == number

            async def consumed() -> int:
                stream = await server.read(f"/workflows/{workflow_id}/message-streams/numbers")
                return int(stream["cursor_position"])

            with server.worker("streaming.py"):
                for number in range(1, 3):
                    await append(number)

                async def both() -> bool:
                    return await consumed() == 2

                await eventually(both, "the worker has consumed what there is", 30)
                following = asyncio.create_task(doubles(client, workflow_id, str(handle.run_id)))
                await append(2)
            await eventually(server.holds_no_poll, "the server notices that the worker is gone", 30)
            for number in range(3, RUNS * PER_RUN + 1):
                await append(number)
            with server.worker("streaming.py"):
                total = sum(range(1, RUNS * PER_RUN + 1))
                assert await client.get_result(client.get_workflow_handle(workflow_id), timeout=30) == total
                assert await following == [2, 4, 6]
            chain = [run["run_id"] for run in (await server.read(f"/workflows/{workflow_id}/runs"))["runs"]]
            assert [await doubles(client, workflow_id, run_id) for run_id in chain] == [
                [2, 4, 6],
                [8, 10, 12],
                [14, 16, 18],
            ]
            for number, run_id in enumerate(chain):
                bundle = await server.read(f"/workflows/{workflow_id}/runs/{run_id}/history/export")
                path = tmp_path / f"bundle-{number}.json"
                path.write_text(json.dumps(bundle), encoding="utf-8")
                await asyncio.to_thread(verify, path)
