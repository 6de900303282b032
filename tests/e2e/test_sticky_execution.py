"""Sticky execution with the published worker: it reads only the tail of a history that it keeps."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, workflow
from durable_workflow.workflow import WorkflowContext

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.e2e.test_activity_lease_renewal import SHAPES, shape
from tests.e2e.test_workflows import double, start
from tests.harness.servers import TOKEN
from tests.harness.waiting import eventually

CACHE = {"sticky_cache_capacity": 10}


@workflow.defn(name="talkative")
class Talkative:
    """Fills more than a page of history, then takes steps, the last one after a signal."""

    def __init__(self) -> None:
        self.may_end = False

    @workflow.signal("end")
    def end(self) -> None:
        self.may_end = True

    def run(self, ctx: WorkflowContext, width: int) -> Generator[Any, Any, Any]:
        yield [ctx.schedule_activity("double", [number]) for number in range(width)]
        total = 1
        for _ in range(4):
            total = yield ctx.schedule_activity("double", [total])
        yield ctx.wait_condition(lambda: self.may_end, key="end")
        return (yield ctx.schedule_activity("double", [total]))


@pytest.mark.parametrize("name", SHAPES)
async def test_a_worker_keeps_histories_and_a_new_one_replays_them(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    with shape(name, tmp_path, new_database, redis_url) as (control, matching):
        async with Client(control.url, token=TOKEN) as client, Client(matching.url, token=TOKEN) as plane:
            async with worker_on(plane, queue, [Talkative], [double], **CACHE) as first:
                handle = await start(client, queue, "talkative", 250)

                async def waits() -> bool:
                    return first.sticky_cache_metrics()["hit"] >= 4

                await eventually(waits, "the run has been taken up from the cache", 30)
                assert first.sticky_cache_metrics()["forced_cold_replay"] == 0
            async with worker_on(plane, queue, [Talkative], [double], **CACHE) as second:
                await client.signal_workflow(handle.workflow_id, "end")
                assert await client.get_result(handle, poll_interval=0.05) == 32
                assert second.sticky_cache_metrics()["miss"] >= 1
