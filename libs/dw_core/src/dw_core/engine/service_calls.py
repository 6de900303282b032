"""Calls of service operations as a workflow makes them, and runs that answer calls (engine §2.11, §6.18)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.commands.parsed import StartServiceOperation
from dw_core.engine.rows import Run
from dw_core.engine.run_rows import Delivery
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Rejection
from dw_core.engine.update_rows import Update
from dw_core.engine.writer import Resume, RunWriter
from dw_core.ids import service_call_id
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope
from dw_core.protocol.nul import without_nul
from dw_core.services.admission import CallRequest, admit, earlier_call, operation_key, waits_for
from dw_core.services.rows import (
    RESOLVED_KINDS,
    CallEnd,
    CallLink,
    CallMove,
    OperationKey,
    ServiceCall,
    ServiceWait,
    ServiceWaiter,
)

WORKER_ROLE = "worker"
_EVENTS = {"completed": "ServiceCallCompleted", "failed": "ServiceCallFailed", "cancelled": "ServiceCallCancelled"}


def called_operation(run: Run, command: StartServiceOperation) -> OperationKey:
    """The operation that a command names, in the run's namespace unless it names another."""
    namespace = command.namespace or run.namespace
    return operation_key(namespace, command.endpoint_name, command.service_name, command.operation_name)


def call_key(run: Run, command: StartServiceOperation, sequence: int) -> str:
    """The idempotency key of a call; the workflow sequence stands in for one that was not sent (engine §6.18)."""
    return command.idempotency_key or f"workflow-service-operation:{run.workflow_id}:{run.run_id}:{sequence}"


def start_service_operation(writer: RunWriter, sequence: int, command: StartServiceOperation, source: str) -> None:
    """Admit the call, or repeat what has become of an earlier one; a call that cannot be resolved has failed."""
    run = writer.run
    key = call_key(run, command, sequence)
    request = CallRequest(
        key=called_operation(run, command),
        payload=command.request_payload,
        caller_namespace=run.namespace,
        role=WORKER_ROLE,
        caller_workflow_id=run.workflow_id,
        caller_run_id=run.run_id,
        idempotency_key=key,
        mode_override=command.mode_override,
        wait_for=command.wait_for,
        wait_timeout_seconds=command.wait_timeout_seconds,
        has_deadline=not command.is_answered_at_once,
        options=command.options,
        metadata=command.metadata,
    )
    operation = writer.snapshot.operations.get(request.key)
    named = service_call_id(run.run_id, sequence)
    known = [*writer.snapshot.service_calls.values(), *writer.transition.service_changes.calls]
    call = earlier_call(known, request)
    if call is None and operation is not None:
        call = admit(request, operation, named, writer.now)
        writer.transition.service_changes.calls.append(call)
    mode = command.mode_override or (call.operation_mode if call is not None else "sync")
    wait = ServiceWait(
        sequence=sequence,
        service_call_id=named if call is None else call.service_call_id,
        endpoint_name=command.endpoint_name,
        service_name=command.service_name,
        operation_name=command.operation_name,
        operation_mode=mode,
        wait_for=waits_for(mode, command.wait_for),
        target_namespace=command.namespace,
        idempotency_key=key,
        opened_at=writer.now,
    )
    if call is None:
        _fail_unresolved(writer, wait, source)
    elif call.is_open:
        _record_started(writer, wait, call, source)
    else:
        _record_end(writer, wait, call, source)


def _fail_unresolved(writer: RunWriter, wait: ServiceWait, source: str) -> None:
    message = f"There is no operation {wait.endpoint_name}/{wait.service_name}/{wait.operation_name}."
    outcome = {
        "status": "failed",
        "outcome": "rejected_not_found",
        "outcome_reason": "resolution_failure",
        "reason": "operation_not_found",
        "accepted": False,
        "message": message,
        "service_error_type": "ServiceOperationNotFound",
    }
    surface = _surface(wait) | outcome
    payload = _members(writer.run, wait, surface) | _failure_members("ServiceOperationNotFound", message)
    writer.append("ServiceCallFailed", payload, workflow_task_id=source, wake=_resume(wait, "ServiceCallFailed"))


