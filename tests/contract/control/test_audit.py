"""The audit trail: every command leaves one entry, with the change of a configuration, in the order of time."""

from __future__ import annotations

from typing import Any

from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def entries(send: Send, **query: str) -> list[dict[str, Any]]:
    """The entries of the test's namespace, the newest first."""
    answer = await send("GET", "/system/audit?" + "&".join(f"{name}={value}" for name, value in query.items()))
    assert answer.status == 200, answer.json
    found: list[dict[str, Any]] = answer.json["entries"]
    return found


async def test_commands_of_workflows_are_recorded_with_who_and_what(plane: ControlPlane, send: Send) -> None:
    started = (await send("POST", "/workflows", {"workflow_type": "order", "workflow_id": "w-1"})).json
    await send("POST", "/workflows/w-1/signal/paid", {"request_id": "r-1"}, x_request_id="night-shift")
    await send("POST", "/workflows/w-1/signal/paid", {"request_id": "r-1"})
    await send("POST", "/workflows/w-1/terminate", {"reason": "test"})
    await send("POST", "/workflows/w-1/signal/late", {})
    found = await entries(send, target="w-1")
    assert [(entry["command"], entry["outcome"], entry["reason"]) for entry in found] == [
        ("workflow_signal", "rejected", "run_not_active"),
        ("workflow_terminate", "accepted", None),
        ("workflow_signal", "accepted", None),
        ("workflow_start", "accepted", None),
    ]
    signalled = found[2]
    assert (signalled["subject"], signalled["role"], signalled["auth_method"]) == ("anonymous", "admin", "none")
    assert (signalled["request_id"], signalled["run_id"]) == ("night-shift", started["run_id"])
    assert (signalled["namespace"], signalled["before"], signalled["after"]) == (plane.namespace, None, None)


async def test_changes_of_a_configuration_are_recorded_before_and_after(plane: ControlPlane, send: Send) -> None:
    name = f"{plane.namespace}-audited"
    await send("POST", "/namespaces", {"name": name, "retention_days": 7})
    await send("PUT", f"/namespaces/{name}", {"retention_days": 9})
    assert (await send("POST", "/namespaces", {"name": name})).status == 409
    answer = await send("GET", f"/system/audit?target={name}", x_namespace=name)
    made, changed = reversed(answer.json["entries"])
    assert (made["command"], made["before"], made["after"]["retention_days"]) == ("namespace_create", None, 7)
    days = (changed["before"]["retention_days"], changed["after"]["retention_days"])
    assert (changed["command"], days) == ("namespace_update", (7, 9))
    refused = (await entries(send, command="namespace_create"))[0]
    assert (refused["outcome"], refused["reason"]) == ("rejected", "namespace_already_exists")


async def test_the_catalogue_and_the_builds_are_recorded(send: Send) -> None:
    await send("POST", "/service-endpoints", {"endpoint_name": "Billing", "description": "one"})
    await send("PUT", "/service-endpoints/billing", {"description": "two"})
    await send("DELETE", "/service-endpoints/billing")
    await send("DELETE", "/service-endpoints/billing")
    found = await entries(send, target="billing")
    assert [(entry["command"], entry["outcome"]) for entry in found] == [
        ("service_endpoint_delete", "rejected"),
        ("service_endpoint_delete", "accepted"),
        ("service_endpoint_update", "accepted"),
        ("service_endpoint_create", "accepted"),
    ]
    _, deleted, changed, _ = found
    assert (changed["before"]["description"], changed["after"]["description"]) == ("one", "two")
    assert (deleted["before"]["description"], deleted["after"]) == ("two", None)


async def test_search_attributes_are_recorded_before_and_after(send: Send) -> None:
    await send("POST", "/search-attributes", {"name": "Customer", "type": "text"})
    await send("POST", "/search-attributes", {"name": "Customer", "type": "text"})
    await send("DELETE", "/search-attributes/Customer")
    deleted, refused, made = await entries(send)
    described = {"name": "Customer", "type": "text"}
    assert (made["outcome"], made["before"], made["after"]) == ("accepted", None, described)
    assert (refused["outcome"], refused["reason"]) == ("rejected", "attribute_already_exists")
    assert (deleted["outcome"], deleted["before"], deleted["after"]) == ("accepted", described, None)


async def test_entries_are_paged_and_filtered(send: Send) -> None:
    for number in range(5):
        await send("POST", "/workflows", {"workflow_type": "order", "workflow_id": f"w-{number}"})
    seen: list[str] = []
    token = ""
    while True:
        answer = (await send("GET", f"/system/audit?page_size=2&next_page_token={token}")).json
        seen += [entry["target"] for entry in answer["entries"]]
        token = answer["next_page_token"]
        if token is None:
            break
    assert seen == ["w-4", "w-3", "w-2", "w-1", "w-0"]
    (middle,) = await entries(send, target="w-2")
    assert [entry["target"] for entry in await entries(send, since=middle["recorded_at"])] == ["w-4", "w-3", "w-2"]
    assert await entries(send, subject="nobody") == []
    everywhere = (await send("GET", "/system/audit?all_namespaces=true&page_size=1")).json["entries"]
    assert len(everywhere) == 1


async def test_moments_of_every_offset_and_at_the_ends_of_the_calendar_are_followed(send: Send) -> None:
    await send("POST", "/workflows", {"workflow_type": "order", "workflow_id": "w"})
    for query, count in (
        ({"since": "0001-01-01T00:00:00Z"}, 1),
        ({"until": "9999-12-31T23:59:59Z"}, 1),
        ({"since": "2026-01-01T00:00:00-23:59"}, 1),
        ({"until": "2026-01-01T00:00:00%2B20:00"}, 0),
    ):
        assert len(await entries(send, **query)) == count, query


async def test_a_question_that_makes_no_sense_is_refused(send: Send) -> None:
    for wrong in (
        "outcome=maybe",
        "since=yesterday",
        "since=2026-01-01",
        "since=0001-01-01T00:00:00%2B14:00",
        "until=9999-12-31T23:59:59-14:00",
        "next_page_token=x",
        "page_size=0",
        "all_namespaces=true&target=x",
    ):
        answer = await send("GET", f"/system/audit?{wrong}")
        assert (wrong, answer.status, answer.json["reason"]) == (wrong, 422, "validation_failed")
