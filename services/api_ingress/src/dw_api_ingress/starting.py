"""``POST /workflows`` (control-plane §12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dw_api_ingress.caller import command_context
from dw_core.engine.inputs import StartWorkflow
from dw_core.engine.rows import Details
from dw_core.ids import NewId
from dw_core.limits import Limits
from dw_core.metadata.attributes import value_complaint
from dw_core.payloads.envelope import read_input
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Invalid
from dw_core.protocol.requests_control import WorkflowStart
from dw_core.protocol.trace_context import TraceContext, read_trace_context, trace_context
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.attributes import AttributeReads

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5


class StartHandlers:
    """Turns a start request into an input and its answer into a response."""

    def __init__(self, pump: Pump, attributes: AttributeReads, limits: Limits, new_id: NewId) -> None:
        self._pump = pump
        self._attributes = attributes
        self._limits = limits
        self._new_id = new_id

    async def start(self, call: Call, *, request_id: str | None = None) -> Reply:
        """201 for a new run, 200 for the open run that holds the id; raises ``Problem`` for every refusal.

        A start with a ``request_id`` that was carried out before is answered as at that time, and ``retained``.
        """
        body: WorkflowStart = call.body
        types = await self._attributes.types(call.namespace) if body.search_attributes else {}
        start = msgspec.structs.replace(self._input(call, body, types), request_id=request_id)
        answer = settle(await self._pump.submit(start))
        return Reply(answer, status=201 if answer["outcome"] == "started_new" else 200)

    def _input(self, call: Call, body: WorkflowStart, types: Mapping[str, str]) -> StartWorkflow:
        run_id = self._new_id()
        attributes = check_search_attributes(body.search_attributes, self._limits, types)
        return StartWorkflow(
            namespace=call.namespace,
            workflow_id=body.workflow_id or self._new_id(),
            command_id=self._new_id(),
            context=command_context(call),
            new_run_id=run_id,
            workflow_type=body.workflow_type,
            queue=body.task_queue or DEFAULT_QUEUE,
            duplicate_policy="use-existing" if body.use_existing_open_run else "fail",
            details=Details(
                run_id=run_id,
                arguments=_arguments(body.input),
                business_key=body.business_key,
                memo=check_memo(body.memo, self._limits),
                search_attributes=attributes,
                search_attribute_types={name: types[name] for name in attributes if name in types} or None,
                execution_timeout_seconds=body.execution_timeout_seconds,
                run_timeout_seconds=body.run_timeout_seconds,
            ),
            priority=DEFAULT_PRIORITY if body.priority is None else body.priority,
            fairness_key=body.fairness_key,
            fairness_weight=1 if body.fairness_weight is None else body.fairness_weight,
            compatibility=body.build_id or body.compatibility or None,
            trace_context=origin(call, body.observability_context),
        )


def origin(call: Call, document: Any) -> TraceContext | None:
    """The trace that a start belongs to: that of its body, else that of its headers."""
    names = ("traceparent", "tracestate", "baggage")
    return read_trace_context(document) or trace_context(*(call.headers.get(name) for name in names))


def _arguments(value: Any) -> str:
    try:
        return read_input(value)
    except PayloadError as error:
        raise error.at("input") from error


def check_memo(memo: dict[str, Any] | None, limits: Limits) -> dict[str, Any]:
    """The memo, empty when absent; raises ``Invalid`` when its JSON is too large (control-plane §1.2)."""
    if not memo:
        return {}
    if len(msgspec.json.encode(memo)) > limits.max_memo_bytes:
        raise Invalid({"memo": [f"must have at most {limits.max_memo_bytes} bytes as JSON"]})
    return memo


def check_search_attributes(
    attributes: dict[str, Any] | None, limits: Limits, types: Mapping[str, str]
) -> dict[str, Any]:
    """The attributes, empty when absent; raises ``Invalid`` for each one that breaks a limit (control-plane §1.2).

    A value has the type that its name has in the namespace (``types``), or is a scalar when it has none (§21); a null
    is left out.
    """
    if not attributes:
        return {}
    errors: dict[str, list[str]] = {}
    total = 0
    for name, value in attributes.items():
        size = len(msgspec.json.encode(value))
        total += len(name.encode()) + size
        complaint = _complaint(name, value, size, limits, types.get(name))
        if complaint is not None:
            errors[f"search_attributes.{name[: limits.max_search_attribute_key_length]}"] = [complaint]
    if len(attributes) > limits.max_search_attributes:
        errors["search_attributes"] = [f"must have at most {limits.max_search_attributes} entries"]
    elif limits.search_attribute_size_bytes and total > limits.search_attribute_size_bytes:
        errors["search_attributes"] = [f"must have at most {limits.search_attribute_size_bytes} bytes in total"]
    if errors:
        raise Invalid(errors)
    return {name: value for name, value in attributes.items() if value is not None}


def _complaint(name: str, value: Any, size: int, limits: Limits, type_name: str | None) -> str | None:
    if not name or len(name) > limits.max_search_attribute_key_length:
        return f"the name must have 1 to {limits.max_search_attribute_key_length} characters"
    if type_name is not None and value is not None:
        wrong = value_complaint(value, type_name)
        if wrong is not None:
            return wrong
    elif isinstance(value, dict | list):
        return "must be a string, a number, a boolean or null"
    if size > limits.max_search_attribute_value_bytes:
        return f"must have at most {limits.max_search_attribute_value_bytes} bytes"
    return None