def _record_started(writer: RunWriter, wait: ServiceWait, call: ServiceCall, source: str) -> None:
    """The call is under way. Who only waits for that is woken at once, anybody else is told of its end."""
    answered = wait.wait_for == "accepted" or wait.operation_mode == "async"
    payload = _members(writer.run, wait, _surface(wait) | _outcome(call)) | _resolved(call)
    payload |= {"request_payload": envelope(call.request_payload)}
    wake = _resume(wait, "ServiceCallStarted") if answered else None
    writer.append("ServiceCallStarted", payload, workflow_task_id=source, wake=wake)
    if not answered:
        writer.run.service_wait = wait
        waiter = ServiceWaiter(service_call_id=call.service_call_id, run_id=writer.run.run_id, sequence=wait.sequence)
        writer.transition.service_changes.waiters.append(waiter)


def _record_end(writer: RunWriter, wait: ServiceWait, call: ServiceCall, source: str | None = None) -> None:
    event_type = _EVENTS[call.status]
    wake = _resume(wait, event_type)
    payload = _members(writer.run, wait, _surface(wait) | _outcome(call)) | _resolved(call)
    if call.status == "completed":
        payload["payload_codec"] = CODEC
        if call.response_payload is not None:
            payload["response_payload"] = envelope(call.response_payload)
    else:
        payload |= _failure_members(call.error_type or "ServiceCallFailed", call.message or "The service call failed.")
    if source is None:
        writer.record(event_type, payload, wake=wake)
    else:
        writer.append(event_type, payload, workflow_task_id=source, wake=wake)


def end_service_wait(writer: RunWriter, delivery: Delivery) -> None:
    """A call that the run waits for has ended: once, and only while the run still waits for this one."""
    wait = writer.run.service_wait
    call = msgspec.convert(delivery.body, ServiceCall)
    if writer.run.is_terminal or wait is None or wait.sequence != delivery.sequence:
        return
    if wait.service_call_id != call.service_call_id or call.is_open:
        return
    writer.run.service_wait = None
    _record_end(writer, wait, call)


def refuse_second_wait(run: Run, is_waiting_again: bool) -> Rejection | None:
    """A run waits for one service call at a time: they are authored one by one (engine §6.18)."""
    if not is_waiting_again or run.service_wait is None:
        return None
    errors = {"commands": ["starts a service operation while the run waits for another one"]}
    return Rejection("validation_failed", "The request is invalid.", {"errors": errors, "validation_errors": errors})


# -- runs that answer calls ----------------------------------------------------------------------------------------


def refuse_start(snapshot: Snapshot, call_id: str | None) -> Rejection | None:
    """A start for a call that has ended meanwhile is not carried out."""
    if call_id is None:
        return None
    call = snapshot.service_calls.get(call_id)
    if call is None or not call.is_open:
        return Rejection("service_call_terminal", "The service call has ended.", {"service_call_id": call_id})
    return None


def answers_already(snapshot: Snapshot, call_id: str | None) -> bool:
    """Whether a start was carried out before its dispatcher was lost: a run answers the call."""
    call = snapshot.service_calls.get(call_id or "")
    return call is not None and call.linked_run_id is not None


def answer_call(writer: RunWriter, call_id: str | None) -> None:
    """The run answers a service call from now on; its end is the end of the call."""
    if call_id is None:
        return
    run = writer.run
    run.has_service_calls = True
    writer.transition.service_changes.links.append(
        CallLink(service_call_id=call_id, linked_workflow_id=run.workflow_id, linked_run_id=run.run_id)
    )


def link_update(writer: RunWriter, call_id: str | None, update_id: str) -> None:
    """An update of the run answers a service call from now on."""
    if call_id is None:
        return
    run = writer.run
    writer.transition.service_changes.links.append(
        CallLink(service_call_id=call_id, linked_workflow_id=run.workflow_id, linked_update_id=update_id)
    )


def end_update_call(writer: RunWriter, update: Update) -> None:
    """An update has been settled: the service call that it answers ends as it did."""
    if update.service_call_id is None:
        return
    is_completed = update.status == "completed"
    writer.transition.service_changes.ends.append(
        CallEnd(
            service_call_id=update.service_call_id,
            status="completed" if is_completed else "failed",
            outcome="completed" if is_completed else "handler_failed",
            outcome_reason=None if is_completed else "handler_failure",
            message=_text(update.failure_message),
            error_type=None if is_completed else "ServiceUpdateFailed",
            response_payload=update.result,
        )
    )


