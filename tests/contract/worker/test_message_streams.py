"""Message streams on both planes: append, consume, describe (control-plane §14.1, worker-plane §16.7)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.payloads.codec import decode_blob, encode_blob
from tests.contract.shell_client import Answer, call
from tests.contract.worker.client import Client, fence, schedule
from tests.harness.worker_plane import ServedPlane

WAIT = {"type": "open_condition_wait", "condition_key": "message-stream:in:0", "condition_definition_fingerprint": "f"}
COMPLETE = {"type": "complete_workflow"}
MESSAGE_SIGNAL = "__durable_workflow_message_stream"


@pytest.fixture
async def reader(client: Client) -> Client:
    """A client whose worker understands message streams, and a workflow ``w``."""
    await client.register(capabilities=["message_streams"])
    await client.start()
    return client


async def append(client: Client, message_id: str = "m1", *arguments: Any, stream: str = "in", **fields: Any) -> Answer:
    body = {"message_id": message_id, "input": list(arguments), **fields}
    return await client.control("POST", f"/workflows/w/message-streams/{stream}/messages", body)


async def test_a_message_is_accepted_once(reader: Client) -> None:
    first = await append(reader, "m1", "hello")
    assert first.status == 202
    shown = ("accepted", "duplicate", "workflow_id", "stream_name", "message_id", "position", "cursor_position")
    assert [first.json[name] for name in shown] == [True, False, "w", "in", "m1", 1, 0]
    assert (first.json["outcome"], first.json["reason"]) == ("accepted", None)
    again = await append(reader, "m1", "hello")
    assert (again.status, again.json["duplicate"], again.json["position"]) == (200, True, 1)
    encoded = await reader.control(
        "POST",
        "/workflows/w/message-streams/in/messages",
        {"message_id": "m1", "input": {"codec": "avro", "blob": encode_blob(["hello"])}},
    )
    assert (encoded.status, encoded.json["duplicate"]) == (200, True)
    other = await append(reader, "m1", "good bye")
    assert (other.status, other.json["reason"]) == (409, "message_identity_conflict")
    assert (other.json["outcome"], other.json["position"]) == ("rejected", 1)
    assert (await append(reader, "m2")).json["position"] == 2


async def test_a_waiting_worker_gets_the_message_and_reports_its_position(reader: Client) -> None:
    run_id = (await reader.control("GET", "/workflows/w")).json["run_id"]
    waits = [{"stream_name": "in", "after_position": 0}]
    assert (await reader.complete(await reader.take(), WAIT, message_stream_waits=waits)).status == 200
    shown = (await reader.control("GET", "/workflows/w/message-streams/in")).json
    since = shown["pending_wait"].pop("since")
    assert since and shown["pending_wait"] == {"run_id": run_id, "after_position": 0}
    blob = encode_blob(["hello", 2])
    await append(reader, "m1", input={"codec": "avro", "blob": blob})
    task = await reader.take()
    assert task["signal_name"] == MESSAGE_SIGNAL
    event = next(e for e in task["history_events"] if e["event_type"] == "SignalReceived")
    assert event["workflow_command_id"] == task["workflow_command_id"]
    (message,) = decode_blob(event["payload"]["arguments"]["blob"])
    assert message == {
        "schema": "durable-workflow.v2.message-stream.message",
        "stream_name": "in",
        "message_id": "m1",
        "position": 1,
        "payload_envelope": {"codec": "avro", "blob": blob},
    }
    cursors = [{"stream_name": "in", "through_position": 1}]
    answer = await reader.complete(task, schedule(), message_stream_cursors=cursors)
    assert answer.status == 200, answer.json
    assert (await reader.events("w", run_id))[-3:] == [
        "ConditionWaitSatisfied",
        "MessageCursorAdvanced",
        "ActivityScheduled",
    ]
    listed = (await reader.control("GET", "/workflows/w/message-streams")).json
    assert (listed["workflow_id"], listed["run_id"]) == ("w", run_id)
    (stream,) = listed["streams"]
    assert stream.pop("last_input_at")
    assert stream == {
        "stream_name": "in",
        "last_position": 1,
        "cursor_position": 1,
        "pending_count": 0,
        "pending_wait": None,
        "duplicate_count": 0,
        "malformed_count": 0,
        "last_input_outcome": "accepted",
        "last_input_message_id": "m1",
    }


async def test_messages_survive_continue_as_new(reader: Client) -> None:
    for number in (1, 2):
        await append(reader, f"m{number}", number)
    task = await reader.take()
    cursors = [{"stream_name": "in", "through_position": 1}]
    answer = await reader.complete(task, {"type": "continue_as_new"}, message_stream_cursors=cursors)
    assert answer.status == 200, answer.json
    following = await reader.take()
    carried = [e["payload"] for e in following["history_events"] if e["event_type"] == "SignalReceived"]
    found = [decode_blob(payload["arguments"]["blob"])[0] for payload in carried]
    assert [found[0]["through_position"], found[1]["position"]] == [1, 2]
    assert (await append(reader, "m3")).json["position"] == 3
    assert (await append(reader, "m2", 2)).json["duplicate"] is True


async def test_a_repeated_completion_moves_a_cursor_once(reader: Client, served: ServedPlane) -> None:
    await append(reader)
    task = await reader.take()
    cursors = [{"stream_name": "in", "through_position": 1}]
    first = await reader.complete(task, schedule(), message_stream_cursors=cursors)
    before = await served.dump()
    second = await reader.complete(task, schedule(), message_stream_cursors=cursors)
    assert first.json == second.json
    assert await served.dump() == before


async def test_a_worker_that_has_not_said_so_reports_no_streams(client: Client) -> None:
    await client.start()
    waits = [{"stream_name": "in", "after_position": 0}]
    task = await client.take()
    answer = await client.complete(task, WAIT, message_stream_waits=waits)
    assert (answer.status, answer.json["reason"]) == (409, "message_streams_unavailable")
    assert answer.json["recorded"] is False
    await client.register(capabilities=["message_streams"])
    body = {**fence(task), "commands": [WAIT], "message_stream_waits": waits}
    old = {"x-durable-workflow-protocol-version": "1.14", "x-namespace": client.served.namespace}
    path = f"/api/worker/workflow-tasks/{task['task_id']}/complete"
    answer = await call(client.served.app, "POST", path, headers=old, body=body)
    assert (answer.status, answer.json["reason"]) == (409, "message_streams_unavailable")
    assert (await client.complete(task, WAIT, message_stream_waits=waits)).status == 200


async def test_a_message_is_refused_while_no_live_worker_could_read_it(client: Client) -> None:
    await client.start()
    refused = await append(client)
    assert (refused.status, refused.json["reason"]) == (409, "message_stream_not_supported")
    assert refused.json["detail"] and refused.json["remediation"]
    await client.start("alone", task_queue="nobody")
    answer = await client.control("POST", "/workflows/alone/message-streams/in/messages", {"message_id": "m1"})
    assert answer.status == 202
    await client.register("w-2", capabilities=["message_streams"])
    assert (await append(client)).status == 202


async def test_a_position_beyond_the_last_refuses_the_completion(reader: Client) -> None:
    cursors = [{"stream_name": "in", "through_position": 1}]
    answer = await reader.complete(await reader.take(), schedule(), message_stream_cursors=cursors)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert list(answer.json["errors"]) == ["message_stream_cursors.0.through_position"]


@pytest.mark.parametrize(
    ("stream", "body", "field"),
    [
        ("in%20", {"message_id": "m1"}, "stream_name"),
        ("x" * 129, {"message_id": "m1"}, "stream_name"),
        ("in", {}, "message_id"),
        ("in", {"message_id": "m 1"}, "message_id"),
        ("in", {"message_id": "m1\n"}, "message_id"),
        ("in", {"message_id": "m" * 192}, "message_id"),
        ("in", {"message_id": "m1", "input": "text"}, "input"),
        ("in", {"message_id": "m1", "input": {"codec": "avro", "blob": "no"}}, "input.blob"),
    ],
)
async def test_a_bad_message_is_refused(reader: Client, stream: str, body: Any, field: str) -> None:
    answer = await reader.control("POST", f"/workflows/w/message-streams/{stream}/messages", body)
    assert (answer.status, list(answer.json["validation_errors"])) == (422, [field]), answer.json


async def test_what_is_not_there_is_named(reader: Client) -> None:
    for method, path in (
        ("POST", "/workflows/x/message-streams/in/messages"),
        ("GET", "/workflows/x/message-streams"),
        ("GET", "/workflows/x/message-streams/in"),
    ):
        answer = await reader.control(method, path, {"message_id": "m1"} if method == "POST" else None)
        assert (answer.status, answer.json["reason"]) == (404, "instance_not_found")
    assert (await reader.control("GET", "/workflows/w/message-streams")).json["streams"] == []
    answer = await reader.control("GET", "/workflows/w/message-streams/in")
    assert (answer.status, answer.json["reason"]) == (404, "stream_not_found")


async def test_a_closed_run_takes_no_new_message(reader: Client) -> None:
    await append(reader)
    await reader.complete(await reader.take(), COMPLETE)
    answer = await append(reader, "m2")
    assert (answer.status, answer.json["reason"]) == (409, "run_not_active")
    assert (await append(reader)).status == 200


async def test_nobody_sends_the_signal_of_messages_by_hand(reader: Client) -> None:
    answer = await reader.control("POST", f"/workflows/w/signal/{MESSAGE_SIGNAL}", {"input": []})
    assert (answer.status, list(answer.json["validation_errors"])) == (422, ["signal_name"])
