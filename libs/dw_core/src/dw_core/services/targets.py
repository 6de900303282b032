"""What serving a call comes to: the input of a run, or a request to an HTTP target (engine §6.18)."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from dw_core.engine.inputs import SignalWorkflow, StartActivity, StartWorkflow, UpdateWorkflow
from dw_core.engine.rows import Details
from dw_core.engine.run_rows import Timeouts
from dw_core.ids import derived_ulid
from dw_core.limits import SECONDS_MAX, WORKFLOW_ID_CHARS_MAX, Limits
from dw_core.services.policies import retry_policy
from dw_core.services.rows import ServiceCall

DEFAULT_QUEUE: Final = "default"
_WORKFLOW_ID = re.compile(r"[a-zA-Z0-9._:-]+", re.ASCII)


class Unservable(Exception):
    """The binding of an operation, or what the caller says about its target, leads nowhere."""


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP target: where to send the request, and the handler that it names."""

    url: str
    handler: str


class QueryOf(msgspec.Struct, frozen=True, kw_only=True):
    """The query of a workflow; ``run_id`` None is its current run."""

    workflow_id: str
    run_id: str | None
    query_name: str


def start_input(call: ServiceCall, limits: Limits) -> StartWorkflow:
    """The start of the run that answers the call; the same for every attempt. Raises :class:`Unservable`."""
    options, binding = call.options, call.handler_binding or {}
    workflow_type = _text(binding, "workflow_type") or call.target_reference
    if workflow_type is None:
        raise Unservable("The operation names no workflow type.")
    workflow_id = _workflow_id(call) or f"service-call-{call.service_call_id}"
    if len(msgspec.json.encode(options.memo or {})) > limits.max_memo_bytes:
        raise Unservable(f"The memo has more than {limits.max_memo_bytes} bytes.")
    run_id = derived_ulid(call.accepted_at, call.service_call_id, "run")
    return StartWorkflow(
        namespace=call.namespace,
        workflow_id=workflow_id,
        command_id=derived_ulid(call.accepted_at, call.service_call_id, "start"),
        context=_context(call),
        new_run_id=run_id,
        workflow_type=workflow_type,
        queue=options.queue or _text(binding, "task_queue") or _text(binding, "queue") or DEFAULT_QUEUE,
        duplicate_policy="use-existing" if options.duplicate_start_policy == "return_existing_active" else "fail",
        details=Details(
            run_id=run_id,
            arguments=call.request_payload,
            business_key=options.business_key,
            memo=options.memo or {},
            search_attributes=_attributes(options.search_attributes or {}, limits),
            execution_timeout_seconds=_seconds(binding, "execution_timeout_seconds"),
            run_timeout_seconds=_seconds(binding, "run_timeout_seconds"),
        ),
        service_call_id=call.service_call_id,
    )


def activity_input(call: ServiceCall) -> StartActivity:
    """The start of the standalone activity that answers the call. Raises :class:`Unservable`."""
    options, binding = call.options, call.handler_binding or {}
    activity_type = _text(binding, "activity_type") or call.target_reference
    if activity_type is None:
        raise Unservable("The operation names no activity type.")
    run_id = derived_ulid(call.accepted_at, call.service_call_id, "run")
    policy = retry_policy(call.policies)
    return StartActivity(
        namespace=call.namespace,
        workflow_id=_workflow_id(call) or f"service-call-{call.service_call_id}",
        command_id=derived_ulid(call.accepted_at, call.service_call_id, "start"),
        context=_context(call),
        new_run_id=run_id,
        activity_type=activity_type,
        queue=options.queue or _text(binding, "task_queue") or _text(binding, "queue") or DEFAULT_QUEUE,
        details=Details(run_id=run_id, arguments=call.request_payload, business_key=options.business_key),
        has_retry_policy=call.policies.get("retry_policy") is not None,
        retry_policy=policy,
        timeouts=Timeouts(
            start_to_close_timeout=_seconds(binding, "start_to_close_timeout_seconds"),
            schedule_to_start_timeout=_seconds(binding, "schedule_to_start_timeout_seconds"),
            schedule_to_close_timeout=_seconds(binding, "schedule_to_close_timeout_seconds"),
            heartbeat_timeout=_seconds(binding, "heartbeat_timeout_seconds"),
        ),
        service_call_id=call.service_call_id,
    )


