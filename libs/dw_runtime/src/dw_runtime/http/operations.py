"""The nested ``control_plane`` contract block of each operation (control-plane §6.2, §6.3)."""

from __future__ import annotations

from typing import Any, Final

RESPONSE_SCHEMA: Final = "durable-workflow.v2.control-plane-response"
RESPONSE_VERSION: Final = 1

_LEGACY_FIELDS: Final = {
    "query": "query_name",
    "signal": "signal_name",
    "update": "update_name",
    "wait_policy": "wait_for",
}

NAMED_OPERATIONS: Final = {"signal": "signal_name", "query": "query_name", "update": "update_name"}
"""Operations that name something, with the body field and path parameter that carry the name."""

_NAMED_REQUIRED: Final = ("workflow_id", "operation_name", "operation_name_field")

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "list": (),
    "start": (),
    "history": ("workflow_id", "run_id"),
    "signal": _NAMED_REQUIRED,
    "query": _NAMED_REQUIRED,
    "update": _NAMED_REQUIRED,
}
"""Operations that are absent here require ``workflow_id`` alone."""

_SUCCESS: Final[dict[str, tuple[str, ...]]] = {
    "start": ("workflow_id", "outcome"),
    "describe_run": ("run_id",),
    "debug_workflow": ("run_id", "diagnostic_status"),
    "history": ("next_page_token",),
    "signal": ("outcome",),
    "query": ("result", "result_envelope"),
    "update": ("outcome",),
    "cancel": ("outcome",),
    "terminate": ("outcome",),
    "repair": ("outcome",),
    "archive": ("outcome",),
}

_REJECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "start": (
        "instance_already_started",
        "workflow_id_reserved_in_namespace",
        "task_queue_draining",
        "compatibility_blocked",
    ),
    "signal": (
        "instance_not_found",
        "historical_run_command_rejected",
        "unknown_signal",
        "invalid_signal_arguments",
        "run_not_active",
        "instance_not_started",
        "selected_run_not_current",
        "configured_workflow_type_invalid",
        "v1_projection_read_only",
        "backend_lock_pressure",
        "control_plane_internal_error",
    ),
    "query": (
        "instance_not_found",
        "historical_run_command_rejected",
        "run_not_active",
        "query_not_found",
        "rejected_unknown_query",
        "invalid_query_arguments",
        "workflow_definition_unavailable",
        "query_rejected",
        "query_worker_unavailable",
        "query_worker_incompatible",
        "query_task_queue_full",
        "query_task_queue_unavailable",
        "query_task_not_claimed",
        "query_worker_execution_timeout",
        "query_worker_timeout",
    ),
    "update": (
        "update_validator_rejected",
        "update_validator_worker_unavailable",
        "update_validator_worker_incompatible",
        "update_validator_contract_missing",
        "update_validator_worker_lost",
        "invalid_update_arguments",
    ),
}

PROJECTED_FIELDS: Final = frozenset(
    (
        "run_id",
        "workflow_type",
        "namespace",
        "business_key",
        "status",
        "status_bucket",
        "run_status",
        "is_terminal",
        "task_queue",
        "run_number",
        "run_count",
        "workflow_count",
        "is_current_run",
        "compatibility",
        "started_at",
        "closed_at",
        "last_progress_at",
        "wait_kind",
        "wait_reason",
        "next_page_token",
        "command_id",
        "command_status",
        "command_source",
        "target_scope",
        "query_name",
        "signal_name",
        "update_name",
        "outcome",
        "reason",
        "rejection_reason",
        "rejection_category",
        "validation_errors",
        "result",
        "result_envelope",
        "update_id",
        "update_status",
        "principal",
        "wait_for",
        "wait_timed_out",
        "wait_timeout_seconds",
        "blocked_reason",
        "message",
        "remediation",
        "execution_owner",
        "identity",
        "command_contract_source",
        "command_contract_backfill_needed",
        "command_contract_backfill_available",
        "declared_signals",
        "signal_admission",
        "diagnostic_status",
        "retryable",
        "error_id",
        "exception",
    )
)
"""Body fields that are repeated inside ``control_plane`` with the same value."""


def contract_block(operation: str) -> dict[str, Any]:
    """The constant ``contract`` member of the envelope of ``operation``."""
    return {
        "schema": f"{RESPONSE_SCHEMA}.contract",
        "version": RESPONSE_VERSION,
        "legacy_field_policy": "reject_non_canonical",
        "legacy_fields": _LEGACY_FIELDS,
        "required_fields": _REQUIRED.get(operation, ("workflow_id",)),
        "success_fields": _SUCCESS.get(operation, ()),
        "rejection_fields": ("reason", "rejection_reason"),
        "rejection_reasons": _REJECTIONS.get(operation, ()),
    }
