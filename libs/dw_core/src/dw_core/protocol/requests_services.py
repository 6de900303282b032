"""Request bodies of the service catalogue and of service calls (control-plane §17)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dw_core.limits import SERVICE_DESCRIPTION_CHARS_MAX, SERVICE_NAME_CHARS_MAX, SERVICE_WAIT_SECONDS_MAX
from dw_core.protocol.fields import Name255, WorkflowId

ServiceName = Annotated[str, Meta(min_length=1, max_length=SERVICE_NAME_CHARS_MAX, pattern=r"^[a-zA-Z0-9._-]+\Z")]
"""A name in the catalogue, compared and kept in lower case."""

Description = Annotated[str, Meta(max_length=SERVICE_DESCRIPTION_CHARS_MAX)]
Reference = Annotated[str, Meta(min_length=1, max_length=SERVICE_NAME_CHARS_MAX)]
Object = dict[str, Any]
Mode = Literal["sync", "async"]
BindingKind = Literal[
    "start_workflow", "signal_workflow", "update_workflow", "query_workflow", "activity_execution", "invocable_http"
]


class EndpointCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST /api/service-endpoints``."""

    endpoint_name: ServiceName
    description: Description | None = None
    metadata: Object | None = None


class ServiceCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/services``."""

    service_name: ServiceName
    description: Description | None = None
    metadata: Object | None = None


class CatalogueUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``PUT`` of an endpoint or a service: what is not sent stays as it is."""

    description: Description | UnsetType | None = UNSET
    metadata: Object | UnsetType | None = UNSET


class OperationCreate(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/operations``."""

    operation_name: ServiceName
    operation_mode: Mode
    handler_binding_kind: BindingKind
    handler_target_reference: Reference | None = None
    handler_binding: Object | None = None
    deadline_policy: Object | None = None
    idempotency_policy: Object | None = None
    cancellation_policy: Object | None = None
    retry_policy: Object | None = None
    boundary_policy: Object | None = None
    metadata: Object | None = None


class OperationUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """``PUT …/operations/{operation_name}``: what is not sent stays as it is; the name cannot be changed."""

    operation_name: Any = UNSET
    operation_mode: Mode | UnsetType = UNSET
    handler_binding_kind: BindingKind | UnsetType = UNSET
    handler_target_reference: Reference | UnsetType | None = UNSET
    handler_binding: Object | UnsetType | None = UNSET
    deadline_policy: Object | UnsetType | None = UNSET
    idempotency_policy: Object | UnsetType | None = UNSET
    cancellation_policy: Object | UnsetType | None = UNSET
    retry_policy: Object | UnsetType | None = UNSET
    boundary_policy: Object | UnsetType | None = UNSET
    metadata: Object | UnsetType | None = UNSET


class OperationExecute(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/execute`` (control-plane §17.2). ``wait_timeout_seconds`` is how long the request waits."""

    arguments: Any = None
    payload_codec: Literal["avro"] | None = None
    mode_override: Mode | None = None
    wait_for: Literal["accepted", "completed"] | None = None
    wait_timeout_seconds: Annotated[int, Meta(ge=0, le=SERVICE_WAIT_SECONDS_MAX)] | None = None
    idempotency_key: Reference | None = None
    caller_namespace: Name255 | None = None
    caller_workflow_instance_id: Name255 | None = None
    caller_workflow_run_id: Name255 | None = None
    target_workflow_instance_id: WorkflowId | None = None
    target_workflow_run_id: Name255 | None = None
    connection: Name255 | None = None
    queue: Name255 | None = None
    business_key: Annotated[str, Meta(max_length=255)] | None = None
    labels: Object | None = None
    memo: Object | None = None
    search_attributes: Object | None = None
    duplicate_start_policy: Literal["reject_duplicate", "return_existing_active"] | None = None


class ServiceCallCancel(msgspec.Struct, frozen=True, kw_only=True):
    """``POST …/service-calls/{service_call_id}/cancel``."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None
