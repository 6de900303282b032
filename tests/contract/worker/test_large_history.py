"""Histories whose events are large: a page ends when it is full, and nothing is lost or repeated between pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import dw_runtime.store.migrations
from dw_core.limits import HISTORY_PAGE_BYTES_MAX
from dw_core.payloads.codec import encode_blob
from tests.contract.worker.client import Client, fence, side_effect

LARGE = {"codec": "avro", "blob": encode_blob("x" * 1_400_000)}
EFFECTS = 7


@pytest.fixture
async def large(client: Client) -> dict[str, Any]:
    """A leased task of a run with seven results of almost 2 MiB each."""
    await client.start()
    task = await client.take()
    for _ in range(EFFECTS):
        assert (await client.complete(task, side_effect(LARGE))).status == 200
        task = await client.take()
    return task


def size(events: list[dict[str, Any]]) -> int:
    return sum(len(str(event)) for event in events)


async def test_worker_pages_are_bounded_in_bytes_and_complete(client: Client, large: dict[str, Any]) -> None:
    pages = [large["history_events"]]
    token = large["next_history_page_token"]
    while token is not None:
        body = {**fence(large), "next_history_page_token": token}
        answer = (await client.post(f"/workflow-tasks/{large['task_id']}/history", body)).json
        pages.append(answer["history_events"])
        token = answer["next_history_page_token"]
    assert [event["sequence"] for page in pages for event in page] == list(range(1, EFFECTS + 3))
    assert len(pages) == 3
    assert all(size(page[:-1]) < HISTORY_PAGE_BYTES_MAX for page in pages)


async def test_operator_pages_are_bounded_in_bytes_and_complete(client: Client, large: dict[str, Any]) -> None:
    path = f"/workflows/w/runs/{large['run_id']}/history?page_size=1000"
    sequences: list[int] = []
    token: str | None = ""
    while token is not None:
        answer = (await client.control("GET", f"{path}&next_page_token={token}" if token else path)).json
        assert size(answer["events"][:-1]) < HISTORY_PAGE_BYTES_MAX
        sequences += [event["sequence"] for event in answer["events"]]
        token = answer["next_page_token"]
    assert sequences == list(range(1, EFFECTS + 3))


async def test_the_first_page_of_a_task_handed_over_at_once_has_the_asked_size_or_no_further_page(
    client: Client,
) -> None:
    await client.start()
    task = await client.take(history_page_size=1)
    first = [event["sequence"] for event in task["history_events"]]
    assert (first, task["next_history_page_token"] is None) in (([1], False), ([1, 2], True))


def test_the_schema_cuts_pages_at_the_published_limit() -> None:
    folder = Path(dw_runtime.store.migrations.__path__[0])
    (found,) = re.findall(r"page\.earlier < (\d+)", (folder / "0001_foundation.expand.sql").read_text())
    assert int(found) == HISTORY_PAGE_BYTES_MAX
