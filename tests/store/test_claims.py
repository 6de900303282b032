"""Claims of one transaction on a real database."""

from __future__ import annotations

import asyncio

import msgspec

from dw_core.engine.commands.parsed import ScheduleActivity
from dw_core.engine.inputs import CompleteActivity, StartWorkflow
from dw_core.engine.rows import Details, RetryPolicy, TaskKind
from dw_core.engine.run_rows import Timeouts
from dw_core.engine.transition import WakeKey
from dw_core.payloads.codec import EMPTY_LIST_BLOB, NULL_BLOB
from tests.harness.control_plane import control_plane, new_id

ACTIVITY = ScheduleActivity(
    activity_type="a",
    queue=None,
    arguments=EMPTY_LIST_BLOB,
    has_retry_policy=False,
    retry_policy=RetryPolicy(),
    timeouts=Timeouts(),
)


async def test_a_workflow_task_comes_with_all_the_history_it_claims(database_url: str, unique_namespace: str) -> None:
    """Also when an activity of the same run is claimed in the same transaction."""
    async with control_plane(database_url, unique_namespace) as plane:
        run_id = new_id()
        await plane.pump.submit(
            StartWorkflow(
                namespace=unique_namespace,
                workflow_id="order-1",
                command_id=new_id(),
                new_run_id=run_id,
                workflow_type="order",
                queue="q",
                duplicate_policy="fail",
                details=Details(run_id=run_id, arguments=EMPTY_LIST_BLOB),
            )
        )
        await plane.complete(await plane.claim("q"), ACTIVITY, ACTIVITY)
        task = (await plane.claim("q", TaskKind.ACTIVITY)).task
        await plane.pump.submit(
            CompleteActivity(
                run_id=run_id,
                namespace=unique_namespace,
                task_number=task.task_number,
                sequence=task.activity_sequence,
                attempt=task.attempt,
                lease_owner="worker-1",
                result=NULL_BLOB,
            )
        )
        keys = [WakeKey(unique_namespace, kind, "q") for kind in (TaskKind.ACTIVITY, TaskKind.WORKFLOW)]
        held = [plane.polls.hold(key, "worker-1") for key in keys]
        plane.pump.probe(keys)
        activity, workflow = await asyncio.wait_for(asyncio.gather(*held), 10)
        assert activity.task.attempt == 1
        events = msgspec.json.decode(b"[" + workflow.history.events + b"]")
        assert [event["sequence"] for event in events] == list(range(1, workflow.task.claimed_history_sequence + 1))
