"""``POST …/signal/{signal_name}``."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dw_core.payloads.codec import encode_blob
from tests.contract.control.conftest import Send

MISFITS: list[Any] = [
    ("text", "input"),
    ({"codec": "json", "blob": "x"}, "input.codec"),
    ({"codec": "avro", "blob": "no"}, "input.blob"),
    ({"codec": "avro", "blob": encode_blob(5)}, "input.blob"),
]


async def start(send: Send, workflow_id: str = "w") -> str:
    answer = await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": "t"})
    run_id = answer.json["run_id"]
    assert isinstance(run_id, str)
    return run_id


async def signals(send: Send, run_id: str) -> list[dict[str, Any]]:
    """The payloads of the recorded signals."""
    history = (await send("GET", f"/workflows/w/runs/{run_id}/history")).json
    return [event["payload"] for event in history["events"] if event["event_type"] == "SignalReceived"]


async def test_a_signal_is_recorded_with_its_arguments(send: Send) -> None:
    run_id = await start(send)
    answer = await send("POST", "/workflows/w/signal/approve%20now", {"input": ["alice", 3]})
    body = answer.json
    assert answer.status == 202
    assert body.pop("control_plane")["operation_name"] == "approve now"
    command_id = body.pop("command_id")
    assert body == {
        "workflow_id": "w",
        "run_id": run_id,
        "requested_run_id": None,
        "resolved_run_id": run_id,
        "target_scope": "instance",
        "workflow_type": "t",
        "command_sequence": 2,
        "command_source": "control_plane",
        "command_status": "accepted",
        "request_id": None,
        "retained": False,
        "intent_verified": False,
        "validation_errors": {},
        "signal_name": "approve now",
        "outcome": "signal_received",
        "reason": None,
        "rejection_reason": None,
        "message": None,
    }
    assert await signals(send, run_id) == [
        {
            "signal_name": "approve now",
            "signal_id": f"{command_id}.s",
            "workflow_command_id": command_id,
            "workflow_instance_id": "w",
            "workflow_run_id": run_id,
            "arguments": {"codec": "avro", "blob": encode_blob(["alice", 3])},
            "payload_codec": "avro",
        }
    ]


async def test_a_signal_sent_again_is_recorded_once(send: Send) -> None:
    run_id = await start(send)
    body = {"input": [1], "request_id": "r-1"}
    first = await send("POST", f"/workflows/w/runs/{run_id}/signal/go", body)
    again = await send("POST", f"/workflows/w/runs/{run_id}/signal/go", body)
    assert (first.status, again.status) == (202, 202)
    assert again.json["command_id"] == first.json["command_id"]
    assert (again.json["retained"], again.json["intent_verified"]) == (True, True)
    assert len(await signals(send, run_id)) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/workflows/w/signal/stop", {"input": [1], "request_id": "r-1"}),
        ("/workflows/w/signal/go", {"input": [2], "request_id": "r-1"}),
        ("/workflows/w/terminate", {"request_id": "r-1"}),
    ],
)
async def test_a_request_id_of_another_intent_is_refused(send: Send, path: str, body: dict[str, Any]) -> None:
    run_id = await start(send)
    await send("POST", "/workflows/w/signal/go", {"input": [1], "request_id": "r-1"})
    answer = await send("POST", path, body)
    assert (answer.status, answer.json["reason"]) == (409, "request_id_conflict")
    assert answer.json["retained_command_type"] == "signal"
    assert len(await signals(send, run_id)) == 1


async def test_a_closed_run_takes_no_signal(send: Send) -> None:
    await start(send)
    await send("POST", "/workflows/w/terminate")
    answer = await send("POST", "/workflows/w/signal/go")
    assert (answer.status, answer.json["reason"], answer.json["outcome"]) == (
        409,
        "run_not_active",
        "rejected_not_active",
    )
    assert answer.json["signal_name"] == "go"


async def test_who_does_not_exist_takes_no_signal(send: Send) -> None:
    run_id = await start(send)
    for path, reason in (
        ("/workflows/nobody/signal/go", "instance_not_found"),
        (f"/workflows/nobody/runs/{run_id}/signal/go", "instance_not_found"),
        ("/workflows/w/runs/nothing/signal/go", "run_not_found"),
    ):
        answer = await send("POST", path)
        assert (path, answer.status, answer.json["reason"]) == (path, 404, reason)


@pytest.mark.parametrize("name", ["a%01b", "x" * 257, "%C3%A4" * 129])
async def test_a_bad_name_is_refused(send: Send, name: str) -> None:
    await start(send)
    answer = await send("POST", f"/workflows/w/signal/{name}")
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert list(answer.json["errors"]) == ["signal_name"]


@pytest.mark.parametrize(("value", "field"), MISFITS)
async def test_what_is_no_argument_list_is_refused(send: Send, value: Any, field: str) -> None:
    run_id = await start(send)
    answer = await send("POST", "/workflows/w/signal/go", {"input": value})
    assert (answer.status, list(answer.json["errors"])) == (422, [field])
    assert await signals(send, run_id) == []


async def test_a_run_shows_its_condition_and_its_signals_to_operators(send: Send, database_url: str) -> None:
    run_id = await start(send)
    sent = (await send("POST", "/workflows/w/signal/go", {"input": [7]})).json["command_id"]
    wait = '{"sequence": 4, "key": "paid", "opened_at": "2026-01-01T00:00:00Z", "notified_at": 0}'
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE workflow_runs SET open_wait = %s WHERE run_id = %s", (wait, run_id))
        connection.execute("DELETE FROM workflow_tasks WHERE run_id = %s", (run_id,))
        found = connection.execute(
            "SELECT signal_id, signal_name, status FROM workflow_signals WHERE run_id = %s", (run_id,)
        ).fetchall()
        waits = connection.execute(
            "SELECT wait_kind, sequence, target FROM workflow_run_waits WHERE run_id = %s", (run_id,)
        ).fetchall()
    assert found == [(f"{sent}.s", "go", "received")]
    assert waits == [("condition", 4, "paid")]
    body = (await send("GET", "/workflows/w")).json
    assert (body["wait_kind"], body["wait_reason"]) == ("condition", "Condition paid is not met yet.")
