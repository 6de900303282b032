"""Every response of a plane carries its version header and envelope, whatever the status."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dw_core.protocol.problems import Problem
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.http.call import Call, Reply
from dw_runtime.http.shell import ShellSettings
from tests.contract.shell_client import CAPABILITIES, OPERATOR, WORKER, Answer, build_shell, call

WORKER_PATH = "/api/worker/heartbeat"
CONTROL_PATH = "/api/workflows"


async def _fails(request: Call) -> Reply:
    raise RuntimeError("secret detail")


async def _loses_the_database(request: Call) -> Reply:
    raise psycopg.OperationalError("connection to 10.0.0.1 failed")


def _assert_worker(answer: Answer) -> None:
    assert answer.headers["x-durable-workflow-protocol-version"] == "1.20"
    assert "x-durable-workflow-control-plane-version" not in answer.headers
    assert answer.headers["content-type"] == "application/json"
    assert (answer.json["protocol_version"], answer.json["server_capabilities"]) == ("1.20", CAPABILITIES)
    assert "control_plane" not in answer.json


def _assert_control(answer: Answer) -> None:
    assert answer.headers["x-durable-workflow-control-plane-version"] == "2"
    assert "x-durable-workflow-protocol-version" not in answer.headers
    assert "protocol_version" not in answer.json


ERRORS: list[tuple[int, str, str, dict[str, Any]]] = [
    (401, "unauthorized", "", {"headers": {"authorization": "Bearer x"}}),
    (403, "forbidden", "", {"headers": {"authorization": "swap"}}),
    (404, "not_found", "/nowhere/at/all", {}),
    (405, "method_not_allowed", "", {"method": "PATCH"}),
    (413, "payload_too_large", "", {"body": b'"' + b"x" * 2000 + b'"'}),
    (415, "unsupported_media_type", "", {"headers": {"content-type": "text/plain"}}),
    (400, "malformed_json", "", {"body": b"{]"}),
    (422, "validation_failed", "", {"body": {"worker_id": 7, "workflow_id": 7}}),
]


@pytest.mark.parametrize(("status", "reason", "suffix", "request_"), ERRORS, ids=[error[1] for error in ERRORS])
@pytest.mark.parametrize("plane", ["worker", "control"])
async def test_every_refusal_has_reason_message_header_and_envelope(
    plane: str, status: int, reason: str, suffix: str, request_: dict[str, Any]
) -> None:
    right, swapped = (WORKER, "Bearer o-secret") if plane == "worker" else (OPERATOR, "Bearer w-secret")
    headers = {**right, **request_.get("headers", {})}
    if headers["authorization"] == "swap":
        headers["authorization"] = swapped
    path = ("/api/worker" if plane == "worker" else "/api") + suffix if suffix else ""
    answer = await call(
        build_shell(settings=ShellSettings(max_body_bytes=1024)),
        request_.get("method", "POST"),
        path or (WORKER_PATH if plane == "worker" else CONTROL_PATH),
        headers=headers,
        body=request_.get("body", {"worker_id": "w"}),
    )
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.json["message"]
    if plane == "worker":
        _assert_worker(answer)
        assert answer.json["error"] == answer.json["message"]
    else:
        _assert_control(answer)
        assert ("control_plane" in answer.json) is (status not in (401, 403, 404, 405))


async def test_the_listing_of_workers_belongs_to_the_control_plane() -> None:
    _assert_control(await call(build_shell(), "PATCH", "/api/workers", headers=OPERATOR))
    _assert_worker(await call(build_shell(), "GET", "/api/worker/", headers=WORKER))


async def test_an_unhandled_error_is_an_internal_error_without_details() -> None:
    shell = build_shell({"worker_heartbeat": _fails, "workflow_list": _fails})
    answer = await call(shell, "POST", WORKER_PATH, headers=WORKER, body={"worker_id": "w"})
    _assert_worker(answer)
    assert (answer.status, answer.json["reason"]) == (500, "server_error")
    answer = await call(shell, "GET", CONTROL_PATH, headers=OPERATOR)
    _assert_control(answer)
    assert (answer.status, answer.json["reason"]) == (500, "control_plane_internal_error")
    assert len(answer.json["error_id"]) == 26
    assert answer.json["control_plane"]["error_id"] == answer.json["error_id"]
    assert b"secret" not in answer.raw and b"Traceback" not in answer.raw


async def test_a_lost_database_tells_a_poll_to_repeat_itself() -> None:
    shell = build_shell({"workflow_task_poll": _loses_the_database, "workflow_list": _loses_the_database})
    body = {"worker_id": "w-1", "task_queue": "orders", "poll_request_id": "p-1"}
    answer = await call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body=body)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    expected = {
        "reason": "backend_unavailable",
        "poll_status": "backend_unavailable",
        "task": None,
        "operation": "poll_workflow_task",
        "outcome": "unknown",
        "worker_id": "w-1",
        "task_queue": "orders",
        "poll_request_id": "p-1",
        "retry_same_poll_request_id": True,
        "retryable": True,
        "retry_after_seconds": 1,
    }
    assert {name: answer.json[name] for name in expected} == expected
    _assert_worker(answer)
    answer = await call(shell, "GET", CONTROL_PATH, headers=OPERATOR)
    assert (answer.status, answer.json["reason"], b"10.0.0.1" in answer.raw) == (503, "backend_unavailable", False)


async def test_a_lost_database_tells_a_worker_to_repeat_its_request() -> None:
    shell = build_shell(dict.fromkeys(("worker_register", "workflow_task_heartbeat"), _loses_the_database))
    body: dict[str, Any] = {"worker_id": "w-1", "task_queue": "orders", "runtime": "python"}
    answer = await call(shell, "POST", "/api/worker/register", headers=WORKER, body=body)
    told = {"reason": "backend_unavailable", "outcome": "unknown", "retryable": True, "retry_after_seconds": 1}
    expected = told | {"operation": "register_worker", "worker_id": "w-1", "task_queue": "orders"}
    assert {name: answer.json[name] for name in expected} == expected
    fence = {"lease_owner": "w-1", "workflow_task_attempt": 3}
    answer = await call(shell, "POST", "/api/worker/workflow-tasks/t-1/heartbeat", headers=WORKER, body=fence)
    expected = told | fence | {"operation": "heartbeat_workflow_task", "worker_id": "w-1", "task_id": "t-1"}
    assert {name: answer.json[name] for name in expected} == expected
    assert answer.json["task_queue"] is None


async def test_missing_secrets_are_our_fault_on_both_planes() -> None:
    shell = build_shell(auth=AuthSettings())
    for path, headers in ((WORKER_PATH, WORKER), (CONTROL_PATH, OPERATOR)):
        answer = await call(shell, "POST", path, headers=headers, body={})
        assert (answer.status, answer.json["reason"]) == (500, "server_error")


async def test_start_carries_projected_copies_and_its_contract() -> None:
    async def start(request: Call) -> Reply:
        return Reply(
            {
                "workflow_id": "o-1",
                "run_id": "r-1",
                "status": "pending",
                "payload_codec": "avro",
                "outcome": "started_new",
                "reason": None,
            },
            201,
        )

    answer = await call(build_shell({"workflow_start": start}), "POST", CONTROL_PATH, headers=OPERATOR, body=START)
    assert answer.status == 201
    nested = answer.json["control_plane"]
    contract = nested.pop("contract")
    assert nested == {
        "schema": "durable-workflow.v2.control-plane-response",
        "version": 1,
        "operation": "start",
        "workflow_id": "o-1",
        "run_id": "r-1",
        "status": "pending",
        "outcome": "started_new",
        "reason": None,
    }
    assert contract["schema"] == "durable-workflow.v2.control-plane-response.contract"
    assert contract["success_fields"] == ["workflow_id", "outcome"]
    assert contract["legacy_fields"]["wait_policy"] == "wait_for"


async def test_named_operations_repeat_the_name_and_errors_repeat_the_reason() -> None:
    async def signal(request: Call) -> Reply:
        raise Problem("run_not_active", "The run is closed.", run_status="completed", is_terminal=True)

    shell = build_shell({"workflow_run_signal": signal})
    answer = await call(shell, "POST", "/api/workflows/w/runs/r/signal/approve", headers=OPERATOR, body=b"[]")
    nested = answer.json["control_plane"]
    expected = {
        "operation": "signal",
        "operation_name": "approve",
        "operation_name_field": "signal_name",
        "workflow_id": "w",
        "run_id": "r",
        "reason": "run_not_active",
        "message": "The run is closed.",
        "run_status": "completed",
        "is_terminal": True,
    }
    assert {name: nested[name] for name in expected} == expected


async def test_encoded_bodies_are_spliced_unchanged() -> None:
    async def history(request: Call) -> Reply:
        return Reply(b'{"events":[{"payload":{"n":1.0}}],"next_page_token":null}')

    async def empty(request: Call) -> Reply:
        return Reply(b"{}")

    shell = build_shell({"workflow_history": history, "worker_heartbeat": empty})
    answer = await call(shell, "GET", "/api/workflows/w/runs/r/history", headers=OPERATOR)
    assert answer.raw.startswith(b'{"events":[{"payload":{"n":1.0}}],"next_page_token":null,"control_plane":{')
    assert answer.json["control_plane"]["next_page_token"] is None
    answer = await call(shell, "POST", WORKER_PATH, headers=WORKER, body={"worker_id": "w"})
    assert answer.json == {"protocol_version": "1.20", "server_capabilities": CAPABILITIES}


async def test_control_json_is_zipped_when_allowed_and_small_worker_json_never() -> None:
    async def big(request: Call) -> Reply:
        return Reply({"filler": "x" * int(request.query.get("bytes", "5000"))})

    shell = build_shell({"workflow_describe": big, "worker_heartbeat": big})
    zipped = {"accept-encoding": "gzip, deflate"}
    answer = await call(shell, "GET", "/api/workflows/w", headers={**OPERATOR, **zipped})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json["filler"] == "x" * 5000
    answer = await call(shell, "GET", "/api/workflows/w?bytes=300000", headers={**OPERATOR, **zipped})
    assert answer.json["filler"] == "x" * 300_000
    refused = {"accept-encoding": "gzip;q=0"}
    for headers, path in (({**OPERATOR, **refused}, "/api/workflows/w"), (OPERATOR, "/api/workflows/w")):
        assert "content-encoding" not in (await call(shell, "GET", path, headers=headers)).headers
    answer = await call(shell, "POST", WORKER_PATH, headers={**WORKER, **zipped}, body={"worker_id": "w"})
    assert "content-encoding" not in answer.headers
    big_page = f"{WORKER_PATH}?bytes=70000"
    answer = await call(shell, "POST", big_page, headers={**WORKER, **zipped}, body={"worker_id": "w"})
    assert answer.headers["content-encoding"] == "gzip"


async def test_request_ids_are_echoed_only_when_harmless() -> None:
    shell = build_shell()
    given = await call(shell, "GET", CONTROL_PATH, headers={**OPERATOR, "x-request-id": "abc-1.2:3"})
    assert given.headers["x-request-id"] == "abc-1.2:3"
    for hostile in ("a\r\nset-cookie: x", "x" * 129, ""):
        answer = await call(shell, "GET", CONTROL_PATH, headers={**OPERATOR, "x-request-id": hostile})
        assert answer.headers["x-request-id"] not in (hostile, "")


START = {"workflow_type": "t", "workflow_id": "o-1"}
