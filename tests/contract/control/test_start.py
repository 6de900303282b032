"""``POST /api/workflows``."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.payloads.codec import decode_blob, encode_blob
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane

ORDER = {"workflow_type": "orders", "workflow_id": "order-1", "task_queue": "orders", "input": [1, "two"]}


async def test_a_new_id_starts_a_pending_run_with_one_ready_task(plane: ControlPlane, send: Send) -> None:
    answer = await send("POST", "/workflows", ORDER)
    body = answer.json
    assert answer.status == 201
    assert {key: body[key] for key in ("workflow_id", "workflow_type", "namespace", "task_queue", "status")} == {
        "workflow_id": "order-1",
        "workflow_type": "orders",
        "namespace": plane.namespace,
        "task_queue": "orders",
        "status": "pending",
    }
    assert (body["outcome"], body["command_status"], body["reason"], body["rejection_reason"]) == (
        "started_new",
        "accepted",
        None,
        None,
    )
    assert body["control_plane"]["operation"] == "start"
    assert body["control_plane"]["run_id"] == body["run_id"]
    claimed = await plane.claim("orders")
    assert claimed.run.run_id == body["run_id"]
    assert claimed.arguments is not None and decode_blob(claimed.arguments) == [1, "two"]


async def test_only_the_type_is_needed(send: Send) -> None:
    answer = await send("POST", "/workflows", {"workflow_type": "orders"})
    assert (answer.status, answer.json["task_queue"], len(answer.json["workflow_id"])) == (201, "default", 26)


async def test_a_taken_id_is_refused_whether_its_run_is_open_or_closed(send: Send) -> None:
    first = (await send("POST", "/workflows", ORDER)).json
    for _ in range(2):
        answer = await send("POST", "/workflows", ORDER)
        body = answer.json
        assert (answer.status, body["reason"], body["rejection_reason"], body["outcome"]) == (
            409,
            "instance_already_started",
            "instance_already_started",
            "rejected_duplicate",
        )
        assert (body["run_id"], body["command_status"]) == (first["run_id"], "rejected")
        assert body["control_plane"]["reason"] == "instance_already_started"
        await send("POST", "/workflows/order-1/terminate")


async def test_use_existing_returns_the_open_run_of_the_same_type_only(send: Send) -> None:
    first = (await send("POST", "/workflows", ORDER)).json
    again = await send("POST", "/workflows", ORDER | {"duplicate_policy": "use-existing", "input": [2]})
    assert (again.status, again.json["run_id"], again.json["outcome"]) == (
        200,
        first["run_id"],
        "returned_existing_active",
    )
    other = await send("POST", "/workflows", ORDER | {"duplicate_policy": "use-existing", "workflow_type": "refunds"})
    assert (other.status, list(other.json["errors"])) == (422, ["workflow_type"])
    assert other.json["errors"] == other.json["validation_errors"]


async def test_an_envelope_keeps_its_bytes(plane: ControlPlane, send: Send) -> None:
    blob = encode_blob([b"\x00\xff"])
    await send("POST", "/workflows", ORDER | {"input": {"codec": "avro", "blob": blob}})
    described = (await send("GET", "/workflows/order-1")).json
    assert described["input_envelope"] == {"codec": "avro", "blob": blob}
    assert described["input"] is None


async def test_the_start_command_records_who_asked(plane: ControlPlane, send: Send) -> None:
    run_id = (await send("POST", "/workflows", ORDER, x_request_id="req-7")).json["run_id"]
    page = (await send("GET", f"/workflows/order-1/runs/{run_id}/history")).json
    assert [event["event_type"] for event in page["events"]] == ["StartAccepted", "WorkflowStarted"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"workflow_type": ""}, "workflow_type"),
        ({"workflow_id": "a b"}, "workflow_id"),
        ({"input": 7}, "input"),
        ({"input": {"codec": "json", "blob": ""}}, "input.codec"),
        ({"input": {"codec": "avro", "blob": "AAAA"}}, "input.blob"),
        ({"duplicate_policy": "allow"}, "duplicate_policy"),
        ({"retry_policy": {}}, "retry_policy"),
        ({"priority": 10}, "priority"),
        ({"memo": {"text": "x" * 300_000}}, "memo"),
        ({"memo": {"text": "a\u0000b"}}, "memo.text"),
        ({"business_key": "\u0000"}, "business_key"),
        ({"search_attributes": {"Customer": {"id": 1}}}, "search_attributes.Customer"),
        ({"search_attributes": {"Customer": "x" * 3000}}, "search_attributes.Customer"),
        ({"search_attributes": {"": 1}}, "search_attributes."),
        ({"search_attributes": {f"A{n}": 1 for n in range(101)}}, "search_attributes"),
        ({"search_attributes": {f"A{n}": "x" * 2000 for n in range(30)}}, "search_attributes"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_started(send: Send, change: dict[str, Any], field: str) -> None:
    answer = await send("POST", "/workflows", ORDER | change)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert list(answer.json["errors"]) == [field]
    assert answer.json["control_plane"]["validation_errors"] == answer.json["errors"]
    assert (await send("GET", "/workflows/order-1")).status == 404


async def test_the_same_id_in_another_namespace_is_another_workflow(plane: ControlPlane, send: Send) -> None:
    await send("POST", "/workflows", ORDER)
    answer = await send("POST", "/workflows", ORDER | {"workflow_id": "order-1"}, x_namespace="default")
    assert answer.status in (201, 409)
    assert (await send("GET", "/workflows/order-1")).json["namespace"] == plane.namespace
