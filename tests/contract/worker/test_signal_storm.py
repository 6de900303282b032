"""Many signals to one run: none is lost, none waits for the worker, and the worker is woken once."""

from __future__ import annotations

import asyncio

from dw_core.engine.inputs import SignalWorkflow
from dw_core.payloads.codec import EMPTY_LIST_BLOB
from dw_runtime.node.node import new_id
from dw_runtime.pump.replies import settle
from tests.contract.worker.client import COMPLETE, Client
from tests.harness.worker_plane import ServedPlane

SIGNALS = 4_000
WAIT = {"type": "open_condition_wait", "condition_key": "all"}


def signal(served: ServedPlane) -> SignalWorkflow:
    return SignalWorkflow(
        namespace=served.namespace,
        workflow_id="w",
        command_id=new_id(),
        request_id=new_id(),
        signal_name="go",
        arguments=EMPTY_LIST_BLOB,
    )


async def test_a_storm_of_signals_is_taken_in_batches_and_wakes_its_run_once(
    client: Client, served: ServedPlane
) -> None:
    node = served.plane.node
    run_id = await client.start()
    assert (await client.complete(await client.take(), WAIT)).status == 200
    await client.control("POST", "/workflows/w/signal/go", {})
    leased = await client.take()
    before = node.metrics.registry.get_sample_value("dw_store_commits_total") or 0
    replies = await asyncio.gather(*(node.pump.submit(signal(served)) for _ in range(SIGNALS)))
    commits = (node.metrics.registry.get_sample_value("dw_store_commits_total") or 0) - before
    assert commits < SIGNALS / 50, "many signals share a transaction"
    sent = [settle(reply)["command_id"] for reply in replies]

    assert (await client.complete(leased, WAIT)).status == 200
    task = await client.take(history_page_size=1)
    assert task["total_history_events"] == leased["total_history_events"] + 2 + SIGNALS
    assert (await client.complete(task, COMPLETE)).status == 200
    recorded = await served.execute(
        "SELECT body::json -> 'payload' ->> 'workflow_command_id' FROM workflow_history_events"
        " WHERE run_id = %s AND event_type = 'SignalReceived' ORDER BY sequence",
        run_id,
    )
    assert [command_id for (command_id,) in recorded[1:]] == sent, "all of them, in the order of their acceptance"
