"""Visibility queries, search attributes and their registry through the API."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from dw_core.engine.commands.parsed import UpsertSearchAttributes
from dw_runtime.store.reads import visibility
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane

TYPES = {
    "Customer": "keyword",
    "Note": "text",
    "Count": "int",
    "Amount": "double",
    "IsVip": "bool",
    "Due": "datetime",
    "Tags": "keyword_list",
}


async def register(send: Send, **types: str) -> None:
    for name, kind in types.items():
        answer = await send("POST", "/search-attributes", {"name": name, "type": kind})
        assert (answer.status, answer.json) == (201, {"name": name, "type": kind, "outcome": "created"})


async def start(send: Send, workflow_id: str, workflow_type: str = "t", **fields: Any) -> dict[str, Any]:
    answer = await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": workflow_type, **fields})
    assert answer.status == 201, answer.json
    return dict(answer.json)


async def find(send: Send, query: str, **parameters: str) -> list[str]:
    """Every workflow id that a query finds, page by page."""
    found: list[str] = []
    asked = {"query": query, "page_size": "2", **parameters}
    while True:
        answer = await send("GET", f"/workflows?{urlencode(asked)}")
        assert answer.status == 200, answer.json
        found += [row["workflow_id"] for row in answer.json["workflows"]]
        if answer.json["next_page_token"] is None:
            return found
        asked["next_page_token"] = answer.json["next_page_token"]


async def seed(send: Send) -> None:
    await register(send, **TYPES)
    await start(send, "a", search_attributes={"Customer": "c1", "Count": 1, "Amount": 1.5, "IsVip": True})
    await start(send, "b", search_attributes={"Customer": "c2", "Count": 2, "Due": "2026-01-01T00:00:00Z"})
    await start(send, "c", "u", search_attributes={"Customer": "c1", "IsVip": False, "Tags": ["x", "y"]})
    await start(send, "d", "u", task_queue="other", business_key="Order-17", search_attributes={"Tags": ["y"]})
    await start(send, "e", build_id="build-7", search_attributes={"Note": "a longer text", "Amount": 100})
    await send("POST", "/workflows/a/terminate")
    await send("POST", "/workflows/b/cancel")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WorkflowType = u", "dc"),
        ("WorkflowType != u", "eba"),
        ("WorkflowType IN (t, u) AND WorkflowType != t", "dc"),
        ("WorkflowId IN ('a', 'e', 'nobody')", "ea"),
        ("TaskQueue = other", "d"),
        ("BuildId = build-7", "e"),
        ("BuildIds != build-7", ""),
        ("Status = running", "edc"),
        ("ExecutionStatus = failed", "ba"),
        ("Status = cancelled", "b"),
        ("Status != failed AND WorkflowType = t", "e"),
        ("Status IN (terminated, pending)", "edca"),
        ("CloseTime > '2020-01-01'", "ba"),
        ("StartTime > '2020-01-01' AND StartTime < '2100-01-01T00:00:00+02:00'", "edcba"),
        ("ExecutionTime < '2020-01-01'", ""),
        ("Customer = c1", "ca"),
        ("Customer = 'c1' AND Status = running", "c"),
        ("Customer != c1", "b"),
        ("Customer IN (c1, c2)", "cba"),
        ("NOT Customer IN (c2, c3)", "ca"),
        ("Note = 'a longer text'", "e"),
        ("Count > 1", "b"),
        ("Count >= 1 AND Count < 2", "a"),
        ("Count IN (1, 2)", "ba"),
        ("Count != 2", "a"),
        ("Amount > 1 AND Amount <= 100.0", "ea"),
        ("Amount = 1.5", "a"),
        ("IsVip = true", "a"),
        ("NOT IsVip", "c"),
        ("IsVip OR Amount > 50", "ea"),
        ("Due < '2026-01-01T00:00:00.000001Z'", "b"),
        ("Due = '2026-01-01T01:00:00+01:00'", "b"),
        ("Tags = y", "dc"),
        ("Tags IN (x, y)", "dc"),
        ("Tags != x", "d"),
        ("WorkflowType = u OR Customer = c1 OR Count = 2", "dcba"),
        ("WorkflowType = t AND WorkflowType = u", ""),
        ("order-17", "d"),
        ("D", "d"),
        ("nothing like it", ""),
    ],
)
async def test_a_query_finds_exactly_the_runs_that_meet_it(send: Send, query: str, expected: str) -> None:
    await seed(send)
    assert await find(send, query) == list(expected)


async def test_a_query_and_the_other_filters_must_all_hold(send: Send) -> None:
    await seed(send)
    assert await find(send, "Customer = c1", status="running") == ["c"]
    assert await find(send, "Customer = c1 OR Count = 2", workflow_type="t") == ["b", "a"]
    assert await find(send, "order", workflow_type="u") == ["d"]
    assert await find(send, "Status = failed", status="running") == []


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("Customer = ", "expected a value at position 11"),
        ("Missing = 1", "Missing is no field and no registered search attribute at position 1"),
        ("Count = many", "Count is compared with a number at position 1"),
        ("StartTime > today", "StartTime is compared with an ISO 8601 time at position 1"),
        ("StartTime > '0001-01-01T00:00:00+14:00'", "StartTime is compared with an ISO 8601 time at position 1"),
        ("x" * 2049, "must have at most 2048 characters"),
    ],
)
async def test_a_query_that_cannot_be_followed_is_refused_by_name(send: Send, query: str, complaint: str) -> None:
    await register(send, Count="int")
    answer = await send("GET", f"/workflows?{urlencode({'query': query})}")
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert answer.json["errors"] == answer.json["validation_errors"] == {"query": [complaint]}
    assert answer.json["control_plane"]["operation"] == "list"


@pytest.mark.parametrize("field", ["StartTime", "CloseTime"])
@pytest.mark.parametrize("op", ["=", "!=", ">", "<"])
async def test_times_of_every_offset_can_be_asked_for(send: Send, field: str, op: str) -> None:
    await register(send, Due="datetime")
    await start(send, "w", search_attributes={"Due": "2026-01-01T00:00:00+20:00"})
    await send("POST", "/workflows/w/terminate")
    for time in ("2026-01-01T00:00:00+20:00", "2026-01-01T00:00:00-23:59", "0001-01-01T00:00:00Z"):
        found = await find(send, f"{field} {op} '{time}'")
        assert found == (["w"] if op in (">", "!=") else [])
    assert await find(send, "Due = '2025-12-31T04:00:00Z'") == ["w"]


@pytest.mark.parametrize(
    ("time", "status"), [("2026-01-01T00:00:00+20:00", 200), ("0001-01-01T00:00:00+14:00", 422), ("2026-01-01", 422)]
)
async def test_a_position_with_an_odd_time_is_followed_or_refused(send: Send, time: str, status: int) -> None:
    for n in range(2):
        await start(send, f"w-{n}")
    token = (await send("GET", "/workflows?page_size=1")).json["next_page_token"]
    (_, run_id), mark = msgspec.json.decode(base64.b64decode(token, altchars=b"-_"))
    altered = base64.urlsafe_b64encode(msgspec.json.encode([[time, run_id], mark])).decode()
    assert (await send("GET", f"/workflows?{urlencode({'next_page_token': altered})}")).status == status


async def test_a_token_belongs_to_its_listing(send: Send) -> None:
    for n in range(3):
        await start(send, f"w-{n}")
    token = (await send("GET", "/workflows?page_size=1")).json["next_page_token"]
    for parameters, complaint in (
        ({"status": "running", "next_page_token": token}, "was issued for a listing with other filters"),
        ({"query": "WorkflowType = t", "next_page_token": token}, "was issued for a listing with other filters"),
        ({"next_page_token": "AAAA"}, "was not issued by this server"),
        ({"next_page_token": token[:-6]}, "was not issued by this server"),
    ):
        answer = await send("GET", f"/workflows?{urlencode(parameters)}")
        assert (answer.status, answer.json["errors"]) == (422, {"next_page_token": [complaint]})


async def test_pages_stay_correct_while_runs_start_and_close(send: Send) -> None:
    await register(send, Customer="keyword")
    for n in range(6):
        await start(send, f"w-{n}", search_attributes={"Customer": "c"})
    found: list[str] = []
    token: str | None = ""
    n = 6
    while token is not None:
        asked = {"query": "Customer = c AND Status != completed", "page_size": "2"} | (
            {"next_page_token": token} if token else {}
        )
        body = (await send("GET", f"/workflows?{urlencode(asked)}")).json
        found += [row["workflow_id"] for row in body["workflows"]]
        token = body["next_page_token"]
        await send("POST", f"/workflows/{found[-1]}/terminate")
        await start(send, f"w-{n}", search_attributes={"Customer": "c"})
        n += 1
    assert found == [f"w-{n}" for n in (5, 4, 3, 2, 1, 0)]


async def test_a_page_that_has_looked_at_enough_runs_ends_early_and_goes_on(
    send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "VISIBILITY_SCAN_MAX", 6)
    await seed(send)
    for n in range(9):
        await start(send, f"z-{n}", "z")
    first = (await send("GET", f"/workflows?{urlencode({'query': 'order-17'})}")).json
    assert (first["workflows"], first["next_page_token"] is None) == ([], False)
    assert await find(send, "order-17") == ["d"]
    assert await find(send, "TaskQueue != default OR Customer = c1") == ["d", "c", "a"]
    assert await find(send, "TaskQueue != default OR Count > 1 AND WorkflowType != z") == ["d", "b"]


async def test_attributes_that_a_workflow_sets_are_found_and_those_it_removes_are_not(
    send: Send, plane: ControlPlane
) -> None:
    await register(send, Customer="keyword", Tags="keyword_list", Count="int")
    await start(send, "w", task_queue="q", search_attributes={"Customer": "c1", "Count": 1})
    claimed = await plane.claim("q")
    patch = {"Customer": "c2", "Count": None, "Tags": ["x", "y"]}
    await plane.complete(claimed, UpsertSearchAttributes(attributes=patch, types={}))
    assert await find(send, "Customer = c1 OR Count = 1") == []
    assert await find(send, "Customer = c2 AND Tags = x AND Tags = y") == ["w"]


async def test_attributes_are_registered_listed_and_deleted(send: Send) -> None:
    empty = (await send("GET", "/search-attributes")).json
    assert empty["custom_attributes"] == {}
    assert (empty["system_attributes"]["WorkflowType"], empty["system_attributes"]["CloseTime"]) == (
        "keyword",
        "datetime",
    )
    await register(send, **TYPES)
    assert (await send("GET", "/search-attributes")).json["custom_attributes"] == TYPES
    again = await send("POST", "/search-attributes", {"name": "Count", "type": "double"})
    assert (again.status, again.json["reason"]) == (409, "attribute_already_exists")
    assert (again.json["name"], again.json["type"]) == ("Count", "int")
    reserved = await send("POST", "/search-attributes", {"name": "Status", "type": "keyword"})
    assert (reserved.status, reserved.json["reason"]) == (409, "name_reserved")
    gone = await send("DELETE", "/search-attributes/Count")
    assert (gone.status, gone.json) == (200, {"name": "Count", "outcome": "deleted"})
    missing = await send("DELETE", "/search-attributes/Count")
    assert (missing.status, missing.json["reason"]) == (404, "attribute_not_found")
    system = await send("DELETE", "/search-attributes/RunId")
    assert (system.status, system.json["reason"]) == (409, "system_attribute")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "int"}, "name"),
        ({"name": "1st", "type": "int"}, "name"),
        ({"name": "a-b", "type": "int"}, "name"),
        ({"name": "A\n", "type": "int"}, "name"),
        ({"name": "A" * 129, "type": "int"}, "name"),
        ({"name": "A"}, "type"),
        ({"name": "A", "type": "string"}, "type"),
    ],
)
async def test_a_registration_that_makes_no_sense_is_refused(send: Send, body: dict[str, str], field: str) -> None:
    answer = await send("POST", "/search-attributes", body)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert list(answer.json["errors"]) == [field]


async def test_registrations_that_come_at_once_are_taken_one_after_the_other(send: Send) -> None:
    bodies = [{"name": "Same", "type": kind} for kind in ("int", "keyword", "text", "double") * 2]
    answers = await asyncio.gather(*(send("POST", "/search-attributes", body) for body in bodies))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    (made,) = [answer.json for answer in answers if answer.status == 201]
    assert (await send("GET", "/search-attributes")).json["custom_attributes"] == {"Same": made["type"]}
    names = [{"name": f"A{n}", "type": "int"} for n in range(104)]
    answers = await asyncio.gather(*(send("POST", "/search-attributes", body) for body in names))
    assert sorted(answer.status for answer in answers) == [201] * 99 + [422] * 5


async def test_a_namespace_has_so_many_attributes(send: Send) -> None:
    await register(send, **{f"A{n}": "int" for n in range(100)})
    full = await send("POST", "/search-attributes", {"name": "B", "type": "int"})
    assert (full.status, full.json["reason"], full.json["limit"]) == (422, "search_attribute_limit_reached", 100)
    await send("DELETE", "/search-attributes/A7")
    await register(send, B="int")


async def test_a_name_keeps_its_type_while_runs_have_values_of_it(send: Send) -> None:
    await register(send, Used="int", Unused="int")
    await start(send, "w", search_attributes={"Used": 1})
    for name in ("Used", "Unused"):
        assert (await send("DELETE", f"/search-attributes/{name}")).status == 200
    kept = (await send("GET", "/workflows/w")).json["search_attributes"]
    unknown = await send("GET", f"/workflows?{urlencode({'query': 'Used = 1'})}")
    assert (kept, unknown.status) == ({"Used": 1}, 422)
    other = await send("POST", "/search-attributes", {"name": "Used", "type": "keyword"})
    assert (other.status, other.json["errors"]) == (
        422,
        {"type": ["must be int, because runs have values of that type"]},
    )
    await register(send, Used="int", Unused="keyword")
    assert await find(send, "Used = 1") == ["w"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Customer", 1),
        ("Customer", "x" * 256),
        ("Count", 1.5),
        ("Count", True),
        ("Amount", "1"),
        ("Amount", 10**400),
        ("IsVip", "true"),
        ("Due", "soon"),
        ("Tags", "x"),
        ("Tags", [1]),
        ("Unregistered", ["x"]),
    ],
)
async def test_a_start_must_give_values_of_the_registered_types(send: Send, name: str, value: object) -> None:
    await register(send, **TYPES)
    body = {"workflow_id": "w", "workflow_type": "t", "search_attributes": {name: value}}
    answer = await send("POST", "/workflows", body)
    assert (answer.status, list(answer.json["errors"])) == (422, [f"search_attributes.{name}"])
    assert (await send("GET", "/workflows/w")).status == 404


@pytest.mark.parametrize("number", [1e16, 1e308, -1.5e-300, 2.0, 9223372036854775808, 0.1])
async def test_a_double_comes_back_as_one_and_is_found(send: Send, number: float) -> None:
    await register(send, Amount="double")
    await start(send, "a", search_attributes={"Amount": number, "Untyped": 7})
    shown = (await send("GET", "/workflows/a")).json["search_attributes"]
    assert shown == {"Amount": number, "Untyped": 7}
    assert [type(value) for value in shown.values()] == [float, int]
    assert (await send("GET", "/workflows")).json["workflows"][0]["search_attributes"] == shown
    assert await find(send, f"Amount = {number}") == ["a"]
    assert await find(send, f"Amount < {number}") == []


async def test_an_attribute_that_is_registered_later_finds_earlier_values(send: Send) -> None:
    await start(send, "w", search_attributes={"Customer": "c1", "Count": 7, "IsVip": True})
    await register(send, Customer="keyword", Count="int", IsVip="bool")
    assert await find(send, "Customer = c1 AND Count = 7 AND IsVip = true") == ["w"]


async def test_runs_of_an_id_are_read_by_page(send: Send, plane: ControlPlane) -> None:
    first = await start(send, "w")
    body = (await send("GET", "/workflows/w/runs?page_size=1")).json
    assert [run["run_id"] for run in body["runs"]] == [first["run_id"]]
    assert (body["run_count"], body["next_page_token"]) == (1, None)
    beyond = (await send("GET", "/workflows/w/runs?next_page_token=1")).json
    assert (beyond["run_count"], beyond["runs"]) == (1, [])
    for wrong in ("x", "-1", "99999999999"):
        assert (await send("GET", f"/workflows/w/runs?next_page_token={wrong}")).status == 422
