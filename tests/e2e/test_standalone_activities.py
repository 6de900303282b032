"""Standalone activities with the published client and worker, on one port and with the planes apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from durable_workflow import Client, activity
from durable_workflow.errors import WorkflowFailed

from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.e2e.test_activity_lease_renewal import SHAPES, shape
from tests.harness.servers import TOKEN


@activity.defn(name="quote")
def quote(words: str) -> str:
    if words == "nothing":
        raise ValueError("nothing to quote")
    return f"'{words}'"


@pytest.mark.parametrize("name", SHAPES)
async def test_activities_run_without_a_workflow(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, queue: str, name: str
) -> None:
    """Two workers, one after the other: a job waits while there is none."""
    with shape(name, tmp_path, new_database, redis_url) as (control, matching):
        async with Client(control.url, token=TOKEN) as client, Client(matching.url, token=TOKEN) as plane:
            async with worker_on(plane, queue, [], [quote]):
                job = await client.start_activity(activity_type="quote", task_queue=queue, input=["hello"])
                assert await client.get_activity_result(job, poll_interval=0.05) == "'hello'"
                wrong = await client.start_activity(activity_type="quote", task_queue=queue, input=["nothing"])
                with pytest.raises(WorkflowFailed, match="failed"):
                    await client.get_activity_result(wrong, poll_interval=0.05)
            waiting = await client.start_activity(
                activity_type="quote", task_queue=queue, input=["later"], activity_id=f"job-{queue}"
            )
            assert (await waiting.describe()).activity_status == "pending"
            async with worker_on(plane, queue, [], [quote]):
                assert await client.get_activity_result(waiting, poll_interval=0.05) == "'later'"
            listed = await client.list_activities(status="completed")
            assert waiting.activity_id in [row.activity_id for row in listed.activities]
