"""Webhook events: starts, signals, what is repeated, what is refused and by which name."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.contract.control.conftest import Send
from tests.contract.shell_client import Answer, call
from tests.harness.control_plane import ControlPlane, control_plane

Json = dict[str, Any]


def event(**changes: Any) -> Json:
    """An event that starts a workflow."""
    target = {"workflow_type": "orders.fulfillment", "task_queue": "orders", "business_key": "order-1001"}
    return {
        "action": "start_workflow",
        "idempotency_key": "evt_1001",
        "target": target,
        "input": {"order_id": "order-1001"},
    } | changes


def started(workflow_id: str) -> Json:
    return {"action": "signal_workflow", "target": {"workflow_id": workflow_id, "signal_name": "approve"}, "input": [1]}


async def test_an_event_starts_a_run_once(send: Send) -> None:
    first = await send("POST", "/bridge-adapters/webhook/stripe", event(correlation={"trace": "t"}))
    body = first.json
    workflow_id = f"bridge-stripe-{hashlib.sha256(b'evt_1001').hexdigest()[:32]}"
    assert (first.status, body["outcome"], body["accepted"]) == (202, "accepted", True)
    assert (body["workflow_id"], body["workflow_type"]) == (workflow_id, "orders.fulfillment")
    assert (body["schema"], body["version"], body["adapter"], body["idempotency_key"]) == (
        "durable-workflow.v2.bridge-adapter-outcome.contract",
        1,
        "stripe",
        "evt_1001",
    )
    assert (body["control_plane_outcome"], body["correlation"]) == ("started_new", {"trace": "t"})
    assert body["target"] == event()["target"] and "reason" not in body and "input" not in body
    run = (await send("GET", f"/workflows/{workflow_id}")).json
    assert (run["input"], run["business_key"], run["task_queue"]) == (["order-1001"], "order-1001", "orders")
    await send("POST", f"/workflows/{workflow_id}/terminate", {})
    again = await send("POST", "/bridge-adapters/webhook/stripe", event())
    assert (again.status, again.json["outcome"], again.json["reason"]) == (200, "duplicate", "duplicate_start")
    assert (again.json["run_id"], again.json["accepted"]) == (body["run_id"], True)
    assert again.json["control_plane_outcome"] == "returned_existing_active"


async def test_another_event_for_the_same_workflow_finds_the_run_or_is_refused(send: Send) -> None:
    target = event()["target"] | {"workflow_id": "order-1"}
    first = await send("POST", "/bridge-adapters/webhook/stripe", event(target=target))
    second = await send("POST", "/bridge-adapters/webhook/stripe", event(target=target, idempotency_key="evt_2"))
    assert (second.status, second.json["outcome"], second.json["run_id"]) == (200, "duplicate", first.json["run_id"])
    strict = target | {"duplicate_policy": "reject_duplicate"}
    third = await send("POST", "/bridge-adapters/webhook/stripe", event(target=strict, idempotency_key="evt_3"))
    assert (third.status, third.json["outcome"], third.json["reason"]) == (422, "rejected", "duplicate_start")
    assert (third.json["accepted"], third.json["control_plane_outcome"]) == (False, "rejected_duplicate")


async def test_an_event_sends_a_signal_once(send: Send) -> None:
    await send("POST", "/workflows", {"workflow_id": "order-1", "workflow_type": "order"})
    signal = event(**started("order-1"))
    first = await send("POST", "/bridge-adapters/webhook/stripe", signal)
    assert (first.status, first.json["control_plane_outcome"]) == (202, "signal_received")
    again = await send("POST", "/bridge-adapters/webhook/stripe", signal)
    assert (again.status, again.json["outcome"]) == (200, "duplicate")
    assert again.json["control_plane_outcome"] == "deduped_existing_command"
    other = await send("POST", "/bridge-adapters/webhook/github", signal)
    assert other.status == 202, "an adapter has its own keys"
    changed = await send("POST", "/bridge-adapters/webhook/stripe", signal | {"input": [2]})
    assert (changed.status, changed.json["reason"]) == (422, "request_id_conflict")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"action": "delete_workflow"}, "unsupported_action"),
        ({"action": None}, "unsupported_action"),
        ({"action": ["start_workflow"]}, "unsupported_action"),
        ({"idempotency_key": None}, "malformed_payload"),
        ({"idempotency_key": "k" * 256}, "malformed_payload"),
        ({"correlation": 7}, "malformed_payload"),
        ({"target": None}, "unsupported_routing"),
        ({"target": {}}, "unsupported_routing"),
        ({"target": {"workflow_type": "t", "duplicate_policy": "fail"}}, "unsupported_routing"),
        ({"action": "signal_workflow", "target": {"workflow_id": "w"}}, "unsupported_routing"),
        ({"input": {"codec": "json", "blob": "e30="}}, "malformed_payload"),
        (started("nowhere"), "unknown_target"),
    ],
)
async def test_an_event_that_cannot_be_followed_is_refused_by_name(send: Send, changes: Json, reason: str) -> None:
    answer = await send("POST", "/bridge-adapters/webhook/stripe", event(**changes))
    assert (answer.status, answer.json["outcome"], answer.json["accepted"]) == (422, "rejected", False)
    assert answer.json["reason"] == reason
    assert (await send("GET", "/workflows")).json["workflow_count"] == 0


async def test_an_adapter_has_a_name_of_its_form(send: Send) -> None:
    answer = await send("POST", "/bridge-adapters/webhook/a%20b", event())
    assert (answer.status, answer.json["reason"]) == (422, "malformed_payload")


@pytest.fixture
async def signed_plane(database_url: str, unique_namespace: str) -> AsyncIterator[ControlPlane]:
    """A control plane on which events of one adapter are signed."""
    async with control_plane(database_url, unique_namespace, {"DW_BRIDGE_SIGNATURE_KEYS": "stripe=secret"}) as plane:
        yield plane


async def test_an_adapter_with_a_key_takes_signed_events_only(signed_plane: ControlPlane) -> None:
    plane = signed_plane
    bytes_sent = msgspec.json.encode(event())
    headers = {
        "x-durable-workflow-control-plane-version": "2",
        "x-namespace": plane.namespace,
        "content-type": "application/json",
    }

    async def post(adapter: str, signature: str | None) -> Answer:
        signed = headers if signature is None else headers | {"x-bridge-signature": signature}
        return await call(
            plane.shell, "POST", f"/api/bridge-adapters/webhook/{adapter}", headers=signed, body=bytes_sent
        )

    good = hmac.digest(b"secret", bytes_sent, "sha256").hex()
    for wrong in (None, "", "sha256=00", good[:-1] + ("0" if good[-1] != "0" else "1")):
        answer = await post("stripe", wrong)
        assert (answer.status, answer.json["outcome"], answer.json["reason"]) == (401, "unauthorized", "auth_failed")
    assert (await post("stripe", f"sha256={good}")).status == 202
    assert (await post("stripe", good)).json["outcome"] == "duplicate"
    assert (await post("github", None)).status == 202
