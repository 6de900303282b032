"""Who the server is and which clients it serves (topology §3.3.2, §3.3.3)."""

from __future__ import annotations

from typing import Any

from dw_core.history.compression import ENCODINGS
from dw_core.payloads.codec import CODEC
from dw_core.payloads.frame import FINGERPRINT, MAGIC
from dw_core.protocol.versions import (
    CONTROL_PLANE_HEADER,
    CONTROL_PLANE_VERSION,
    WORKER_PROTOCOL_HEADER,
    WORKER_PROTOCOL_VERSION,
)

AUTH_COMPOSITION = {"schema": "durable-workflow.v2.auth-composition.contract", "version": 1}
REQUEST_CONTRACT = {"schema": "durable-workflow.v2.control-plane-request.contract", "version": 1}
EXTERNAL_CONTRACTS: dict[str, dict[str, Any]] = {
    "external_execution_surface_contract": {
        "schema": "durable-workflow.v2.external-execution-surface.contract",
        "version": 1,
    },
    "external_executor_config_contract": {
        "schema": "durable-workflow.v2.external-executor-config.contract",
        "version": 1,
    },
    "invocable_carrier_contract": {"schema": "durable-workflow.v2.invocable-carrier.contract", "version": 1},
    "external_task_input_contract": {"schema": "durable-workflow.v2.external-task-input.contract", "version": 1},
    "external_task_result_contract": {"schema": "durable-workflow.v2.external-task-result.contract", "version": 1},
}
"""Identity of the contracts of external execution, by the key under which they are published."""

_CONTROL_REQUIREMENTS = ["auth_composition.version", "control_plane.version", "control_plane.request_contract"]


def supported_sdk_versions() -> dict[str, str]:
    """Version ranges by client; wide on purpose, since protocols decide about compatibility and not releases."""
    return {"cli": ">=0.1", "python": ">=2.0", "php": ">=2.0"}


def client_compatibility() -> dict[str, Any]:
    """The manifest by which a client decides whether it may talk to this server."""
    return {
        "schema": "durable-workflow.v2.client-compatibility",
        "version": 1,
        "authority": "protocol_manifests",
        "top_level_version_role": "informational",
        "fail_closed": True,
        "required_protocols": {
            "auth_composition": dict(AUTH_COMPOSITION),
            "control_plane": {
                "version": CONTROL_PLANE_VERSION,
                "header": CONTROL_PLANE_HEADER,
                "request_contract": dict(REQUEST_CONTRACT),
            },
            "worker_protocol": {
                "version": WORKER_PROTOCOL_VERSION,
                "header": WORKER_PROTOCOL_HEADER,
                **{key: dict(contract) for key, contract in EXTERNAL_CONTRACTS.items()},
            },
        },
        "clients": {
            "cli": {"supported_versions": ">=0.1", "requires": list(_CONTROL_REQUIREMENTS)},
            "sdk-python": {
                "supported_versions": ">=2.0",
                "requires": [*_CONTROL_REQUIREMENTS, "worker_protocol.version"],
            },
        },
    }


def capabilities(*, compression: bool) -> dict[str, Any]:
    """Feature flags of the server; ``compression`` says whether responses may be compressed.

    A flag turns true in the commit that implements its feature.
    """
    return {
        "workflow_tasks": True,
        "activity_tasks": True,
        "signals": True,
        "queries": True,
        "updates": True,
        "schedules": True,
        "schedule_jitter": True,
        "schedule_max_runs": True,
        "search_attributes": True,
        "history_export": True,
        "history_retention": True,
        "continue_as_new": True,
        "child_workflows": True,
        "activity_timeouts": True,
        "activity_retry_policy": True,
        "child_workflow_retry_policy": True,
        "child_workflow_timeouts": True,
        "parent_close_policy": True,
        "non_retryable_failures": True,
        "payload_codec_envelope": True,
        "payload_codec_envelope_responses": True,
        "bridge_adapter_outcome_contract": True,
        "replay_verification_contract": False,
        "external_executor_config_contract": False,
        "invocable_carrier_contract": False,
        "payload_codecs": [CODEC],
        "avro_value_protocol": {
            "schema": "durable_workflow.protocol.Value",
            "fingerprint": FINGERPRINT.hex(),
            "framing": "single_object",
            "magic_hex": MAGIC.hex(),
        },
        "response_compression": list(ENCODINGS) if compression else [],
    }
