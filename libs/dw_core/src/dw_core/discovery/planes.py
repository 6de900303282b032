"""The manifests of the two planes (topology §3.3.6, §3.3.7; control-plane §9.3)."""

from __future__ import annotations

from typing import Any

from dw_core.discovery.external_execution import external_contracts
from dw_core.discovery.identity import REQUEST_CONTRACT
from dw_core.payloads.codec import CODEC
from dw_core.protocol.requests_control import UNSUPPORTED_START_FIELDS
from dw_core.protocol.versions import (
    ACCEPTED_WORKER_VERSIONS,
    CONTROL_PLANE_HEADER,
    CONTROL_PLANE_VERSION,
    WORKER_PROTOCOL_HEADER,
    WORKER_PROTOCOL_VERSION,
)

LEGACY_FIELDS = {"query": "query_name", "signal": "signal_name", "update": "update_name", "wait_policy": "wait_for"}
"""Names an older protocol used, and the ones that replace them."""

RESPONSE_CONTRACT: dict[str, Any] = {
    "schema": "durable-workflow.v2.control-plane-response.contract",
    "version": 1,
    "legacy_field_policy": "reject_non_canonical",
    "legacy_fields": LEGACY_FIELDS,
}
"""The constant part of the contract that every nested ``control_plane`` envelope repeats (control-plane §6.2)."""


def control_plane() -> dict[str, Any]:
    """Version, header and contracts of the control plane."""
    return {
        "version": CONTROL_PLANE_VERSION,
        "header": CONTROL_PLANE_HEADER,
        "response_contract": {
            "schema": "durable-workflow.v2.control-plane-response",
            "version": 1,
            "contract": dict(RESPONSE_CONTRACT),
        },
        "request_contract": {**REQUEST_CONTRACT, "operations": _operations()},
    }


def worker_protocol(server_capabilities: dict[str, Any]) -> dict[str, Any]:
    """Version, header, capabilities and external contracts of the worker plane."""
    return {
        "version": WORKER_PROTOCOL_VERSION,
        "header": WORKER_PROTOCOL_HEADER,
        "advertised_version_path": "worker_protocol.version",
        "request_header_rule": "same_major_and_minor_less_than_or_equal_to_advertised",
        "accepted_request_versions": list(ACCEPTED_WORKER_VERSIONS),
        "response_version": "advertised_version",
        "fail_closed_on": [
            "missing_header",
            "malformed_version",
            "different_major",
            "minor_greater_than_advertised",
        ],
        "server_capabilities": server_capabilities,
        **external_contracts(),
    }


def _operations() -> dict[str, Any]:
    """What the requests of three operations accept, as clients check it before they send."""
    whole_seconds = {"type": "integer", "min": 1, "minimum": 1}
    return {
        "list": {
            "fields": {
                "status": {
                    "canonical_values": ["running", "completed", "failed"],
                    "rejected_aliases": {
                        "pending": "running",
                        "waiting": "running",
                        "cancelled": "failed",
                        "terminated": "failed",
                    },
                }
            }
        },
        "start": {
            "fields": {
                "duplicate_policy": {
                    "canonical_values": ["fail", "use-existing"],
                    "accepted_aliases": {"reject": "fail"},
                    "rejected_aliases": {"use_existing": "use-existing"},
                },
                "execution_timeout_seconds": dict(whole_seconds),
                "run_timeout_seconds": dict(whole_seconds),
                "payload_codec": {"canonical_values": [CODEC]},
            },
            "unsupported_fields": list(UNSUPPORTED_START_FIELDS),
        },
        "update": {
            "fields": {"wait_for": {"canonical_values": ["accepted", "completed"], "rejected_aliases": {}}},
            "removed_fields": {"wait_policy": "Send wait_for instead."},
        },
    }