def update_input(call: ServiceCall) -> UpdateWorkflow:
    """The update that serves the call; repeated, it is the same update. Raises :class:`Unservable`."""
    binding, run_id = call.handler_binding or {}, call.options.target_workflow_run_id
    name, workflow_id = _text(binding, "update_name") or call.target_reference, _workflow_id(call)
    if name is None or workflow_id is None:
        raise Unservable("The operation needs the name of an update, and the call a workflow to send it to.")
    return UpdateWorkflow(
        namespace=call.namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        target_scope="instance" if run_id is None else "run",
        command_id=derived_ulid(call.accepted_at, call.service_call_id, "update"),
        context=_context(call),
        request_id=f"service-call:{call.service_call_id}",
        update_name=name,
        arguments=call.request_payload,
        service_call_id=call.service_call_id,
    )


def signal_input(call: ServiceCall) -> SignalWorkflow:
    """The signal that serves the call; repeated, it is the same signal. Raises :class:`Unservable`."""
    binding, run_id = call.handler_binding or {}, call.options.target_workflow_run_id
    name = _text(binding, "signal_name") or call.target_reference
    workflow_id = _workflow_id(call)
    if name is None or workflow_id is None:
        raise Unservable("The operation needs the name of a signal, and the call a workflow to send it to.")
    return SignalWorkflow(
        namespace=call.namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        target_scope="instance" if run_id is None else "run",
        command_id=derived_ulid(call.accepted_at, call.service_call_id, "signal"),
        context=_context(call),
        request_id=f"service-call:{call.service_call_id}",
        signal_name=name,
        arguments=call.request_payload,
    )


def query_target(call: ServiceCall) -> QueryOf:
    """What is asked of which workflow. Raises :class:`Unservable`."""
    name = _text(call.handler_binding or {}, "query_name") or call.target_reference
    workflow_id = _workflow_id(call)
    if name is None or workflow_id is None:
        raise Unservable("The operation needs the name of a query, and the call a workflow to ask.")
    return QueryOf(workflow_id=workflow_id, run_id=call.options.target_workflow_run_id, query_name=name)


def http_target(call: ServiceCall) -> HttpTarget:
    """Where the request goes. Raises :class:`Unservable`."""
    binding = call.handler_binding or {}
    url = _text(binding, "url") or call.target_reference
    if url is None:
        raise Unservable("The operation names no URL.")
    return HttpTarget(url=url, handler=_text(binding, "handler") or call.operation_name)


def _context(call: ServiceCall) -> dict[str, Any]:
    caller = {
        "namespace": call.caller_namespace,
        "workflow_id": call.caller_workflow_id,
        "run_id": call.caller_run_id,
    }
    return {"source": "service_call", "service_call_id": call.service_call_id, "caller": caller}


def _text(binding: dict[str, Any], name: str) -> str | None:
    value = binding.get(name)
    return value if isinstance(value, str) and value.strip() else None


def _workflow_id(call: ServiceCall) -> str | None:
    named = call.options.target_workflow_instance_id or _text(call.handler_binding or {}, "workflow_id")
    if named is not None and (len(named) > WORKFLOW_ID_CHARS_MAX or not _WORKFLOW_ID.fullmatch(named)):
        raise Unservable("The workflow id has characters that none may have, or too many.")
    return named


def _attributes(attributes: dict[str, Any], limits: Limits) -> dict[str, Any]:
    known = {name: value for name, value in attributes.items() if value is not None}
    too_many = len(known) > limits.max_search_attributes
    if too_many or any(
        isinstance(value, dict | list) or not _fits(name, value, limits) for name, value in known.items()
    ):
        raise Unservable("The search attributes are not scalars, too many or too large.")
    return known


def _fits(name: str, value: Any, limits: Limits) -> bool:
    is_named = 0 < len(name) <= limits.max_search_attribute_key_length
    return is_named and len(msgspec.json.encode(value)) <= limits.max_search_attribute_value_bytes


def _seconds(binding: dict[str, Any], name: str) -> int | None:
    value = binding.get(name)
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= SECONDS_MAX:
        raise Unservable(f"{name} of the binding is not a number of seconds.")
    return value
