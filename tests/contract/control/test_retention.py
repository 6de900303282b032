"""``/system/retention`` and its pass."""

from __future__ import annotations

import pytest

from tests.contract.control.conftest import Send
from tests.contract.control.test_terminate import start


async def test_what_has_not_expired_is_not_removed(send: Send) -> None:
    closed = await start(send, "closed")
    await send("POST", "/workflows/closed/terminate")
    still = await start(send, "open")
    status = (await send("GET", "/system/retention")).json
    assert (status["retention_days"], status["expired_run_count"], status["expired_run_ids"]) == (30, 0, [])
    answer = await send("POST", "/system/retention/pass", {"run_ids": [closed, still, "nowhere"], "limit": 10})
    body = answer.json
    assert (answer.status, body["processed"], body["pruned"], body["skipped"]) == (200, 3, 0, 3)
    assert {result["run_id"]: result["reason"] for result in body["results"]} == {
        closed: "run_not_expired",
        still: "run_not_terminal",
        "nowhere": "run_not_found",
    }
    assert (await send("GET", "/workflows/closed")).status == 200


@pytest.mark.parametrize("body", [{"limit": 0}, {"limit": 101}, {"run_ids": [""]}, {"run_ids": ["r"] * 101}])
async def test_a_pass_has_bounds(send: Send, body: dict[str, object]) -> None:
    assert (await send("POST", "/system/retention/pass", body)).status == 422


async def test_a_look_has_bounds(send: Send) -> None:
    assert (await send("GET", "/system/retention?limit=101")).status == 422
