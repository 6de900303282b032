"""The pump on a real database."""

from __future__ import annotations

import asyncio

from dw_core.engine.inputs import StartWorkflow, TerminateWorkflow
from dw_core.engine.rows import Details
from dw_core.payloads.codec import EMPTY_LIST_BLOB
from dw_runtime.pump.replies import settle
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Link
from dw_runtime.telemetry.metrics import Metrics
from tests.harness.control_plane import control_plane, new_id


async def test_a_process_that_stands_still_in_a_transaction_keeps_nobody_waiting_for_ever(
    database_url: str, unique_namespace: str
) -> None:
    async with control_plane(database_url, unique_namespace) as plane:
        runs = {"held": new_id(), "free": new_id()}
        for workflow_id, run_id in runs.items():
            await plane.pump.submit(
                StartWorkflow(
                    namespace=unique_namespace,
                    workflow_id=workflow_id,
                    command_id=new_id(),
                    new_run_id=run_id,
                    workflow_type="order",
                    queue="q",
                    duplicate_policy="fail",
                    details=Details(run_id=run_id, arguments=EMPTY_LIST_BLOB),
                )
            )
        still = Link(database_url, Metrics())
        async with still.transaction() as transaction:
            await transaction.ask([("lock_runs", encode_rows([{"run_id": runs["held"]}]))])
            terminates = [
                TerminateWorkflow(
                    namespace=unique_namespace,
                    workflow_id=workflow_id,
                    command_id=new_id(),
                    reason=None,
                    request_id=None,
                    target_scope="instance",
                )
                for workflow_id in runs
            ]
            answers = await asyncio.gather(*(plane.pump.submit(terminate) for terminate in terminates))
            assert [settle(answer)["outcome"] for answer in answers] == ["terminated", "terminated"]
        await still.close()
