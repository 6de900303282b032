"""The rest of the control plane: namespaces, services, bridge, workers, queues, schedules, system and the like."""

from __future__ import annotations

import msgspec

from dw_core.bridge.events import BridgeEvent
from dw_core.protocol.requests_control import (
    ActivityTimeoutPass,
    BuildId,
    NamespaceCreate,
    NamespaceUpdate,
    RepairPass,
    RetentionPass,
    SearchAttributeCreate,
)
from dw_core.protocol.requests_schedules import (
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleNote,
    ScheduleTrigger,
    ScheduleUpdate,
)
from dw_core.protocol.requests_services import (
    CatalogueUpdate,
    EndpointCreate,
    OperationCreate,
    OperationExecute,
    OperationUpdate,
    ServiceCallCancel,
    ServiceCreate,
)
from dw_core.protocol.requests_storage import ExternalStorageSet, PayloadCleanupPass, StorageTest
from dw_core.routes.control import ADMINS, ANYONE_AUTHENTICATED, control
from dw_core.routes.route import Route

BYTES = "application/octet-stream"
_NAMESPACE = "/api/namespaces/{namespace}"
_ENDPOINTS = "/api/service-endpoints"
_ENDPOINT = f"{_ENDPOINTS}/{{endpoint_name}}"
_SERVICE = f"{_ENDPOINT}/services/{{service_name}}"
_OPERATION = f"{_SERVICE}/operations/{{operation_name}}"
_CALL = f"{_OPERATION}/service-calls/{{service_call_id}}"
_QUEUE = "/api/task-queues/{task_queue}"
_SCHEDULE = "/api/schedules/{schedule_id}"

NAMESPACES = (
    control("GET", "/api/namespaces", "namespace_list", "List namespaces", namespace=False),
    control(
        "POST",
        "/api/namespaces",
        "namespace_create",
        "Create a namespace",
        principals=ADMINS,
        namespace=False,
        request=NamespaceCreate,
    ),
    control("GET", _NAMESPACE, "namespace_describe", "Describe a namespace", namespace=False),
    control(
        "PUT",
        _NAMESPACE,
        "namespace_update",
        "Change a namespace",
        principals=ADMINS,
        namespace=False,
        request=NamespaceUpdate,
    ),
    control("DELETE", _NAMESPACE, "namespace_delete", "Delete a namespace", principals=ADMINS, namespace=False),
    control(
        "PUT",
        f"{_NAMESPACE}/external-storage",
        "namespace_external_storage",
        "Set the payload storage policy",
        principals=ADMINS,
        namespace=False,
        request=ExternalStorageSet,
    ),
    control(
        "POST", "/api/storage/test", "storage_test", "Try the payload storage", principals=ADMINS, request=StorageTest
    ),
)


def _catalogue(
    path: str, item: str, kind: str, words: str, create: type[msgspec.Struct], update: type[msgspec.Struct]
) -> tuple[Route, ...]:
    """The five routes of one level of the service catalogue (control-plane §17.1)."""
    return (
        control("GET", path, f"{kind}_list", f"List {words}s", principals=ADMINS),
        control("POST", path, f"{kind}_create", f"Create a {words}", principals=ADMINS, request=create),
        control("GET", item, f"{kind}_describe", f"Describe a {words}", principals=ADMINS),
        control("PUT", item, f"{kind}_update", f"Change a {words}", principals=ADMINS, request=update),
        control("DELETE", item, f"{kind}_delete", f"Delete a {words}", principals=ADMINS),
    )


SERVICES = (
    *_catalogue(_ENDPOINTS, _ENDPOINT, "service_endpoint", "service endpoint", EndpointCreate, CatalogueUpdate),
    *_catalogue(f"{_ENDPOINT}/services", _SERVICE, "service", "service", ServiceCreate, CatalogueUpdate),
    *_catalogue(
        f"{_SERVICE}/operations", _OPERATION, "service_operation", "service operation", OperationCreate, OperationUpdate
    ),
    control("GET", _CALL, "service_call_describe", "Describe a service call", principals=ADMINS),
    control(
        "POST",
        f"{_OPERATION}/execute",
        "service_operation_execute",
        "Execute a service operation",
        bootstrap=True,
        request=OperationExecute,
    ),
    control(
        "POST",
        f"{_CALL}/cancel",
        "service_call_cancel",
        "Cancel a service call",
        bootstrap=True,
        request=ServiceCallCancel,
    ),
    control(
        "POST",
        "/api/bridge-adapters/webhook/{adapter}",
        "bridge_webhook",
        "Deliver a webhook",
        bootstrap=True,
        request=BridgeEvent,
    ),
)