def hand_over_calls(writer: RunWriter, follower: Run) -> None:
    """Another run follows: it answers the calls of this one."""
    if writer.run.has_service_calls:
        follower.has_service_calls = True
        writer.transition.service_changes.moves.append(
            CallMove(from_run_id=writer.run.run_id, to_run_id=follower.run_id)
        )


_ENDS = {
    "completed": ("completed", "completed", None),
    "failed": ("failed", "handler_failed", "handler_failure"),
    "timed_out": ("failed", "timed_out", "timeout"),
    "cancelled": ("cancelled", "cancelled", "cancellation"),
    "terminated": ("failed", "handler_failed", "handler_failure"),
}


def end_calls(writer: RunWriter, closed_reason: str, outcome: dict[str, Any] | None) -> None:
    """The run has closed for good: the calls that it answers end as it did."""
    if not writer.run.has_service_calls or outcome is None:
        return
    status, named, reason = _ENDS[closed_reason]
    is_completed = status == "completed"
    writer.transition.service_changes.ends.append(
        CallEnd(
            linked_run_id=writer.run.run_id,
            status=status,
            outcome=named,
            outcome_reason=reason,
            message=None if is_completed else _text(outcome.get("message")),
            error_type=None if is_completed else _text(outcome.get("exception_type") or outcome.get("exception_class")),
            response_payload=writer.run.output if is_completed else None,
        )
    )


def _text(said: str | None) -> str | None:
    """What a workflow says of its failure, as a call can keep it; its history keeps every character."""
    return None if said is None else without_nul(said)


# -- members of events ---------------------------------------------------------------------------------------------


def _resume(wait: ServiceWait, event_type: str) -> Resume:
    return {
        "resume_source_kind": "service_call",
        "resume_source_id": wait.service_call_id,
        "workflow_sequence": wait.sequence,
        "workflow_event_type": event_type,
    }


def _surface(wait: ServiceWait) -> dict[str, Any]:
    """The ``service_call`` of an event, as far as the command says it."""
    members = {
        "id": wait.service_call_id,
        "service_call_id": wait.service_call_id,
        "endpoint_name": wait.endpoint_name,
        "service_name": wait.service_name,
        "operation_name": wait.operation_name,
        "target_namespace": wait.target_namespace,
        "idempotency_key": wait.idempotency_key,
    }
    return {key: value for key, value in members.items() if value is not None}


def _outcome(call: ServiceCall) -> dict[str, Any]:
    """What has become of a call; error types are there only when it did not succeed, because readers go by them."""
    members = {
        "status": call.status,
        "outcome": call.outcome,
        "outcome_reason": call.outcome_reason,
        "reason": call.reason,
        "accepted": call.is_accepted,
        "message": call.message,
        "service_error_type": call.error_type,
        "attempt_count": call.attempt_count or None,
    }
    return {key: value for key, value in members.items() if value is not None}


def _members(run: Run, wait: ServiceWait, surface: dict[str, Any]) -> dict[str, Any]:
    return {
        "sequence": wait.sequence,
        "service_call_id": wait.service_call_id,
        "endpoint_name": wait.endpoint_name,
        "service_name": wait.service_name,
        "operation_name": wait.operation_name,
        "operation_mode": wait.operation_mode,
        "wait_for": wait.wait_for,
        "caller_workflow_instance_id": run.workflow_id,
        "caller_workflow_run_id": run.run_id,
        "status": surface["status"],
        "outcome": surface["outcome"],
        "service_call": surface,
    }


def _resolved(call: ServiceCall) -> dict[str, Any]:
    metadata = call.metadata or {}
    members = {
        "resolved_binding_kind": RESOLVED_KINDS[call.binding_kind],
        "resolved_target_reference": call.target_reference,
        "linked_workflow_instance_id": call.linked_workflow_id,
        "linked_workflow_run_id": call.linked_run_id,
        "linked_workflow_update_id": call.linked_update_id,
        "caller_sdk_language": metadata.get("caller_sdk_language"),
        "service_sdk_language": metadata.get("service_sdk_language"),
    }
    return {key: value for key, value in members.items() if value is not None}


def _failure_members(error_type: str, message: str) -> dict[str, Any]:
    return {
        "exception_type": error_type,
        "exception_class": error_type,
        "message": message,
        "exception": {"type": error_type, "message": message},
    }
