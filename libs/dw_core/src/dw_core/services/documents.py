"""What the control plane shows of the catalogue and of calls (control-plane §17)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.payloads.envelope import envelope, inline_json
from dw_core.protocol.timestamps import wire_time
from dw_core.services.policies import POLICIES
from dw_core.services.rows import RESOLVED_KINDS, Endpoint, Operation, ServiceCall


def catalogue_document(row: Endpoint | Operation) -> dict[str, Any]:
    """An endpoint, a service or an operation."""
    times = {"created_at": wire_time(row.created_at), "updated_at": wire_time(row.updated_at)}
    return msgspec.structs.asdict(row) | times


def call_document(call: ServiceCall) -> dict[str, Any]:
    """The snapshot of a call. Error types are left out of a call that has not failed: clients go by their presence."""
    closed = wire_time(call.closed_at)
    members: dict[str, Any] = {
        "accepted": call.is_accepted,
        "idempotent_replay": False,
        "service_call_id": call.service_call_id,
        "namespace": call.namespace,
        "endpoint_name": call.endpoint_name,
        "service_name": call.service_name,
        "operation_name": call.operation_name,
        "status": call.status,
        "outcome": call.outcome,
        "outcome_category": _category(call),
        "outcome_reason": call.outcome_reason,
        "reason": call.reason,
        "message": call.message,
        "operation_mode": call.operation_mode,
        "wait_for": call.wait_for,
        "resolved_binding_kind": RESOLVED_KINDS[call.binding_kind],
        "resolved_target_reference": call.target_reference,
        "caller_namespace": call.caller_namespace,
        "caller_workflow_instance_id": call.caller_workflow_id,
        "caller_workflow_run_id": call.caller_run_id,
        "linked_workflow_instance_id": call.linked_workflow_id,
        "linked_workflow_run_id": call.linked_run_id,
        "linked_workflow_update_id": call.linked_update_id,
        "payload_codec": "avro",
        "input_payload_reference": None,
        "output_payload_reference": None,
        "failure_payload_reference": None,
        **{name: call.policies.get(name) for name in POLICIES},
        "service_call_attempts": [
            msgspec.structs.asdict(tried) | {"closed_at": wire_time(tried.closed_at)} for tried in call.attempts
        ],
        "retry_attempt_count": max(len(call.attempts) - 1, 0),
        "result": None if call.response_payload is None else inline_json(call.response_payload),
        "result_envelope": None if call.response_payload is None else envelope(call.response_payload),
        "failure_message": call.message if call.status == "failed" else None,
        "handler": call.handler_binding,
        "metadata": call.metadata,
        "accepted_at": wire_time(call.accepted_at) if call.is_accepted else None,
        "started_at": wire_time(call.started_at),
        "completed_at": closed if call.status == "completed" else None,
        "failed_at": closed if call.status == "failed" else None,
        "cancelled_at": closed if call.status == "cancelled" else None,
    }
    return members if call.error_type is None else members | {"service_error_type": call.error_type}


def _category(call: ServiceCall) -> str:
    if not call.is_accepted:
        return "rejected"
    if call.is_open:
        return "pending"
    return "success" if call.status == "completed" else "failure"
