"""Reading ``start_service_operation`` (worker-plane §9.3)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.commands.fields import Fields
from dw_core.engine.commands.parsed import StartServiceOperation
from dw_core.limits import SERVICE_NAME_CHARS_MAX, SERVICE_WAIT_SECONDS_MAX
from dw_core.payloads.codec import EMPTY_LIST_BLOB
from dw_core.services.rows import CallOptions

MODES = ("sync", "async")
WAITS = ("accepted", "completed")
START_POLICIES = ("reject_duplicate", "return_existing_active")


def start_service_operation(fields: Fields) -> StartServiceOperation | None:
    """The command, or None with the errors noted. Names may be anything: what is not catalogued is not found."""
    endpoint = fields.name("endpoint_name", required=True)
    service = fields.name("service_name", required=True)
    operation = fields.name("operation_name", required=True)
    payload = fields.payload("request_payload")
    key = fields.name("idempotency_key")
    if key is not None and len(key) > SERVICE_NAME_CHARS_MAX:
        fields.error("idempotency_key", f"must have at most {SERVICE_NAME_CHARS_MAX} characters")
    fields.name("caller_namespace")
    command: dict[str, Any] = {
        "namespace": fields.name("namespace"),
        "idempotency_key": key,
        "mode_override": fields.choice("mode_override", MODES),
        "wait_for": fields.choice("wait_for", WAITS),
        "wait_timeout_seconds": fields.integer("wait_timeout_seconds", minimum=0, maximum=SERVICE_WAIT_SECONDS_MAX),
        "metadata": fields.mapping("metadata"),
        "options": _options(fields),
    }
    if endpoint is None or service is None or operation is None:
        return None
    return StartServiceOperation(
        endpoint_name=endpoint,
        service_name=service,
        operation_name=operation,
        request_payload=payload or EMPTY_LIST_BLOB,
        **command,
    )


def _options(fields: Fields) -> CallOptions:
    return CallOptions(
        target_workflow_instance_id=fields.name("target_workflow_instance_id"),
        target_workflow_run_id=fields.name("target_workflow_run_id"),
        connection=fields.name("connection"),
        queue=fields.name("queue"),
        business_key=fields.name("business_key"),
        labels=fields.mapping("labels"),
        memo=fields.mapping("memo"),
        search_attributes=fields.mapping("search_attributes"),
        duplicate_start_policy=fields.choice("duplicate_start_policy", START_POLICIES),
    )
