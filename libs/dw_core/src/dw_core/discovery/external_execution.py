"""Contracts of external execution (topology §3.3.9): published for clients, not executed by this server."""

from __future__ import annotations

from typing import Any

from dw_core.discovery.identity import EXTERNAL_CONTRACTS

_NAMED_ERRORS = (
    "unreadable_config",
    "invalid_json",
    "invalid_schema",
    "unsupported_version",
    "unknown_overlay",
    "unknown_carrier",
    "unknown_auth_ref",
    "unknown_handler",
    "duplicate_mapping_name",
    "invalid_queue_binding",
    "missing_invocable_auth_ref",
    "missing_handler_target",
    "unsupported_carrier_capability",
    "invalid_carrier_target",
    "invalid_invocable_carrier_scope",
)
_INPUT_MEDIA_TYPE = "application/vnd.durable-workflow.external-task-input+json"
_RESULT_MEDIA_TYPE = "application/vnd.durable-workflow.external-task-result+json"


def external_contracts() -> dict[str, Any]:
    """The five contracts by key; ``runtime.status`` says ``not_configured``, because no carrier runs here."""
    contents: dict[str, dict[str, Any]] = {
        "external_execution_surface_contract": {
            "product_boundary": {"name": "activity_grade_external_execution"},
            "runtime_boundary": {"workflow_code": "workers_only", "activity_code": "workers_or_carriers"},
            "mvp": {"task_kinds": ["activity_task"], "carriers": ["invocable_http"]},
            "contract_seams": [
                "external_task_input_contract",
                "external_task_result_contract",
                "external_executor_config_contract",
                "invocable_carrier_contract",
            ],
            "carrier_neutrality": {"vendor_specific_fields": False},
            "non_goals": ["workflow_replay_in_carriers", "query_execution_in_carriers"],
        },
        "external_executor_config_contract": {
            "config_schema": {"schema": "durable-workflow.external-executor.config", "version": 1},
            "steady_state_surface": "config_file",
            "override_precedence": ["overlay", "config_file"],
            "validation": {"named_errors": list(_NAMED_ERRORS)},
            "redaction": {"never_echo": ["bearer_tokens", "private_keys", "raw_authorization_headers"]},
            "runtime": {
                "configured": False,
                "status": "not_configured",
                "source": None,
                "overlay": None,
                "summary": None,
                "errors": [],
            },
        },
        "invocable_carrier_contract": {
            "carrier_type": "invocable_http",
            "task_kinds": ["activity_task"],
            "method": "POST",
            "request_media_type": _INPUT_MEDIA_TYPE,
            "response_media_type": _RESULT_MEDIA_TYPE,
            "timeout_seconds": {"minimum": 1, "maximum": 900},
            "retry_attempts": {"minimum": 1, "maximum": 5},
        },
        "external_task_input_contract": {"media_type": _INPUT_MEDIA_TYPE},
        "external_task_result_contract": {"media_type": _RESULT_MEDIA_TYPE},
    }
    return {key: {**contract, **contents[key]} for key, contract in EXTERNAL_CONTRACTS.items()}
