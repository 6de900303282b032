"""``POST …/terminate``."""

from __future__ import annotations

import psycopg
import pytest

from tests.contract.control.conftest import Send


async def start(send: Send, workflow_id: str = "w") -> str:
    answer = await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": "t"})
    run_id = answer.json["run_id"]
    assert isinstance(run_id, str)
    return run_id


async def test_terminate_closes_the_current_run(send: Send) -> None:
    run_id = await start(send)
    answer = await send("POST", "/workflows/w/terminate", {"reason": "enough", "request_id": "r-1"})
    body = answer.json
    assert (answer.status, body["outcome"], body["command_status"]) == (200, "terminated", "accepted")
    assert (body["workflow_id"], body["run_id"], body["requested_run_id"], body["resolved_run_id"]) == (
        "w",
        run_id,
        None,
        run_id,
    )
    assert (body["target_scope"], body["reason"], body["request_id"]) == ("instance", None, "r-1")
    assert body["control_plane"]["outcome"] == "terminated"
    assert (await send("GET", "/workflows/w")).json["closed_reason"] == "terminated"


async def test_the_current_run_may_be_named(send: Send) -> None:
    run_id = await start(send)
    answer = await send("POST", f"/workflows/w/runs/{run_id}/terminate")
    body = answer.json
    assert (answer.status, body["target_scope"], body["requested_run_id"]) == (200, "run", run_id)


async def test_a_closed_run_is_refused(send: Send) -> None:
    run_id = await start(send)
    await send("POST", "/workflows/w/terminate")
    for path in ("/workflows/w/terminate", f"/workflows/w/runs/{run_id}/terminate"):
        answer = await send("POST", path)
        assert (answer.status, answer.json["reason"], answer.json["outcome"]) == (
            409,
            "run_not_active",
            "rejected_not_active",
        )
        assert answer.json["command_id"]


async def test_what_does_not_exist_is_not_found(send: Send) -> None:
    run_id = await start(send)
    await start(send, "other")
    for path, reason in (
        ("/workflows/nobody/terminate", "instance_not_found"),
        (f"/workflows/nobody/runs/{run_id}/terminate", "instance_not_found"),
        ("/workflows/w/runs/nothing/terminate", "run_not_found"),
        (f"/workflows/other/runs/{run_id}/terminate", "run_not_found"),
    ):
        answer = await send("POST", path)
        assert (path, answer.status, answer.json["reason"]) == (path, 404, reason)
    assert (await send("GET", "/workflows/w")).json["status"] == "pending"


async def test_a_run_that_is_no_longer_current_is_refused(send: Send, database_url: str) -> None:
    old = await start(send)
    new = await start(send, "stand-in")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE workflow_runs SET workflow_id = 'w', run_number = 2 WHERE run_id = %s", (new,))
        connection.execute("UPDATE workflow_instances SET current_run_id = %s WHERE current_run_id = %s", (new, old))
    answer = await send("POST", f"/workflows/w/runs/{old}/terminate")
    body = answer.json
    assert (answer.status, body["reason"], body["target_scope"]) == (409, "historical_run_command_rejected", "run")
    assert (body["workflow_id"], body["run_id"]) == ("w", old)


@pytest.mark.parametrize(("body", "field"), [({"reason": "x" * 1001}, "reason"), ({"request_id": ""}, "request_id")])
async def test_a_wrong_field_is_named(send: Send, body: dict[str, str], field: str) -> None:
    await start(send)
    answer = await send("POST", "/workflows/w/terminate", body)
    assert (answer.status, list(answer.json["errors"])) == (422, [field])
