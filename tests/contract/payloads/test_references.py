"""References in requests: checked before anything happens, kept as they stand, resolved where the server reads."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dw_core.payloads.codec import decode_blob, encode_blob
from dw_core.payloads.envelope import envelope
from tests.contract.payloads.conftest import BLOB, PayloadClient
from tests.contract.worker.client import QUEUE, fence, schedule

RESULT = encode_blob({"answer": "y" * 2000})
START = {"workflow_type": "order", "task_queue": QUEUE}
STORAGE_SCHEMA = "durable-workflow.v2.external-payload-reference.v1"


def direct(path: Path, data: bytes, **replaced: Any) -> dict[str, Any]:
    """The envelope of a reference to a file that a client has written by itself."""
    reference = {
        "schema": STORAGE_SCHEMA,
        "uri": path.as_uri(),
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data),
        "codec": "avro",
    }
    return {"codec": "avro", "external_storage": reference | replaced}


async def put_directly(client: PayloadClient, blob: str = BLOB) -> Path:
    """A file of the namespace's folder with the text of a blob."""
    path = client.root / "kept" / "mine" / "object"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(blob)
    return path


async def uses(client: PayloadClient, envelope: dict[str, Any]) -> list[str]:
    """The runs that use a payload."""
    reference_id = envelope["external_payload"]["reference_id"]
    found = await client.served.execute(
        "SELECT run_id FROM external_payload_uses WHERE reference_id = %s ORDER BY run_id", reference_id
    )
    return [run_id for (run_id,) in found]


async def test_a_run_carries_its_references_through_every_place(client: PayloadClient) -> None:
    arguments, result = await client.reference(), await client.reference(RESULT)
    run_id = await client.start(input=arguments)
    task = await client.take()
    assert task["arguments"] == arguments
    started = next(event for event in task["history_events"] if event["event_type"] == "WorkflowStarted")
    assert started["payload"]["input"] == arguments
    scheduled = {"type": "schedule_activity", "activity_type": "charge", "arguments": arguments}
    side = {"type": "record_side_effect", "result": result}
    assert (await client.complete(task, side, scheduled)).status == 200
    activity = await client.take("activity")
    assert activity["arguments"] == arguments
    assert (await client.report(activity, "complete", result=result)).status == 200
    task = await client.take()
    by_type = {event["event_type"]: event["payload"] for event in task["history_events"]}
    assert by_type["SideEffectRecorded"]["result"] == result
    assert by_type["ActivityCompleted"]["result"] == result
    assert (await client.complete(task, {"type": "complete_workflow", "result": result})).status == 200
    history = (await client.control("GET", f"/workflows/w/runs/{run_id}/history")).json["events"]
    assert history[-1]["payload"] == {"output": result, "payload_codec": "avro"}
    described = (await client.control("GET", "/workflows/w")).json
    assert (described["input"], described["output"]) == (decode_blob(BLOB), decode_blob(RESULT))
    assert (described["input_envelope"], described["output_envelope"]) == (arguments, result)
    assert await uses(client, arguments) == await uses(client, result) == [run_id]


async def test_commands_from_outside_keep_references_as_they_stand(client: PayloadClient) -> None:
    arguments = await client.reference()
    run_id = await client.start()
    sent = {"input": arguments, "request_id": "signal-1"}
    first = await client.control("POST", "/workflows/w/signal/news", sent)
    again = await client.control(
        "POST", "/workflows/w/signal/news", {"input": envelope(BLOB), "request_id": "signal-1"}
    )
    assert (first.status, again.status) == (202, 202)
    assert again.json["command_id"] == first.json["command_id"], "the same payload inline is the same request"
    update = await client.control("POST", "/workflows/w/update/change", {"input": arguments})
    assert update.status == 202
    history = (await client.control("GET", f"/workflows/w/runs/{run_id}/history")).json["events"]
    payloads = {event["event_type"]: event["payload"] for event in history}
    assert payloads["SignalReceived"]["arguments"] == payloads["UpdateAccepted"]["arguments"] == arguments
    assert await uses(client, arguments) == [run_id]
    activity = {"activity_id": "a", "activity_type": "charge", "task_queue": QUEUE, "input": arguments}
    assert (await client.control("POST", "/activities", activity)).status == 201
    assert (await client.take("activity"))["arguments"] == arguments
    assert len(await uses(client, arguments)) == 2


