"""Output streams on both planes: written by commands and operators, read and followed (control-plane §14.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dw_core.payloads.codec import encode_blob
from dw_runtime.store.database import Database
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.output_expiry import OutputExpiry
from tests.contract.shell_client import Answer
from tests.contract.worker.client import Client, schedule, side_effect
from tests.harness.waiting import eventually
from tests.harness.worker_plane import ServedPlane

LEFT = "SELECT count(*) FROM workflow_output_items WHERE run_id = %s"


def envelope(value: Any) -> dict[str, str]:
    return {"codec": "avro", "blob": encode_blob(value)}


def directive(operation: str, *values: Any, ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    """A side effect that writes to the stream ``out`` as the SDK's worker does."""
    named = {"operation": operation, "stream_name": "out", "command_identity": "c", "command_ordinal": ordinal}
    if operation == "append":
        keys = [f"dw-stream:c:{ordinal}:{index}" for index in range(len(values))]
        named["items"] = [
            {"payload": envelope(value), "payload_codec": "avro", "idempotency_key": key, "item_type": "note"}
            for value, key in zip(values, keys, strict=True)
        ]
    return {**side_effect(), "workflow_stream": {**named, **fields}}


class Output:
    """The stream ``out`` of a run of the workflow ``w``."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id
        self.base = f"/workflows/w/runs/{run_id}/streams"

    async def read(self, **query: int) -> Answer:
        asked = "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())
        return await self._client.control("GET", f"{self.base}/out/items?{asked}")

    async def append(self, *values: Any, key: str | None = None, **fields: Any) -> Answer:
        items = [{"payload": envelope(value), **({} if key is None else {"idempotency_key": key})} for value in values]
        return await self._client.control("POST", f"{self.base}/out/items", {"items": items, **fields})

    async def close(self, **fields: Any) -> Answer:
        return await self._client.control("POST", f"{self.base}/out/close", fields)


@pytest.fixture
async def output(client: Client) -> Output:
    return Output(client, await client.start())


async def test_what_a_workflow_appends_is_read_in_pages(client: Client, output: Output) -> None:
    task = await client.take()
    answer = await client.complete(task, directive("append", "a", "b", "c"), directive("close", ordinal=1), schedule())
    assert answer.status == 200, answer.json
    page = (await output.read(max_items=2)).json
    assert (page["workflow_id"], page["workflow_run_id"]) == ("w", output.run_id)
    assert (page["next_offset"], page["terminal"]) == (2, False)
    first = page["items"][0]
    assert first.pop("emitted_at")
    assert first == {
        "offset": 0,
        "idempotency_key": "dw-stream:c:0:0",
        "origin": "workflow",
        "origin_reference": "c",
        "item_type": "note",
        "content_type": None,
        "payload": envelope("a"),
        "payload_reference": None,
        "payload_codec": "avro",
    }
    rest = (await output.read(from_=2)).json
    assert ([item["offset"] for item in rest["items"]], rest["next_offset"], rest["terminal"]) == ([2], 3, True)
    described = (await client.control("GET", f"{output.base}/out")).json["stream"]
    times = [described.pop(name) for name in ("opened_at", "last_appended_at", "closed_at")]
    assert all(times)
    assert described == {
        "stream_name": "out",
        "status": "closed",
        "last_offset": 2,
        "total_items": 3,
        "pending_items": 3,
        "error_reason": None,
        "retention_seconds": 3600,
    }
    listed = (await client.control("GET", output.base)).json
    assert (listed["count"], [stream["stream_name"] for stream in listed["streams"]]) == (1, ["out"])


async def test_a_repeated_completion_appends_once(client: Client, output: Output, served: ServedPlane) -> None:
    task = await client.take()
    first = await client.complete(task, directive("append", "a"), schedule())
    before = await served.dump()
    assert (await client.complete(task, directive("append", "a"), schedule())).json == first.json
    assert await served.dump() == before


async def test_a_stream_that_has_ended_refuses_the_batch(client: Client, output: Output, served: ServedPlane) -> None:
    await output.append("a")
    assert (await output.close(error_reason="broken")).json["stream"]["status"] == "errored"
    task = await client.take()
    before = await served.dump()
    answer = await client.complete(task, directive("append", "late"), schedule())
    assert (answer.status, list(answer.json["errors"])) == (422, ["commands.0.workflow_stream"])
    assert await served.dump() == before
    late = await output.append("late")
    assert (late.status, late.json["reason"], late.json["stream_name"]) == (409, "stream_errored", "out")


async def test_an_operator_appends_each_identity_once(output: Output) -> None:
    first = (await output.append(1, key="k")).json
    assert (first["accepted_offsets"], first["accepted"], first["deduped"]) == ([0], 1, 0)
    again = (await output.append(1, key="k")).json
    assert (again["accepted_offsets"], again["accepted"], again["deduped"]) == ([0], 0, 1)
    full = await output.append(2, max_pending_items=1)
    assert (full.status, full.json["reason"]) == (429, "stream_full")
    assert (full.json["pending_items"], full.json["max_pending_items"]) == (1, 1)
    assert (await output.close(retention_seconds=60)).json["stream"]["retention_seconds"] == 60
    assert (await output.close()).status == 200
    closed = await output.append(3)
    assert (closed.status, closed.json["reason"]) == (409, "stream_closed")


async def test_a_reader_at_the_end_is_held_until_there_is_an_item_or_an_end(output: Output) -> None:
    await output.append("a")
    held = asyncio.create_task(output.read(from_=1, wait_seconds=30))
    others = [asyncio.create_task(output.read(from_=2, wait_seconds=30)) for _ in range(3)]
    assert (await output.read(from_=1)).json["items"] == []
    await output.append("b")
    page = (await held).json
    assert ([item["offset"] for item in page["items"]], page["terminal"]) == ([1], False)
    await output.close()
    for other in others:
        page = (await other).json
        assert (page["items"], page["next_offset"], page["terminal"]) == ([], 2, True)


async def test_items_are_dropped_when_their_time_is_over(
    output: Output, served: ServedPlane, database_url: str
) -> None:
    await output.append("a", "b")
    await output.close(retention_seconds=60)
    past = "UPDATE workflow_output_streams SET expires_at = dw_now() - interval '1 second' WHERE run_id = %s"
    await served.execute(past, output.run_id)
    page = (await output.read()).json
    assert (page["items"], page["terminal"]) == ([], True)

    database = Database(database_url, 2, Metrics())
    await database.open()

    async def is_dropped() -> bool:
        await OutputExpiry(database).pass_once()
        return await served.execute(LEFT, output.run_id) == [(0,)]

    await eventually(is_dropped, "the items are gone", 10)
    await database.close()
    page = (await output.read()).json
    assert (page["stream"]["total_items"], page["stream"]["pending_items"]) == (2, 0)


@pytest.mark.parametrize(
    "query", ["from=-1", "from=x", "max_items=0", "max_items=501", "wait_seconds=61", "wait_seconds=1.5"]
)
async def test_a_bad_read_is_refused(client: Client, output: Output, query: str) -> None:
    await output.append("a")
    answer = await client.control("GET", f"{output.base}/out/items?{query}")
    assert (answer.status, list(answer.json["validation_errors"])) == (422, [query.partition("=")[0]])


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "items"),
        ([{}], "items.0"),
        ([{"payload": "text"}], "items.0.payload"),
        ([{"payload_reference": ""}], "items.0.payload_reference"),
        ([{"payload": envelope(1), "payload_codec": "json"}], "items.0.payload_codec"),
        ([{"payload": envelope(1), "item_type": 5}], "items.0.item_type"),
    ],
)
async def test_a_bad_item_is_refused(client: Client, output: Output, items: Any, field: str) -> None:
    answer = await client.control("POST", f"{output.base}/out/items", {"items": items})
    assert (answer.status, list(answer.json["validation_errors"])) == (422, [field]), answer.json


async def test_what_is_not_there_is_named(client: Client, output: Output) -> None:
    unknown = f"/workflows/w/runs/{'0' * 26}/streams"
    cases = [
        ("GET", f"{output.base}/out", "stream_not_found"),
        ("GET", f"{output.base}/out/items", "stream_not_found"),
        ("POST", f"{output.base}/out/close", "stream_not_found"),
        ("GET", unknown, "run_not_found"),
        ("POST", f"{unknown}/out/close", "run_not_found"),
        ("POST", f"/workflows/x/runs/{output.run_id}/streams/out/close", "instance_not_found"),
        ("GET", f"/workflows/x/runs/{output.run_id}/streams", "instance_not_found"),
    ]
    for method, path, reason in cases:
        answer = await client.control(method, path, {} if method == "POST" else None)
        assert (answer.status, answer.json["reason"]) == (404, reason), path
    answer = await client.control("GET", f"{output.base}/.out")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_stream_name")
