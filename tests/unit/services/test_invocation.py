"""The documents that go to HTTP targets and come back, against the SDK's own reader and handler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from durable_workflow.external_task_input import parse_external_task_input
from durable_workflow.invocable import handle_invocable_http_request

from dw_core.payloads.codec import decode_blob, encode_blob
from dw_core.services.invocation import read_answer, task_input
from dw_core.services.rows import ServiceCall

NOW = datetime.now(UTC)
CALL = ServiceCall(
    service_call_id="call-1",
    namespace="default",
    endpoint_name="shop",
    service_name="desk",
    operation_name="double",
    operation_mode="sync",
    wait_for="completed",
    binding_kind="invocable_http",
    request_payload=encode_blob([21]),
    attempt_count=2,
    accepted_at=NOW,
)


def test_the_sdk_reads_the_request() -> None:
    read = parse_external_task_input(msgspec.json.decode(task_input(CALL, "double", NOW)))
    assert read.is_activity_task
    assert (read.task.handler, read.task.attempt, read.task.idempotency_key) == ("double", 2, "call-1")


async def test_the_answer_of_the_sdks_handler_is_understood() -> None:
    body = task_input(CALL, "double", datetime.now(UTC) + timedelta(seconds=30))
    answer = await handle_invocable_http_request(body, {"double": lambda value: value * 2})
    served = read_answer(CALL, answer.status_code, answer.body.encode())
    assert served.outcome == "completed"
    assert served.response_payload is not None
    assert decode_blob(served.response_payload) == 42


async def test_a_failure_of_the_handler_keeps_its_type_and_whether_to_try_again() -> None:
    def fail(value: int) -> int:
        raise RuntimeError(f"not {value}")

    body = task_input(CALL, "double", datetime.now(UTC) + timedelta(seconds=30))
    answer = await handle_invocable_http_request(body, {"double": fail})
    served = read_answer(CALL, answer.status_code, answer.body.encode())
    assert (served.outcome, served.error_type, served.message) == ("handler_failed", "RuntimeError", "not 21")
    assert served.is_retryable
    unknown = await handle_invocable_http_request(body, {})
    assert not read_answer(CALL, unknown.status_code, unknown.body.encode()).is_retryable


@pytest.mark.parametrize(
    ("status", "is_retryable"), [(500, True), (503, True), (429, True), (400, False), (302, False)]
)
def test_other_statuses_are_failures(status: int, is_retryable: bool) -> None:
    served = read_answer(CALL, status, b"")
    assert (served.error_type, served.is_retryable) == ("InvocableHttpStatus", is_retryable)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"schema":"durable-workflow.v2.external-task-result","version":1}',
        b'{"schema":"durable-workflow.v2.external-task-result","version":1,"task":{"id":"other"},"outcome":{}}',
        b'{"schema":"durable-workflow.v2.external-task-result","version":1,"task":{"id":"call-1"},"outcome":{}}',
    ],
)
def test_what_is_no_result_for_this_call_is_refused(answer: bytes) -> None:
    assert read_answer(CALL, 200, answer).error_type == "MalformedServiceAnswer"


def test_a_payload_that_is_none_is_refused() -> None:
    document: dict[str, Any] = {
        "schema": "durable-workflow.v2.external-task-result",
        "version": 1,
        "task": {"id": "call-1"},
        "outcome": {"status": "succeeded"},
        "result": {"payload": {"codec": "json", "blob": "1"}},
    }
    assert read_answer(CALL, 200, msgspec.json.encode(document)).error_type == "UnsupportedPayload"
