"""Statuses of answers that are no refusals, where they are not 200 alone."""

from __future__ import annotations

SUCCESSES: dict[str, tuple[int, ...]] = {
    "activity_start": (201,),
    "bridge_webhook": (200, 202, 401, 422),
    "external_payload_upload": (201,),
    "health": (200, 503),
    "livez": (200, 503),
    "message_stream_append": (200, 202),
    "namespace_create": (201,),
    "ready": (200, 503),
    "schedule_create": (201,),
    "search_attribute_create": (201,),
    "service_create": (201,),
    "service_endpoint_create": (201,),
    "service_operation_create": (201,),
    "service_operation_execute": (200, 409),
    "system_activity_timeout_pass": (200, 207),
    "system_health": (200, 503),
    "system_repair_pass": (200, 207),
    "worker_register": (201,),
    "worker_session_create": (200, 201),
    "workflow_request_cancellation": (200, 202),
    "workflow_run_request_cancellation": (200, 202),
    "workflow_run_signal": (202,),
    "workflow_run_update": (200, 202),
    "workflow_signal": (202,),
    "workflow_start": (200, 201),
    "workflow_update": (200, 202),
}