async def test_children_and_followers_use_what_they_are_given(client: PayloadClient) -> None:
    arguments = await client.reference()
    await client.start()
    child = {"type": "start_child_workflow", "workflow_type": "part", "workflow_id": "child", "arguments": arguments}
    parent = await client.complete(await client.take(), child)
    assert parent.status == 200, parent.json
    task = await client.take()
    assert (task["workflow_type"], task["arguments"]) == ("part", arguments)
    follow = {"type": "continue_as_new", "arguments": arguments}
    assert (await client.complete(task, follow)).status == 200
    follower = await client.take()
    assert (follower["arguments"], await uses(client, arguments)) == (
        arguments,
        sorted([task["run_id"], follower["run_id"]]),
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"reference_id": "ep_01ARZ3NDEKTSV4RRFFQ69G5FAV"}, (404, "external_payload_not_found")),
        ({"sha256": "0" * 64}, (422, "external_payload_integrity_mismatch")),
        ({"size_bytes": 7}, (422, "external_payload_integrity_mismatch")),
        ({"size_bytes": True}, (422, "external_payload_unsupported")),
        ({"reference_id": "ep_1"}, (422, "external_payload_unsupported")),
        ({"schema": STORAGE_SCHEMA}, (422, "external_payload_unsupported")),
        ({"more": 1}, (422, "external_payload_unsupported")),
    ],
)
async def test_a_reference_that_is_not_ours_starts_nothing(
    client: PayloadClient, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    known = await client.reference()
    wrong = known | {"external_payload": known["external_payload"] | change}
    answer = await client.control("POST", "/workflows", START | {"workflow_id": "w", "input": wrong})
    assert (answer.status, answer.json["reason"]) == expected
    assert (await client.control("GET", "/workflows/w")).status == 404
    escaped = json.dumps(START | {"workflow_id": "w", "input": wrong}).replace(
        "external_payload", "external\\u005fpayload"
    )
    answer = await client.control("POST", "/workflows", escaped.encode())
    assert (answer.status, answer.json["reason"]) == expected, "an escaped name is the same name"


async def test_a_reference_of_another_namespace_is_not_found(client: PayloadClient) -> None:
    known = await client.reference()
    other = f"{client.served.namespace}-other"
    assert (await client.control("POST", "/namespaces", {"name": other})).status == 201
    client.served.namespace = other
    answer = await client.control("POST", "/workflows", START | {"input": known})
    assert (answer.status, answer.json["reason"]) == (404, "external_payload_not_found")


async def test_a_worker_is_told_that_its_report_was_not_recorded(client: PayloadClient) -> None:
    known = await client.reference()
    await client.start()
    task = await client.take()
    wrong = {"codec": "avro", "external_payload": known["external_payload"] | {"sha256": "0" * 64}}
    answer = await client.complete(task, {"type": "complete_workflow", "result": wrong})
    said = {name: answer.json[name] for name in ("reason", "task_id", "outcome", "recorded")}
    assert (answer.status, said) == (
        422,
        {
            "reason": "external_payload_integrity_mismatch",
            "task_id": task["task_id"],
            "outcome": "rejected",
            "recorded": False,
        },
    )
    assert (await client.complete(task, {"type": "complete_workflow", "result": known})).status == 200


async def test_what_the_server_reads_itself_takes_the_place_of_its_reference(client: PayloadClient) -> None:
    await client.register(capabilities=["memo_upserts", "message_streams"])
    patch, message = await client.reference(encode_blob({"note": "n" * 1500})), await client.reference()
    run_id = await client.start()
    completed = await client.complete(await client.take(), {"type": "upsert_memo", "entries": patch}, schedule())
    assert completed.status == 200, completed.json
    assert (await client.control("GET", "/workflows/w")).json["memo"] == {"note": "n" * 1500}
    body = {"message_id": "m-1", "input": message}
    assert (await client.control("POST", "/workflows/w/message-streams/news/messages", body)).status == 202
    activity = await client.take("activity")
    assert (await client.report(activity, "heartbeat", details={"done": message})).status == 200
    await client.served.expire_lease(activity["task_id"])
    await client.served.sweep()
    assert (await client.take("activity"))["last_heartbeat_details"] == {"details": {"done": envelope(BLOB)}}
    history = (await client.control("GET", f"/workflows/w/runs/{run_id}/history")).json["events"]
    assert "reference_id" not in json.dumps(history)


async def test_payloads_that_clients_have_written_themselves_are_taken_inside_the_folder(client: PayloadClient) -> None:
    path = await put_directly(client)
    known = direct(path, BLOB.encode())
    await client.start(input=known)
    task = await client.take()
    assert task["arguments"] == known
    assert (await client.complete(task, {"type": "complete_workflow", "result": known})).status == 200
    described = (await client.control("GET", "/workflows/w")).json
    assert (described["input"], described["output_envelope"]) == (decode_blob(BLOB), known)
    path.write_text(BLOB[:-4] + "AAAA")
    altered = await client.control("GET", "/workflows/w")
    assert (altered.status, altered.json["reason"]) == (422, "external_payload_integrity_failed")


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "s3://bucket/kept/a", "file:///{root}/kept/../../x", "http://h/a"]
)
async def test_an_address_outside_the_policy_is_refused(client: PayloadClient, uri: str) -> None:
    named = uri.replace("/{root}", str(client.root))
    wrong = direct(client.root, BLOB.encode(), uri=named)
    answer = await client.control("POST", "/workflows", START | {"input": wrong})
    assert (answer.status, answer.json["reason"]) == (422, "external_payload_unsupported")


