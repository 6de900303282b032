"""The documents that go to an HTTP target and come back: the external task envelopes (topology §3.3.9)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.payloads.codec import NULL_BLOB
from dw_core.payloads.envelope import envelope, read_envelope
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.nul import without_nul
from dw_core.protocol.timestamps import wire_time
from dw_core.services.rows import ServiceCall

INPUT_MEDIA_TYPE: Final = "application/vnd.durable-workflow.external-task-input+json"
RESULT_MEDIA_TYPE: Final = "application/vnd.durable-workflow.external-task-result+json"
RESULT_SCHEMA: Final = "durable-workflow.v2.external-task-result"
_RETRYABLE_STATUSES: Final = (408, 425, 429)
MESSAGE_CHARS_MAX: Final = 4_096


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt to serve a call has come to. ``outcome`` as in engine §1.14."""

    outcome: str
    response_payload: str | None = None
    error_type: str | None = None
    message: str | None = None
    reason: str | None = None
    is_retryable: bool = False


def failed(error_type: str, message: str, *, reason: str | None = None, is_retryable: bool = False) -> Served:
    """An attempt that failed in or on its way to the handler."""
    return Served(
        outcome="handler_failed",
        error_type=without_nul(error_type),
        message=without_nul(message[:MESSAGE_CHARS_MAX]),
        reason=reason,
        is_retryable=is_retryable,
    )


def task_input(call: ServiceCall, handler: str, expires_at: datetime) -> bytes:
    """The request body: an activity task whose idempotency key is the id of the call, the same for every attempt."""
    call_id = call.service_call_id
    return msgspec.json.encode(
        {
            "schema": "durable-workflow.v2.external-task-input",
            "version": 1,
            "task": {
                "id": call_id,
                "kind": "activity_task",
                "attempt": call.attempt_count,
                "activity_attempt_id": f"{call_id}:{call.attempt_count}",
                "task_queue": f"service:{call.endpoint_name}/{call.service_name}",
                "handler": handler,
                "connection": call.options.connection,
                "idempotency_key": call_id,
            },
            "workflow": {"id": call.caller_workflow_id or call_id, "run_id": call.caller_run_id or call_id},
            "lease": {
                "owner": "service-dispatcher",
                "expires_at": wire_time(expires_at),
                "heartbeat_endpoint": "/api/worker/activity-tasks/none/heartbeat",
            },
            "payloads": {"arguments": envelope(call.request_payload)},
            "deadlines": {
                "schedule_to_start": None,
                "start_to_close": wire_time(expires_at),
                "schedule_to_close": wire_time(call.deadline_at),
                "heartbeat": None,
            },
            "headers": {},
        }
    )


def read_answer(call: ServiceCall, status: int, body: bytes) -> Served:
    """What an answer means. Only a result envelope for this very call counts as one."""
    if status != 200:
        is_retryable = status >= 500 or status in _RETRYABLE_STATUSES
        return failed("InvocableHttpStatus", f"The target answered with status {status}.", is_retryable=is_retryable)
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _malformed("The answer is not JSON.")
    if not isinstance(document, dict) or document.get("schema") != RESULT_SCHEMA or document.get("version") != 1:
        return _malformed("The answer is not a result envelope of version 1.")
    task, outcome = document.get("task"), document.get("outcome")
    if not isinstance(task, dict) or task.get("id") != call.service_call_id or not isinstance(outcome, dict):
        return _malformed("The answer is not about this call.")
    if outcome.get("status") == "failed":
        return _failure(document.get("failure"), outcome.get("retryable") is True)
    if outcome.get("status") != "succeeded":
        return _malformed("The outcome is neither succeeded nor failed.")
    result = document.get("result")
    payload = result.get("payload") if isinstance(result, dict) else None
    try:
        return Served(outcome="completed", response_payload=read_envelope(payload, takes_references=False) or NULL_BLOB)
    except PayloadError as wrong:
        return failed("UnsupportedPayload", wrong.message)


def _failure(failure: Any, is_retryable: bool) -> Served:
    said = failure if isinstance(failure, dict) else {}
    error_type, message = said.get("type"), said.get("message")
    text = message if isinstance(message, str) and message else "The handler has failed."
    named = error_type if isinstance(error_type, str) and error_type else "ServiceHandlerFailed"
    return failed(named[:255], text, is_retryable=is_retryable)


def _malformed(message: str) -> Served:
    return failed("MalformedServiceAnswer", message)
