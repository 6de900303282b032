"""Every machine reason a response may carry, with the HTTP status it implies: the one table of errors."""

from __future__ import annotations

REASONS: dict[str, int] = {
    # transport
    "malformed_json": 400,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_implemented": 501,
    # identity and gates
    "unauthorized": 401,
    "forbidden": 403,
    "missing_protocol_version": 400,
    "unsupported_protocol_version": 400,
    "missing_control_plane_version": 400,
    "unsupported_control_plane_version": 400,
    "topology_role_unavailable": 503,
    "workflow_v2_blocked": 503,
    "namespace_not_found": 404,
    "validation_failed": 422,
    # failures of ours
    "server_error": 500,
    "control_plane_internal_error": 500,
    "backend_unavailable": 503,
    # workers and polls
    "worker_not_registered": 412,
    "worker_not_found": 404,
    "task_queue_mismatch": 409,
    "build_id_mismatch": 409,
    "worker_draining": 409,
    "workflow_definition_changed": 409,
    "long_poll_capacity_exhausted": 429,
    # workflow tasks
    "task_not_found": 404,
    "run_closed": 409,
    "run_timed_out": 409,
    "task_not_leased": 409,
    "task_not_claimable": 409,
    "task_not_due": 409,
    "lease_expired": 409,
    "lease_owner_mismatch": 409,
    "workflow_task_attempt_mismatch": 409,
    "invalid_page_token": 400,
    "message_streams_unavailable": 409,
    "structural_limit_exceeded": 422,
    # activity tasks
    "attempt_not_found": 404,
    "task_mismatch": 409,
    "stale_attempt": 409,
    "run_cancelled": 409,
    "run_terminated": 409,
    "activity_not_running": 409,
    # payloads
    "unsupported_payload_codec": 422,
    "invalid_payload_framing": 422,
    "unsupported_payload_schema": 422,
    "external_payload_unsupported": 422,
    # workflow commands and reads
    "instance_not_found": 404,
    "run_not_found": 404,
    "instance_already_started": 409,
    "workflow_id_reserved_in_namespace": 409,
    "historical_run_command_rejected": 409,
    "run_not_active": 409,
    "request_id_conflict": 409,
}