FLEET = (
    control("GET", "/api/workers", "worker_list", "List workers"),
    control("GET", "/api/workers/{worker_id}", "worker_describe", "Describe a worker"),
    control("DELETE", "/api/workers/{worker_id}", "worker_remove", "Remove a worker", principals=ADMINS),
    control("GET", "/api/worker-sessions", "worker_session_list", "List worker sessions"),
    control("GET", "/api/worker-sessions/{session_id}", "worker_session_describe", "Describe a worker session"),
    control("GET", "/api/task-queues", "task_queue_list", "List task queues"),
    control("GET", _QUEUE, "task_queue_describe", "Describe a task queue"),
    control("GET", f"{_QUEUE}/priority-fairness", "task_queue_priority_fairness", "Show priorities and fairness"),
    control("GET", f"{_QUEUE}/build-ids", "build_id_list", "List the builds of a queue"),
    control("POST", f"{_QUEUE}/build-ids/drain", "build_id_drain", "Drain a build", request=BuildId),
    control("POST", f"{_QUEUE}/build-ids/resume", "build_id_resume", "Resume a build", request=BuildId),
    control("POST", f"{_QUEUE}/build-ids/promote", "build_id_promote", "Promote a build", request=BuildId),
)


def _change(method: str, path: str, name: str, summary: str, request: type[msgspec.Struct] | None = None) -> Route:
    return control(method, path, f"schedule_{name}", summary, bootstrap=True, request=request)


SCHEDULES = (
    control("GET", "/api/schedules", "schedule_list", "List schedules"),
    _change("POST", "/api/schedules", "create", "Create a schedule", ScheduleCreate),
    control("GET", _SCHEDULE, "schedule_describe", "Describe a schedule"),
    _change("PUT", _SCHEDULE, "update", "Change a schedule", ScheduleUpdate),
    _change("DELETE", _SCHEDULE, "delete", "Delete a schedule"),
    _change("POST", f"{_SCHEDULE}/pause", "pause", "Pause a schedule", ScheduleNote),
    _change("POST", f"{_SCHEDULE}/resume", "resume", "Resume a schedule", ScheduleNote),
    _change("POST", f"{_SCHEDULE}/trigger", "trigger", "Fire a schedule now", ScheduleTrigger),
    _change("POST", f"{_SCHEDULE}/backfill", "backfill", "Fire a past window", ScheduleBackfill),
    control("GET", f"{_SCHEDULE}/history", "schedule_history", "Read the history of a schedule"),
)

SEARCH_ATTRIBUTES = (
    control("GET", "/api/search-attributes", "search_attribute_list", "List search attributes"),
    control(
        "POST",
        "/api/search-attributes",
        "search_attribute_create",
        "Register a search attribute",
        request=SearchAttributeCreate,
    ),
    control(
        "DELETE", "/api/search-attributes/{attribute_name}", "search_attribute_delete", "Remove a search attribute"
    ),
)


def _system(method: str, suffix: str, name: str, summary: str, request: type[msgspec.Struct] | None = None) -> Route:
    return control(method, f"/api/system/{suffix}", f"system_{name}", summary, principals=ADMINS, request=request)


SYSTEM = (
    _system("GET", "health", "health", "Show the health of the coordination layer"),
    _system("GET", "metrics", "metrics", "Read bounded metrics"),
    _system("POST", "metrics", "metrics_select", "Read selected bounded metrics"),
    _system("GET", "operator-metrics", "operator_metrics", "Read operator metrics"),
    _system("GET", "repair", "repair", "Show repair candidates"),
    _system("POST", "repair/pass", "repair_pass", "Run a repair pass", RepairPass),
    _system("GET", "activity-timeouts", "activity_timeouts", "Show expired activities"),
    _system("POST", "activity-timeouts/pass", "activity_timeout_pass", "End expired activities", ActivityTimeoutPass),
    _system("GET", "retention", "retention", "Show expired runs"),
    _system("POST", "retention/pass", "retention_pass", "Prune expired runs", RetentionPass),
    control("GET", "/api/system/audit", "system_audit", "Read the audit trail", principals=ADMINS, namespace=False),
    _system("GET", "external-payload-cleanup", "external_payload_cleanup", "Show payloads that may be removed"),
    _system(
        "POST",
        "external-payload-cleanup/pass",
        "external_payload_cleanup_pass",
        "Remove unreferenced payloads",
        PayloadCleanupPass,
    ),
)

BYTE_TRANSPORT = (
    control(
        "POST",
        "/api/external-payloads/v1",
        "external_payload_upload",
        "Upload payload bytes",
        principals=ANYONE_AUTHENTICATED,
        version=False,
        body_media_type=BYTES,
        also_hosted_by=("matching",),
    ),
    control(
        "GET",
        "/api/external-payloads/v1/{reference_id}",
        "external_payload_fetch",
        "Fetch payload bytes",
        principals=ANYONE_AUTHENTICATED,
        version=False,
        media_type=BYTES,
        also_hosted_by=("matching",),
    ),
)

OPERATOR_ROUTES: tuple[Route, ...] = (
    *NAMESPACES,
    *SERVICES,
    *FLEET,
    *SCHEDULES,
    *SEARCH_ATTRIBUTES,
    *SYSTEM,
    *BYTE_TRANSPORT,
)
