"""Registration, heartbeat and deregistration (worker-plane §6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.worker.client import QUEUE, WORKER, Client, fence
from tests.harness.worker_plane import ServedPlane

MARKS = {"order": "sha256:00ff"}
CHANGED = {"order": "sha256:beef"}


async def test_register_answers_with_what_was_stored(served: ServedPlane) -> None:
    answer = await Client(served).register(capabilities=["query_tasks", "query_tasks"], build_id="b-1")
    body = answer.json
    assert answer.status == 201
    assert body["server_capabilities"]["poll_status"] is True
    del body["server_capabilities"]
    assert body == {
        "worker_id": WORKER,
        "registered": True,
        "namespace": served.namespace,
        "task_queue": QUEUE,
        "runtime": "python",
        "build_id": "b-1",
        "capabilities": ["query_tasks"],
        "capability_manifest": {},
        "status": "active",
        "drain_intent": "active",
        "heartbeat_interval_seconds": 60,
        "stale_after_seconds": 125,
        "protocol_version": "1.20",
    }


async def test_a_worker_without_an_id_is_given_one(served: ServedPlane) -> None:
    client = Client(served)
    first, second = [(await client.register(None)).json["worker_id"] for _ in range(2)]  # type: ignore[arg-type]
    assert len(first) == len(second) == 26
    assert first != second


async def test_registering_again_replaces_what_the_worker_offers(client: Client, served: ServedPlane) -> None:
    assert (await client.register(task_queue="other", supported_activity_types=[])).status == 201
    rows = await served.execute(
        "SELECT task_queue, supported_activity_types FROM worker_registrations WHERE namespace = %s", served.namespace
    )
    assert rows == [("other", [])]


async def test_a_changed_definition_is_refused_while_the_worker_is_fresh(served: ServedPlane) -> None:
    client = Client(served)
    offer: dict[str, Any] = {"supported_workflow_types": ["order"], "workflow_definition_fingerprints": MARKS}
    assert (await client.register(**offer)).status == 201
    assert (await client.register(**offer)).status == 201
    answer = await client.register(**offer | {"workflow_definition_fingerprints": CHANGED})
    body = answer.json
    assert (answer.status, body["reason"], body["workflow_type"]) == (409, "workflow_definition_changed", "order")
    assert body["registered"] is False
    assert body["remediation"]
    await served.execute("UPDATE worker_registrations SET last_heartbeat_at = dw_now() - interval '126 seconds'")
    assert (await client.register(**offer | {"workflow_definition_fingerprints": CHANGED})).status == 201


async def test_fingerprints_that_are_left_out_are_kept(served: ServedPlane) -> None:
    client = Client(served)
    offer: dict[str, Any] = {"supported_workflow_types": ["order"]}
    await client.register(**offer, workflow_definition_fingerprints=MARKS)
    await client.register(**offer)
    answer = await client.register(**offer, workflow_definition_fingerprints=CHANGED)
    assert answer.json["reason"] == "workflow_definition_changed"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task_queue": ""}, "task_queue"),
        ({"worker_id": "w" * 256}, "worker_id"),
        ({"runtime": 3}, "runtime"),
        ({"max_concurrent_workflow_tasks": 0}, "max_concurrent_workflow_tasks"),
        ({"heartbeat_interval_seconds": 3601}, "heartbeat_interval_seconds"),
        ({"task_slots": {"workflow_available": -1}}, "task_slots.workflow_available"),
        ({"supported_workflow_types": "order"}, "supported_workflow_types"),
    ],
)
async def test_a_wrong_field_of_a_registration_is_named(
    served: ServedPlane, fields: dict[str, Any], field: str
) -> None:
    answer = (
        await Client(served).register(**fields)
        if "worker_id" not in fields
        else await Client(served).post("/register", {"task_queue": QUEUE, "runtime": "python", **fields})
    )
    body = answer.json
    assert (answer.status, body["reason"], list(body["errors"])) == (422, "validation_failed", [field])
    assert body["validation_errors"] == body["errors"]


async def test_a_heartbeat_is_acknowledged_and_keeps_what_it_leaves_out(client: Client, served: ServedPlane) -> None:
    slots = {"workflow_available": 3, "activity_available": 4, "session_available": 5}
    answer = await client.post("/heartbeat", {"worker_id": WORKER, "task_slots": slots})
    body = answer.json
    assert (answer.status, body["acknowledged"], body["status"], body["drain_intent"]) == (
        200,
        True,
        "active",
        "active",
    )
    assert (body["heartbeat_interval_seconds"], body["stale_after_seconds"]) == (60, 125)
    assert body["last_heartbeat_at"].endswith("Z")
    await client.post("/heartbeat", {"worker_id": WORKER, "heartbeat_interval_seconds": 20})
    ((stored, interval),) = await served.execute(
        "SELECT task_slots, heartbeat_interval_seconds FROM worker_registrations WHERE namespace = %s",
        served.namespace,
    )
    assert (stored, interval) == (slots, 20)


async def test_a_heartbeat_of_an_unknown_worker_is_not_found(client: Client) -> None:
    answer = await client.post("/heartbeat", {"worker_id": "nobody"})
    assert (answer.status, answer.json["reason"]) == (404, "worker_not_registered")
    assert answer.json["worker_id"] == "nobody"


async def test_deregistering_returns_the_leased_workflow_tasks_at_once(client: Client) -> None:
    await client.start("one")
    await client.start("two")
    tasks = [await client.take(), await client.take()]
    answer = await client.send("DELETE", f"/registrations/{WORKER}")
    body = answer.json
    assert (answer.status, body["worker_id"], body["outcome"]) == (200, WORKER, "deregistered")
    assert body["recovered_workflow_task_count"] == 2
    again = await client.send("DELETE", f"/registrations/{WORKER}")
    assert (again.status, again.json["reason"], again.json["worker_id"]) == (404, "worker_not_found", WORKER)

    await client.register("w-2")
    taken = {task["task_id"]: task for task in [await client.take(worker_id="w-2"), await client.take(worker_id="w-2")]}
    assert taken.keys() == {task["task_id"] for task in tasks}
    assert {task["workflow_task_attempt"] for task in taken.values()} == {2}
    late = await client.post(f"/workflow-tasks/{tasks[0]['task_id']}/heartbeat", fence(tasks[0]))
    assert (late.status, late.json["reason"]) == (409, "lease_owner_mismatch")


async def test_deregistering_again_returns_what_an_interrupted_request_has_left(
    client: Client, served: ServedPlane
) -> None:
    await client.start()
    task = await client.take()
    await served.execute("DELETE FROM worker_registrations WHERE namespace = %s", served.namespace)
    again = await client.send("DELETE", f"/registrations/{WORKER}")
    assert (again.status, again.json["reason"]) == (404, "worker_not_found")
    await client.register("w-2")
    assert (await client.take(worker_id="w-2"))["task_id"] == task["task_id"]


async def test_deregistering_leaves_the_activities_of_the_worker_alone(client: Client) -> None:
    activity = await client.running_activity()
    answer = await client.send("DELETE", f"/registrations/{WORKER}")
    assert answer.json["recovered_workflow_task_count"] == 0
    assert (await client.report(activity, "complete")).json["recorded"] is True


async def test_a_draining_cohort_is_told_so(client: Client, served: ServedPlane) -> None:
    await served.execute(
        "INSERT INTO build_id_rollouts (namespace, task_queue, build_id, drain_intent) VALUES (%s, %s, '', 'draining')",
        served.namespace,
        QUEUE,
    )
    for answer in (await client.register(), await client.post("/heartbeat", {"worker_id": WORKER})):
        assert (answer.json["status"], answer.json["drain_intent"]) == ("draining", "draining")
    other = await client.register("w-2", build_id="b-2")
    assert other.json["status"] == "active"
