"""Query tasks from their worker's side (worker-plane §13)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from dw_core.payloads.codec import EMPTY_LIST_BLOB
from tests.contract.worker.asking import asking, capable, report
from tests.contract.worker.client import QUEUE, WORKER, Client, schedule, side_effect
from tests.harness.waiting import eventually
from tests.harness.worker_plane import worker_plane

EMPTY_LIST = {"codec": "avro", "blob": EMPTY_LIST_BLOB}


async def test_the_task_carries_what_a_worker_needs(client: Client) -> None:
    await capable(client, supported_workflow_types=["order", "invoice"])
    run_id = await client.start(input=["x"])
    asked = asking(client)
    task = await client.take("query")
    described = (await client.control("GET", "/workflows/w")).json
    assert datetime.fromisoformat(task.pop("lease_expires_at")) > datetime.now(UTC)
    assert [event["event_type"] for event in task.pop("history_events")] == await client.events("w", run_id)
    sequence = task["last_history_sequence"]
    assert task.pop("query_task_id")
    assert task == {
        "query_task_attempt": 1,
        "namespace": client.served.namespace,
        "workflow_id": "w",
        "run_id": run_id,
        "workflow_type": "order",
        "query_name": "status",
        "payload_codec": "avro",
        "workflow_arguments": described["input_envelope"],
        "query_arguments": EMPTY_LIST,
        "run_status": "pending",
        "last_history_sequence": sequence,
        "total_history_events": sequence,
        "task_queue": QUEUE,
        "lease_owner": WORKER,
    }
    asked.cancel()


async def test_the_history_comes_whole(client: Client) -> None:
    await capable(client)
    run_id = await client.start()
    events = [side_effect() for _ in range(990)]
    assert (await client.complete(await client.take(), *events, schedule())).status == 200
    activity = await client.take("activity")
    await client.report(activity, "complete", result=None)
    assert (await client.complete(await client.take(), *events, schedule())).status == 200
    longer = "left(body, -1) || ',\"padding\":\"' || repeat('x', 3000) || '\"}'"
    await client.served.execute(f"UPDATE workflow_history_events SET body = {longer} WHERE run_id = %s", run_id)
    asked = asking(client)
    task = await client.take("query")
    assert [event["sequence"] for event in task["history_events"]] == list(range(1, task["last_history_sequence"] + 1))
    assert task["last_history_sequence"] > 1980
    await report(client, task, result=None)
    assert (await asked).status == 200


async def test_polls_are_checked_like_those_of_every_kind(client: Client) -> None:
    await capable(client)
    for fields, status, reason in (
        ({"worker_id": "nobody"}, 412, "worker_not_registered"),
        ({"task_queue": "another"}, 409, "task_queue_mismatch"),
    ):
        answer = await client.poll("query", **fields)
        assert (answer.status, answer.json["reason"]) == (status, reason)


async def test_a_worker_that_did_not_declare_queries_gets_none(client: Client) -> None:
    await capable(client, "able")
    await client.start()
    asked = asking(client)
    task = await client.take("query", "able")
    await client.served.execute(
        "UPDATE workflow_query_tasks SET state = 0, lease_owner = NULL, lease_expires_at = NULL"
    )
    assert (await client.poll("query", WORKER, timeout_seconds=0)).json["poll_status"] == "empty"
    again = await client.take("query", "able")
    assert (again["query_task_id"], again["query_task_attempt"]) == (task["query_task_id"], 2)
    asked.cancel()


async def test_a_repeated_poll_gets_its_query_again(client: Client) -> None:
    await capable(client)
    await client.start()
    asked = asking(client)
    first = await client.take("query", poll_request_id="p-1")
    again = await client.take("query", poll_request_id="p-1")
    assert again["lease_expires_at"] > first["lease_expires_at"]
    assert again | {"lease_expires_at": first["lease_expires_at"]} == first
    await report(client, again, result=1)
    assert (await asked).json["result"] == 1


async def test_query_polls_are_counted_apart(database_url: str, unique_namespace: str) -> None:
    async with worker_plane(database_url, unique_namespace, {"DW_QUERY_TASK_POLL_MAX_CONCURRENT": "1"}) as served:
        client = Client(served)
        await capable(client)
        await client.start()
        held = asyncio.create_task(client.poll("query"))

        async def is_held() -> bool:
            return (served.namespace, WORKER) in served.plane.broker.owners()

        await eventually(is_held, "the poll is held")
        refused = await client.poll("query")
        assert (refused.status, refused.json["reason"]) == (429, "long_poll_capacity_exhausted")
        assert (refused.json["wait_pool"], refused.json["task_kind"]) == ("query", "query_task")
        assert await client.take()
        held.cancel()


async def test_reports_of_others_are_refused(client: Client) -> None:
    await capable(client)
    await client.start()
    asked = asking(client)
    task = await client.take("query")
    for fields, reason, member in (
        ({"lease_owner": "somebody"}, "lease_owner_mismatch", ("lease_owner", WORKER)),
        ({"query_task_attempt": 2}, "query_task_attempt_mismatch", ("current_attempt", 1)),
    ):
        for verb, what in (("complete", {"result": 1}), ("fail", {"failure": {"message": "no"}})):
            refused = await report(client, task, verb, **what, **fields)
            body: dict[str, Any] = refused.json
            assert (refused.status, body["reason"], body["outcome"]) == (409, reason, "rejected")
            assert (body["query_task_id"], body[member[0]]) == (task["query_task_id"], member[1])
            assert body["error"] == body["message"]
    assert (await report(client, task, result=1)).status == 200
    assert (await asked).json["result"] == 1
    repeated = await report(client, task, result=1)
    assert (repeated.status, repeated.json["reason"]) == (404, "query_task_not_found")


async def test_reports_without_a_lease_are_refused(client: Client) -> None:
    await client.served.plane.query_recovery.stop()
    await capable(client)
    await client.start()
    asked = asking(client)
    task = await client.take("query")
    execute = client.served.execute
    named = "WHERE query_task_id = %s"
    await execute(f"UPDATE workflow_query_tasks SET lease_expires_at = dw_now() {named}", task["query_task_id"])
    refused = await report(client, task, result=1)
    assert (refused.status, refused.json["reason"]) == (409, "lease_expired")
    assert refused.json["lease_expires_at"].endswith("Z")
    await execute(
        f"UPDATE workflow_query_tasks SET state = 0, lease_owner = NULL, lease_expires_at = NULL {named}",
        task["query_task_id"],
    )
    refused = await report(client, task, result=1)
    assert (refused.status, refused.json["reason"]) == (409, "query_task_not_leased")
    asked.cancel()


async def test_a_malformed_answer_leaves_the_query_open(client: Client) -> None:
    await capable(client)
    await client.start()
    asked = asking(client)
    task = await client.take("query")
    for sent, field in (
        ({"result_envelope": {"codec": "avro", "blob": "??"}}, "result_envelope.blob"),
        ({"result_envelope": {"codec": "json", "blob": ""}}, "result_envelope.codec"),
        ({"result": 2**70}, "result"),
    ):
        refused = await report(client, task, **sent)
        assert (refused.status, list(refused.json["errors"])) == (422, [field])
    await report(client, task, result=1)
    assert (await asked).json["result"] == 1


@pytest.mark.parametrize(
    "loss",
    [
        "UPDATE workflow_query_tasks SET lease_expires_at = dw_now() WHERE namespace = %s",
        "UPDATE worker_registrations SET last_heartbeat_at = '2020-01-01' WHERE namespace = %s AND worker_id = 'w-1'",
        "DELETE FROM worker_registrations WHERE namespace = %s AND worker_id = 'w-1'",
    ],
    ids=["lease over", "worker silent", "worker gone"],
)
async def test_a_query_whose_worker_is_lost_goes_to_another(client: Client, loss: str) -> None:
    await capable(client)
    await capable(client, "w-2")
    await client.start()
    asked = asking(client)
    first = await client.take("query")
    await client.served.execute(loss, client.served.namespace)
    await client.served.plane.query_recovery.sweep()
    second = await client.take("query", "w-2")
    assert (second["query_task_id"], second["query_task_attempt"]) == (first["query_task_id"], 2)
    late = await report(client, first, result="late")
    assert (late.status, late.json["reason"]) == (409, "lease_owner_mismatch")
    await report(client, second, result="second")
    assert (await asked).json["result"] == "second"


async def test_a_query_whose_worker_has_hung_up_goes_to_another(client: Client) -> None:
    await capable(client)
    await capable(client, "w-2")
    await client.start()
    await client.take()
    asked = asking(client)
    await client.take("query")
    hang_up = asyncio.Event()
    body = {"worker_id": WORKER, "task_queue": QUEUE, "timeout_seconds": 30}
    held = asyncio.create_task(client.send("POST", "/workflow-tasks/poll", body, hang_up=hang_up))
    hang_up.set()
    await held
    second = await client.take("query", "w-2")
    assert second["query_task_attempt"] == 2
    await report(client, second, result="second")
    assert (await asked).json["result"] == "second"