async def test_an_object_that_is_not_what_its_reference_says_is_refused(client: PayloadClient) -> None:
    path = await put_directly(client)
    for wrong, expected in (
        (direct(path, BLOB.encode(), sha256="0" * 64), (422, "external_payload_integrity_failed")),
        (direct(path, BLOB.encode(), size_bytes=7), (422, "external_payload_integrity_failed")),
        (direct(path.with_name("missing"), BLOB.encode()), (404, "external_payload_not_found")),
        (direct(path, BLOB.encode(), schema="other"), (422, "external_payload_unsupported")),
    ):
        answer = await client.control("POST", "/workflows", START | {"input": wrong})
        assert (answer.status, answer.json["reason"]) == expected


async def test_without_a_policy_no_address_is_taken(bare_client: PayloadClient) -> None:
    wrong = direct(bare_client.root / "kept" / "a", b"x")
    answer = await bare_client.control("POST", "/workflows", START | {"input": wrong})
    assert (answer.status, answer.json["reason"]) == (422, "external_payload_unsupported")


async def test_a_payload_that_is_gone_is_a_loud_error_in_describe_and_export(client: PayloadClient) -> None:
    known = await client.reference()
    run_id = await client.start(input=known)
    exported = await client.control("GET", f"/workflows/w/runs/{run_id}/history/export")
    assert exported.json["payloads"]["arguments"]["data"] == BLOB
    assert exported.json["history_events"][1]["payload"]["input"] == envelope(BLOB)
    kept = client.object_of(known["external_payload"]["sha256"])
    reads = ("/workflows/w", f"/workflows/w/runs/{run_id}", f"/workflows/w/runs/{run_id}/history/export")
    for text, expected in (
        (BLOB[:-4] + "AAAA", (422, "external_payload_integrity_failed")),
        (None, (404, "external_payload_not_found")),
    ):
        kept.unlink()
        if text is not None:
            kept.write_text(text)
        else:
            kept.parent.mkdir(exist_ok=True)
        for path in reads:
            answer = await client.control("GET", path)
            assert (answer.status, answer.json["reason"]) == expected, path
    kept.parent.rmdir()
    kept.parent.write_text("a file where the folder should be")
    answer = await client.control("GET", "/workflows/w")
    assert (answer.status, answer.json["reason"]) in (
        (503, "external_payload_storage_unavailable"),
        (404, "external_payload_not_found"),
    )


@pytest.mark.parametrize("is_external", [True, False])
async def test_a_page_with_references_is_not_compressed(client: PayloadClient, is_external: bool) -> None:
    await client.start(input=await client.reference() if is_external else envelope(BLOB))
    effects = [{"type": "record_side_effect", "result": envelope(encode_blob(number))} for number in range(60)]
    assert (await client.complete(await client.take(), *effects, schedule())).status == 200
    await client.report(await client.take("activity"), "complete", result=None)
    task = await client.take(accept_history_encoding="gzip")
    assert ("history_events_compressed" not in task, bool(task["history_events"])) == (is_external, is_external)


async def test_a_service_call_takes_the_bytes_and_gives_the_caller_the_reference(client: PayloadClient) -> None:
    shop = "/service-endpoints/shop/services/desk/operations"
    greet = {"operation_name": "greet", "operation_mode": "async", "handler_binding_kind": "start_workflow"}
    await client.control("POST", "/service-endpoints", {"endpoint_name": "shop"})
    await client.control("POST", "/service-endpoints/shop/services", {"service_name": "desk"})
    made = await client.control("POST", shop, greet | {"handler_target_reference": "greeting"})
    assert made.status == 201, made.json
    arguments, result = await client.reference(), await client.reference(RESULT)
    options = {"arguments": arguments, "queue": QUEUE}
    called = await client.control("POST", f"{shop}/greet/execute", options)
    assert called.status == 200, called.json
    task = await client.take()
    assert (task["workflow_type"], task["arguments"]) == ("greeting", envelope(BLOB))
    assert (await client.complete(task, {"type": "complete_workflow", "result": result})).status == 200
    call = await client.control("GET", f"{shop}/greet/service-calls/{called.json['service_call_id']}")
    assert (call.json["status"], call.json["result"], call.json["result_envelope"]) == ("completed", None, result)
    assert await uses(client, result) == [task["run_id"]]


async def test_a_schedule_keeps_the_bytes_of_its_arguments(client: PayloadClient) -> None:
    known = await client.reference()
    body = {
        "schedule_id": "s",
        "spec": {"intervals": [{"every": "P1D"}]},
        "action": {"workflow_type": "order", "task_queue": QUEUE, "input": known},
    }
    made = await client.control("POST", "/schedules", body)
    assert made.status == 201, made.json
    assert (await client.control("GET", "/schedules/s")).json["action"]["input"] == envelope(BLOB)
    assert await uses(client, known) == []


async def test_a_body_that_only_a_careless_decoder_takes_is_refused(client: PayloadClient) -> None:
    await client.start()
    task = await client.take()
    body = json.dumps(fence(task) | {"note": "\u00e9", "unknown": "@"}).encode().replace(b"@", b"\xff")
    answer = await client.post(f"/workflow-tasks/{task['task_id']}/heartbeat", body)
    assert (answer.status, answer.json["reason"]) == (400, "malformed_json")
