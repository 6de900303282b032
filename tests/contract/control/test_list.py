"""``GET /api/workflows``."""

from __future__ import annotations

import pytest

from tests.contract.control.conftest import Send


async def start_many(send: Send, count: int) -> list[str]:
    ids = [f"w-{n}" for n in range(count)]
    for n, workflow_id in enumerate(ids):
        kind = "even" if n % 2 == 0 else "odd"
        await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": kind})
    return ids


async def read_all(send: Send, query: str) -> list[str]:
    """Every workflow id of a listing, page by page."""
    found: list[str] = []
    token = ""
    while True:
        body = (await send("GET", f"/workflows?{query}{token}")).json
        found += [row["workflow_id"] for row in body["workflows"]]
        assert body["workflow_count"] == len(body["workflows"])
        assert body["control_plane"]["next_page_token"] == body["next_page_token"]
        if body["next_page_token"] is None:
            return found
        token = f"&next_page_token={body['next_page_token']}"


async def test_pages_walk_every_run_once_newest_first(send: Send) -> None:
    ids = await start_many(send, 7)
    for size in (1, 2, 3, 7, 8):
        assert await read_all(send, f"page_size={size}") == ids[::-1]
    assert await read_all(send, "limit=2") == ids[::-1]


async def test_filters_combine(send: Send) -> None:
    ids = await start_many(send, 6)
    await send("POST", f"/workflows/{ids[0]}/terminate")
    await send("POST", f"/workflows/{ids[1]}/terminate")
    assert await read_all(send, "workflow_type=even&page_size=2") == [ids[4], ids[2], ids[0]]
    assert await read_all(send, "status=failed&page_size=1") == [ids[1], ids[0]]
    assert await read_all(send, "status=running&workflow_type=even&page_size=1") == [ids[4], ids[2]]
    assert await read_all(send, "status=completed") == []
    assert await read_all(send, "workflow_type=none") == []


async def test_a_row_shows_the_exact_status_and_its_metadata(send: Send) -> None:
    await send(
        "POST",
        "/workflows",
        {"workflow_id": "w", "workflow_type": "t", "memo": {"a": [1]}, "search_attributes": {"K": "v"}},
    )
    (row,) = (await send("GET", "/workflows")).json["workflows"]
    assert (row["status"], row["status_bucket"], row["is_terminal"], row["task_queue"]) == (
        "pending",
        "running",
        False,
        "default",
    )
    assert (row["memo"], row["search_attributes"], row["payload_codec"]) == ({"a": [1]}, {"K": "v"}, "avro")
    await send("POST", "/workflows/w/terminate")
    (row,) = (await send("GET", "/workflows")).json["workflows"]
    assert (row["status"], row["status_bucket"], row["is_terminal"]) == ("terminated", "failed", True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("page_size=0", "page_size"),
        ("page_size=201", "page_size"),
        ("page_size=two", "page_size"),
        ("limit=-1", "limit"),
        ("status=pending", "status"),
        ("status=open", "status"),
        ("next_page_token=nonsense", "next_page_token"),
        ("next_page_token=WyJ4IiwgInkiXQ==", "next_page_token"),
        ("next_page_token=%FF", "next_page_token"),
    ],
)
async def test_a_wrong_parameter_is_named(send: Send, query: str, field: str) -> None:
    answer = await send("GET", f"/workflows?{query}")
    assert (answer.status, list(answer.json["errors"])) == (422, [field])


async def test_a_status_that_belongs_to_a_bucket_names_the_bucket(send: Send) -> None:
    answer = await send("GET", "/workflows?status=terminated")
    assert "use failed" in answer.json["errors"]["status"][0]
