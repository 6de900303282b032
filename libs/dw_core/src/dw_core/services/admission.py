"""Admitting a call: what the catalogue says about it, decided once and kept with the call (engine §6.18)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from dw_core.services.policies import POLICIES, boundary_refusal, deadline_at, needs_key
from dw_core.services.rows import CallOptions, Operation, OperationKey, ServiceCall


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call as its caller asks for it. ``caller_namespace`` and ``role`` say who asks; ``payload`` is a blob.

    ``has_deadline`` says whether the wait of the caller bounds the call itself, as it does for a workflow.
    """

    key: OperationKey
    payload: str
    caller_namespace: str | None
    role: str
    caller_workflow_id: str | None = None
    caller_run_id: str | None = None
    idempotency_key: str | None = None
    mode_override: str | None = None
    wait_for: str | None = None
    wait_timeout_seconds: int | None = None
    has_deadline: bool = False
    options: CallOptions = CallOptions()
    metadata: dict[str, Any] | None = None


def operation_key(namespace: str, endpoint: str, service: str, operation: str) -> OperationKey:
    """The key under which the catalogue keeps an operation: names are compared in lower case (control-plane §17.1)."""
    return OperationKey(*(name.strip().lower() for name in (namespace, endpoint, service, operation)))


def earlier_call(calls: Iterable[ServiceCall], request: CallRequest) -> ServiceCall | None:
    """The call that the same caller namespace has made of the operation under the same key (engine §8.1)."""
    if request.idempotency_key is None:
        return None
    wanted = (request.key, request.caller_namespace, request.idempotency_key)
    return next((call for call in calls if (call.key, call.caller_namespace, call.idempotency_key) == wanted), None)


def waits_for(mode: str, wait_for: str | None) -> str:
    """``accepted`` or ``completed``: what the caller wants to be told (engine §2.11)."""
    return wait_for or ("accepted" if mode == "async" else "completed")


def admit(request: CallRequest, operation: Operation, service_call_id: str, now: datetime) -> ServiceCall:
    """The call as it is to be recorded: accepted and due at once, or closed by the policy that refuses it."""
    policies = {name: getattr(operation, name) for name in POLICIES if getattr(operation, name) is not None}
    mode = request.mode_override or operation.operation_mode
    wait = request.wait_timeout_seconds if request.has_deadline else None
    call = ServiceCall(
        service_call_id=service_call_id,
        namespace=operation.namespace,
        endpoint_name=operation.endpoint_name,
        service_name=operation.service_name,
        operation_name=operation.operation_name,
        operation_mode=mode,
        wait_for=waits_for(mode, request.wait_for),
        binding_kind=operation.handler_binding_kind,
        target_reference=operation.handler_target_reference,
        handler_binding=operation.handler_binding,
        policies=policies,
        options=request.options,
        metadata=request.metadata,
        caller_namespace=request.caller_namespace,
        caller_workflow_id=request.caller_workflow_id,
        caller_run_id=request.caller_run_id,
        idempotency_key=request.idempotency_key,
        request_payload=request.payload,
        due_at=now,
        deadline_at=deadline_at(policies, wait, now),
        accepted_at=now,
    )
    refused = _refusal(request, operation, policies)
    if refused is None:
        return call
    reason, message = refused
    return msgspec.structs.replace(
        call,
        status="failed",
        outcome="rejected_forbidden",
        outcome_reason="policy_rejection",
        reason=reason,
        message=message,
        error_type="ServiceCallRejected",
        due_at=None,
        closed_at=now,
    )


def _refusal(request: CallRequest, operation: Operation, policies: dict[str, Any]) -> tuple[str, str] | None:
    barred = boundary_refusal(operation.boundary_policy, request.caller_namespace, operation.namespace, request.role)
    if barred is not None:
        return barred, "The boundary policy of the operation does not let this caller in."
    if needs_key(policies) and request.idempotency_key is None:
        return "idempotency_key_required", "The operation takes calls with an idempotency key."
    return None
