"""The service catalogue and service calls on the wire (control-plane §17)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from dw_core.limits import Limits
from dw_core.payloads.codec import encode_blob
from dw_core.services.rows import ServiceCall
from dw_core.services.targets import start_input
from dw_runtime.pump.replies import settle
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane

ENDPOINT, SERVICE = "/service-endpoints/shop", "/service-endpoints/shop/services/desk"
OPERATIONS = f"{SERVICE}/operations"
GREET = {
    "operation_name": "Greet",
    "operation_mode": "sync",
    "handler_binding_kind": "start_workflow",
    "handler_target_reference": "greeting",
}


async def fill(send: Send, **members: Any) -> None:
    """Put ``shop/desk/greet`` into the catalogue."""
    await send("POST", "/service-endpoints", {"endpoint_name": "shop"})
    await send("POST", f"{ENDPOINT}/services", {"service_name": "desk"})
    created = await send("POST", OPERATIONS, GREET | members)
    assert created.status == 201, created.json


async def test_the_catalogue_is_made_read_changed_and_removed(plane: ControlPlane, send: Send) -> None:
    created = await send("POST", "/service-endpoints", {"endpoint_name": "Shop", "metadata": {"team": "a"}})
    assert (created.status, created.json["endpoint_name"], created.json["description"]) == (201, "shop", None)
    again = await send("POST", "/service-endpoints", {"endpoint_name": "SHOP"})
    assert (again.status, again.json["reason"]) == (409, "endpoint_already_exists")
    service = await send("POST", f"{ENDPOINT}/services", {"service_name": "desk"})
    assert service.json["endpoint_id"] == created.json["id"]
    operation = await send("POST", OPERATIONS, GREET | {"retry_policy": {"max_attempts": 3}})
    assert (operation.status, operation.json["operation_name"]) == (201, "greet")
    assert operation.json["service_id"] == service.json["id"]
    listed = await send("GET", OPERATIONS)
    assert listed.json["operations"] == [operation.json]
    assert (listed.json["namespace"], listed.json["service_name"]) == (plane.namespace, "desk")

    changed = await send(
        "PUT", ENDPOINT.upper().replace("/SERVICE-ENDPOINTS", "/service-endpoints"), {"description": "d"}
    )
    assert (changed.status, changed.json["description"], changed.json["metadata"]) == (200, "d", {"team": "a"})
    cleared = await send("PUT", ENDPOINT, {"metadata": None})
    assert (cleared.json["description"], cleared.json["metadata"]) == ("d", None)
    changed = await send("PUT", f"{OPERATIONS}/greet", {"operation_mode": "async", "retry_policy": None})
    assert (changed.json["operation_mode"], changed.json["retry_policy"]) == ("async", None)
    assert changed.json["handler_target_reference"] == "greeting"

    for path, reason in ((ENDPOINT, "endpoint_has_services"), (SERVICE, "service_has_operations")):
        refused = await send("DELETE", path)
        assert (refused.status, refused.json["reason"], refused.json["endpoint_name"]) == (409, reason, "shop")
    for path in (f"{OPERATIONS}/greet", SERVICE, ENDPOINT):
        deleted = await send("DELETE", path)
        assert (deleted.status, deleted.json["outcome"], deleted.json["endpoint_name"]) == (200, "deleted", "shop")
    assert (await send("GET", "/service-endpoints")).json["service_endpoints"] == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/service-endpoints/none", "endpoint_not_found"),
        ("/service-endpoints/none/services", "endpoint_not_found"),
        (f"{ENDPOINT}/services/none", "service_not_found"),
        (f"{ENDPOINT}/services/none/operations", "service_not_found"),
        (f"{OPERATIONS}/none", "operation_not_found"),
        ("/service-endpoints/none/services/none/operations/none", "endpoint_not_found"),
        (f"{OPERATIONS}/greet/service-calls/none", "service_call_not_found"),
    ],
)
async def test_what_is_not_there_is_named(send: Send, path: str, reason: str) -> None:
    await fill(send)
    answer = await send("GET", path)
    assert (answer.status, answer.json["reason"]) == (404, reason)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"operation_name": "no spaces"}, "operation_name"),
        ({"operation_name": "n" * 192}, "operation_name"),
        ({"operation_mode": "later"}, "operation_mode"),
        ({"handler_binding_kind": "workflow_run"}, "handler_binding_kind"),
        ({"handler_target_reference": None}, "handler_target_reference"),
        ({"handler_target_reference": None, "handler_binding": {}}, "handler_binding"),
        ({"retry_policy": {"max_attempts": 11}}, "retry_policy.max_attempts"),
        ({"deadline_policy": []}, "deadline_policy"),
    ],
)
async def test_a_wrong_operation_is_refused_by_field(send: Send, changes: dict[str, Any], field: str) -> None:
    await send("POST", "/service-endpoints", {"endpoint_name": "shop"})
    await send("POST", f"{ENDPOINT}/services", {"service_name": "desk"})
    answer = await send("POST", OPERATIONS, GREET | changes)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert field in answer.json["errors"] and field in answer.json["validation_errors"]
    assert (await send("GET", OPERATIONS)).json["operations"] == []


async def test_a_deletion_that_comes_twice_at_once_finds_nothing_the_second_time(send: Send) -> None:
    await fill(send)
    for path, level in ((f"{OPERATIONS}/greet", "operation"), (SERVICE, "service"), (ENDPOINT, "endpoint")):
        answers = await asyncio.gather(*(send("DELETE", path) for _ in range(6)))
        told = sorted(answer.json.get("reason") or answer.json["outcome"] for answer in answers)
        assert told == ["deleted"] + [f"{level}_not_found"] * 5


async def test_the_rule_about_handlers_holds_for_what_a_change_leads_to(send: Send) -> None:
    await fill(send)
    answer = await send("PUT", f"{OPERATIONS}/greet", {"handler_target_reference": None})
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    answer = await send("PUT", f"{OPERATIONS}/greet", {"operation_name": "other"})
    assert (answer.status, list(answer.json["errors"])) == (422, ["operation_name"])
    kept = {"handler_target_reference": None, "handler_binding": {"workflow_type": "greeting"}}
    assert (await send("PUT", f"{OPERATIONS}/greet", kept)).status == 200


async def test_an_operation_is_executed_once_per_key_and_described(send: Send) -> None:
    await fill(send)
    body = {"arguments": encode_blob([1]), "payload_codec": "avro", "mode_override": "async", "idempotency_key": "one"}
    first = await send("POST", f"{OPERATIONS}/GREET/execute", body)
    assert (first.status, first.json["accepted"], first.json["idempotent_replay"]) == (200, True, False)
    assert (first.json["status"], first.json["resolved_binding_kind"]) == ("accepted", "workflow_run")
    assert "service_error_type" not in first.json
    again = await send("POST", f"{OPERATIONS}/greet/execute", body | {"arguments": [2]})
    assert (again.status, again.json["idempotent_replay"]) == (200, True)
    assert again.json["service_call_id"] == first.json["service_call_id"]
    described = await send("GET", f"{OPERATIONS}/greet/service-calls/{first.json['service_call_id']}")
    assert (described.status, described.json["found"]) == (200, True)
    assert described.json["accepted_at"] == first.json["accepted_at"]
    refused = await send("DELETE", f"{OPERATIONS}/greet")
    assert (refused.status, refused.json["reason"]) == (409, "operation_has_service_calls")


async def test_a_call_that_nobody_has_served_is_answered_as_it_stands(send: Send) -> None:
    await fill(send)
    answer = await send("POST", f"{OPERATIONS}/greet/execute", {"wait_timeout_seconds": 0})
    assert (answer.status, answer.json["status"], answer.json["result"]) == (200, "accepted", None)


async def test_a_refused_call_is_a_conflict_with_the_snapshot(send: Send) -> None:
    await fill(send, boundary_policy={"denied_caller_namespaces": ["evil"]})
    answer = await send("POST", f"{OPERATIONS}/greet/execute", {"caller_namespace": "Evil"})
    assert (answer.status, answer.json["accepted"], answer.json["outcome"]) == (409, False, "rejected_forbidden")
    assert (answer.json["reason"], answer.json["outcome_category"]) == ("caller_namespace_denied", "rejected")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"arguments": "no payload"}, "arguments"),
        ({"payload_codec": "json"}, "payload_codec"),
        ({"wait_timeout_seconds": 86_401}, "wait_timeout_seconds"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"target_workflow_instance_id": "no spaces"}, "target_workflow_instance_id"),
    ],
)
async def test_a_wrong_execution_changes_nothing(send: Send, body: dict[str, Any], field: str) -> None:
    await fill(send)
    answer = await send("POST", f"{OPERATIONS}/greet/execute", body)
    assert answer.status == 422
    assert field in " ".join(answer.json["errors"])
    assert (await send("DELETE", f"{OPERATIONS}/greet")).status == 200


async def test_a_call_is_cancelled_once(send: Send) -> None:
    await fill(send)
    call = (await send("POST", f"{OPERATIONS}/greet/execute", {"mode_override": "async"})).json
    path = f"{OPERATIONS}/greet/service-calls/{call['service_call_id']}"
    cancelled = await send("POST", f"{path}/cancel", {"reason": "enough"})
    assert (cancelled.status, cancelled.json["status"], cancelled.json["message"]) == (200, "cancelled", "enough")
    assert cancelled.json["cancelled_at"] is not None
    again = await send("POST", f"{path}/cancel")
    assert (again.status, again.json["reason"]) == (409, "service_call_terminal")


@pytest.mark.parametrize("is_served", [False, True])
async def test_of_cancellations_that_come_at_once_one_ends_the_call(
    send: Send, plane: ControlPlane, is_served: bool
) -> None:
    await fill(send)
    call = (await send("POST", f"{OPERATIONS}/greet/execute", {"mode_override": "async"})).json
    if is_served:
        (row,) = await plane.database.read("describe_service_call", call["service_call_id"])
        settle(await plane.pump.submit(start_input(msgspec.json.decode(row[0], type=ServiceCall), Limits())))
    path = f"{OPERATIONS}/greet/service-calls/{call['service_call_id']}"
    answers = await asyncio.gather(*[send("POST", f"{path}/cancel", {"reason": "enough"}) for _ in range(5)])
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]
    assert {answer.json["reason"] for answer in answers if answer.status == 409} == {"service_call_terminal"}
    assert (await send("GET", path)).json["status"] == "cancelled"
    entries = (await send("GET", "/system/audit?page_size=20")).json["entries"]
    cancelled = [entry["outcome"] for entry in entries if entry["command"] == "service_call_cancel"]
    assert sorted(cancelled) == ["accepted", *["rejected"] * 4]


async def test_an_operation_may_forbid_cancellation(send: Send) -> None:
    await fill(send, cancellation_policy={"allowed": False})
    call = (await send("POST", f"{OPERATIONS}/greet/execute", {"mode_override": "async"})).json
    path = f"{OPERATIONS}/greet/service-calls/{call['service_call_id']}/cancel"
    answer = await send("POST", path)
    assert (answer.status, answer.json["reason"]) == (409, "cancellation_not_allowed")
