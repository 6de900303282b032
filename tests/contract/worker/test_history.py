"""Paging and compressing a leased task's history (worker-plane §8.3, §8.4)."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

import pytest

from tests.contract.worker.client import COMPLETE, Client, fence, schedule, side_effect

EFFECTS = 120
TOTAL = EFFECTS + 2


async def leased(client: Client, **poll: Any) -> dict[str, Any]:
    """A leased task of a run whose first task has recorded many side effects and so made a second one."""
    await client.start()
    await client.complete(await client.take(), *[side_effect()] * EFFECTS)
    return await client.take(**poll)


async def page(client: Client, task: dict[str, Any], token: str, **fields: Any) -> Any:
    return await client.post(
        f"/workflow-tasks/{task['task_id']}/history",
        {**fence(task), "next_history_page_token": token, **fields},
    )


async def test_pages_follow_each_other_without_gap_or_repeat(client: Client) -> None:
    task = await leased(client, history_page_size=50)
    sequences = [event["sequence"] for event in task["history_events"]]
    token, seen = task["next_history_page_token"], set[str]()
    assert base64.b64decode(token) == b"50"
    while token is not None:
        assert token not in seen
        seen.add(token)
        answer = await page(client, task, token, history_page_size=50)
        body = answer.json
        assert (answer.status, body["task_id"], body["workflow_task_attempt"]) == (200, task["task_id"], 1)
        assert body["total_history_events"] == TOTAL
        sequences += [event["sequence"] for event in body["history_events"]]
        token = body["next_history_page_token"]
    assert sequences == list(range(1, TOTAL + 1))


async def test_the_token_of_the_start_gives_the_first_page_again(client: Client) -> None:
    task = await leased(client)
    body = (await page(client, task, "MA==")).json
    assert body["history_events"] == task["history_events"]
    assert body["next_history_page_token"] is None


async def test_pages_end_where_the_claim_ended(client: Client) -> None:
    await client.start()
    await client.complete(await client.take(), schedule(), schedule())
    first, second = await client.take("activity"), await client.take("activity")
    await client.report(first, "complete")
    task = await client.take()
    await client.report(second, "complete")
    body = (await page(client, task, "MA==")).json
    assert body["total_history_events"] == task["last_history_sequence"]
    assert [event["sequence"] for event in body["history_events"]] == list(range(1, task["last_history_sequence"] + 1))


@pytest.mark.parametrize("token", ["nonsense", "LTE=", "MDE=", "MA", base64.b64encode(b"9" * 30).decode(), "MQ==\n"])
async def test_a_token_that_was_never_issued_is_refused(client: Client, token: str) -> None:
    await client.start()
    task = await client.take()
    answer = await page(client, task, token)
    assert (answer.status, answer.json["reason"]) == (400, "invalid_page_token")


async def test_a_token_behind_the_end_is_an_empty_page(client: Client) -> None:
    await client.start()
    answer = await page(client, await client.take(), base64.b64encode(b"99").decode(), accept_history_encoding="gzip")
    assert (answer.status, answer.json["history_events"]) == (200, [])
    assert answer.json["next_history_page_token"] is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"next_history_page_token": ""}, "next_history_page_token"),
        ({"history_page_size": 0}, "history_page_size"),
        ({"history_page_size": 1001}, "history_page_size"),
        ({"accept_history_encoding": "x" * 65}, "accept_history_encoding"),
        ({"workflow_task_attempt": 0}, "workflow_task_attempt"),
        ({"lease_owner": None}, "lease_owner"),
    ],
)
async def test_a_wrong_field_is_named(client: Client, fields: dict[str, Any], field: str) -> None:
    await client.start()
    answer = await page(client, await client.take(), "MA==", **fields)
    assert (answer.status, list(answer.json["errors"])) == (422, [field])


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("deflate", "deflate"), ("deflate, gzip", "gzip"), ("br", None), (None, None)],
)
async def test_history_is_compressed_on_request(client: Client, accepted: str | None, encoding: str | None) -> None:
    plain = (await leased(client))["history_events"]
    await client.send("DELETE", "/registrations/w-1")
    await client.register()
    task = await client.take(accept_history_encoding=accepted)
    again = (await page(client, task, "MA==", accept_history_encoding=accepted)).json
    for body in (task, again):
        assert decoded(body, encoding) == plain
        assert body.get("history_events_encoding") == encoding


@pytest.mark.parametrize(("size", "is_compressed"), [(50, False), (51, True)])
async def test_only_a_page_of_more_than_fifty_events_is_compressed(
    client: Client, size: int, is_compressed: bool
) -> None:
    task = await leased(client, accept_history_encoding="gzip", history_page_size=size)
    again = (await page(client, task, "MA==", accept_history_encoding="gzip", history_page_size=size)).json
    for body in (task, again):
        assert ("history_events_compressed" in body) is is_compressed
        assert len(decoded(body, "gzip" if is_compressed else None)) == size


async def test_the_last_task_still_sees_all_of_it(client: Client) -> None:
    task = await leased(client)
    assert len(task["history_events"]) == TOTAL
    assert (await client.complete(task, COMPLETE)).json["run_status"] == "completed"


def decoded(body: dict[str, Any], encoding: str | None) -> list[Any]:
    """The events of a page, whichever way they are sent."""
    if encoding is None:
        plain: list[Any] = body["history_events"]
        return plain
    assert body["history_events"] == []
    packed = base64.b64decode(body["history_events_compressed"])
    text = gzip.decompress(packed) if encoding == "gzip" else zlib.decompress(packed, wbits=-15)
    events: list[Any] = json.loads(text)
    return events
