"""A run at a glance, and the service calls of its code (control-plane §10.7)."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.worker.client import COMPLETE, QUEUE, Client, schedule
from tests.harness.worker_plane import ServedPlane

TIMER = {"type": "start_timer", "delay_seconds": 600}
CHILD = {"type": "start_child_workflow", "workflow_type": "order", "queue": QUEUE}
CALL = {
    "type": "start_service_operation",
    "endpoint_name": "shop",
    "service_name": "desk",
    "operation_name": "greet",
    "idempotency_key": "k-1",
    "mode_override": "async",
}


async def observe(client: Client, query: str = "", path: str = "/workflows/w") -> dict[str, Any]:
    answer = await client.control("GET", f"{path}/observation{query}")
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def test_an_observation_has_the_run_its_waits_and_its_history(client: Client) -> None:
    await client.register()
    run_id = await client.start()
    waiting = await observe(client)
    assert (waiting["run_id"], waiting["run"]["status"], waiting["parent"]) == (run_id, "pending", None)
    assert [wait["kind"] for wait in waiting["waits"]] == ["workflow_task"]
    assert [event["event_type"] for event in waiting["history"]["events"]] == ["StartAccepted", "WorkflowStarted"]
    assert waiting["history"]["next_page_token"] is None
    assert (await client.complete(await client.take(), schedule(), TIMER)).status == 200
    found = await observe(client, path=f"/workflows/w/runs/{run_id}")
    assert [(wait["kind"], wait["name"], wait["sequence"]) for wait in found["waits"]] == [
        ("activity", "charge", 1),
        ("timer", None, 2),
    ]
    assert found["waits"][1]["due_at"] > found["waits"][1]["since"]
    assert "arguments" not in found["run"] and "memo" not in found["run"]
    activity = await client.take("activity")
    await client.report(activity, "fail", failure={"message": "no", "type": "CardDeclined", "non_retryable": True})
    assert [one["exception_type"] for one in (await observe(client))["failures"]] == ["CardDeclined"]
    await client.complete(await client.take(), COMPLETE)
    closed = await observe(client)
    assert (closed["waits"], closed["run"]["closed_reason"]) == ([], "completed")


async def test_links_show_what_became_of_other_runs_by_themselves(client: Client, served: ServedPlane) -> None:
    await client.register()
    await client.start()
    assert (await client.complete(await client.take(), CHILD, TIMER)).status == 200
    child = await client.take()
    (link,) = (await observe(client))["children"]
    assert (link["workflow_id"], link["status"], link["run"]["status"]) == (child["workflow_id"], "started", "pending")
    assert [wait["kind"] for wait in (await observe(client))["waits"]] == ["timer", "child"]
    below = await observe(client, path=f"/workflows/{child['workflow_id']}")
    assert (below["parent"]["workflow_id"], below["parent"]["run"]["status"]) == ("w", "waiting")
    assert (await client.complete(child, COMPLETE)).status == 200
    (link,) = (await observe(client))["children"]
    assert link["run"]["status"] == "completed"
    await served.execute("DELETE FROM workflow_runs WHERE run_id = %s", child["run_id"])
    (link,) = (await observe(client))["children"]
    assert (link["run_id"], link["run"]) == (child["run_id"], None)


async def test_pages_of_history_stay_with_their_run_and_end_where_the_first_one_did(client: Client) -> None:
    await client.register()
    await client.start()
    assert (await client.complete(await client.take(), schedule())).status == 200
    seen: list[int] = []
    query = "?history_page_size=2"
    first = await observe(client, query)
    last = first["history"]["last_sequence"]
    page = first
    await client.take("activity")
    while True:
        seen += [event["sequence"] for event in page["history"]["events"]]
        token = page["history"]["next_page_token"]
        if token is None:
            break
        page = await observe(client, f"{query}&history_page_token={quote(token)}")
        assert page["history"]["last_sequence"] == last
    assert seen == list(range(1, last + 1))
    assert (await observe(client))["history"]["last_sequence"] > last, "what came later is in no page of the first"

    run_id, after, _ = json.loads(base64.urlsafe_b64decode(first["history"]["next_page_token"]))
    wrong: list[Any] = [[run_id, after, 99], [run_id, last + 1, last], ["0" * 26, after, last], [run_id, -1, last], {}]
    tokens = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in wrong]
    for token in [*tokens, "abc", "MA=="]:
        refused = await client.control("GET", f"/workflows/w/observation?history_page_token={quote(token)}")
        assert (refused.status, refused.json["reason"]) == (400, "invalid_page_token"), token


async def test_only_the_attributes_that_are_asked_for_are_shown(client: Client) -> None:
    attributes = {"Region": "eu", "Stage": "paid", "Amount": 7}
    body = {"workflow_id": "w", "workflow_type": "order", "search_attributes": attributes}
    assert (await client.control("POST", "/workflows", body)).status == 201
    assert (await observe(client))["run"]["search_attributes"] == {}
    for query in ("?search_attribute_keys=Region,Stage", "?search_attribute_keys=Region&search_attribute_keys=Stage"):
        assert (await observe(client, query))["run"]["search_attributes"] == {"Region": "eu", "Stage": "paid"}
    assert (await observe(client, "?search_attribute_keys=Nothing"))["run"]["search_attributes"] == {}


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/workflows/none/observation", 404, "instance_not_found"),
        ("/workflows/w/runs/none/observation", 404, "run_not_found"),
        ("/workflows/none/nexus-operations", 404, "instance_not_found"),
        ("/workflows/w/runs/none/nexus-operations", 404, "run_not_found"),
        ("/workflows/w/observation?history_page_size=0", 422, "validation_failed"),
        ("/workflows/w/observation?history_page_size=1001", 422, "validation_failed"),
        (f"/workflows/w/observation?search_attribute_keys={','.join(map(str, range(21)))}", 422, "validation_failed"),
        (f"/workflows/w/observation?search_attribute_keys={'k' * 256}", 422, "validation_failed"),
        ("/workflows/w/nexus-operations?limit=201", 422, "validation_failed"),
        ("/workflows/w/nexus-operations?limit=0", 422, "validation_failed"),
    ],
)
async def test_what_cannot_be_observed_is_refused_by_name(client: Client, path: str, status: int, reason: str) -> None:
    await client.start()
    answer = await client.control("GET", path)
    assert (answer.status, answer.json["reason"]) == (status, reason)


async def test_the_calls_of_a_run_are_listed_newest_first(client: Client) -> None:
    await client.control("POST", "/service-endpoints", {"endpoint_name": "shop"})
    await client.control("POST", "/service-endpoints/shop/services", {"service_name": "desk"})
    operation = {
        "operation_name": "greet",
        "operation_mode": "async",
        "handler_binding_kind": "start_workflow",
        "handler_target_reference": "greeting",
    }
    path = "/service-endpoints/shop/services/desk/operations"
    assert (await client.control("POST", path, operation)).status == 201
    await client.register()
    run_id = await client.start()
    assert (await client.control("GET", "/workflows/w/nexus-operations")).json["nexus_operations"] == []
    answer = await client.complete(await client.take(), TIMER, CALL)
    assert answer.status == 200, answer.json
    task = await client.take()
    assert (await client.complete(task, CALL | {"idempotency_key": "k-2"})).status == 200
    listed = (await client.control("GET", "/workflows/w/nexus-operations")).json
    assert (listed["workflow_id"], listed["run_id"]) == ("w", run_id)
    named = [(call["service_call_id"], call["operation_name"]) for call in listed["nexus_operations"]]
    assert named == [(f"{run_id}.v3", "greet"), (f"{run_id}.v2", "greet")]
    first = await client.control("GET", f"/workflows/w/runs/{run_id}/nexus-operations?limit=1")
    assert [call["service_call_id"] for call in first.json["nexus_operations"]] == [f"{run_id}.v3"]
