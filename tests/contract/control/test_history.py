"""``GET /api/workflows/{id}/runs/{run}/history``."""

from __future__ import annotations

import asyncio

from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def start(send: Send) -> str:
    answer = await send("POST", "/workflows", {"workflow_id": "w", "workflow_type": "t", "input": [1]})
    return f"/workflows/w/runs/{answer.json['run_id']}/history"


async def test_pages_follow_each_other_until_the_token_is_null(send: Send) -> None:
    path = await start(send)
    await send("POST", "/workflows/w/terminate", {"reason": "enough"})
    whole = (await send("GET", f"{path}?page_size=1000")).json
    assert [event["event_type"] for event in whole["events"]] == [
        "StartAccepted",
        "WorkflowStarted",
        "TerminateRequested",
        "WorkflowTerminated",
    ]
    assert whole["next_page_token"] is None
    assert whole["events"][3]["payload"]["reason"] == "enough"
    assert whole["control_plane"]["operation"] == "history"

    seen: list[object] = []
    token: str | None = "MA=="
    while token is not None:
        page = (await send("GET", f"{path}?page_size=3&next_page_token={token}")).json
        seen += page["events"]
        token = page["next_page_token"]
    assert seen == whole["events"]


async def test_a_page_behind_the_end_is_empty(send: Send) -> None:
    path = await start(send)
    page = (await send("GET", f"{path}?next_page_token=OTk=")).json
    assert (page["events"], page["next_page_token"]) == ([], None)


async def test_wrong_parameters_are_refused(send: Send) -> None:
    path = await start(send)
    for query, status, reason in (
        ("page_size=1001", 422, "validation_failed"),
        ("wait_new_event=maybe", 422, "validation_failed"),
        ("next_page_token=x", 400, "invalid_page_token"),
    ):
        answer = await send("GET", f"{path}?{query}")
        assert (answer.status, answer.json["reason"]) == (status, reason)


async def test_a_reader_that_waits_gets_the_next_event(plane: ControlPlane, send: Send) -> None:
    path = await start(send)
    first = (await send("GET", f"{path}?wait_new_event=true")).json
    assert [event["sequence"] for event in first["events"]] == [1, 2]
    waiting = asyncio.create_task(send("GET", f"{path}?wait_new_event=true&next_page_token={first['next_page_token']}"))
    await send("POST", "/workflows/w/terminate")
    page = (await asyncio.wait_for(waiting, 10)).json
    assert page["events"][-1]["event_type"] == "WorkflowTerminated"
    assert page["next_page_token"] is None


async def test_a_held_reader_is_answered_when_the_process_drains(plane: ControlPlane, send: Send) -> None:
    path = await start(send)
    waiting = asyncio.create_task(send("GET", f"{path}?wait_new_event=true&next_page_token=Mg=="))
    plane.shell.draining.set()
    page = (await asyncio.wait_for(waiting, 10)).json
    assert page["events"] == []
