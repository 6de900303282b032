"""The byte transport of external payloads: its documents and its refusals (control-plane §23)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dw_core.payloads.policy import StoragePolicy
from dw_core.payloads.references import RUNTIME_SCHEMA, RuntimeReference
from dw_core.protocol.problems import Problem

UPLOAD_PATH: Final = "/api/external-payloads/v1"
FETCH_PATH: Final = f"{UPLOAD_PATH}/{{referenceId}}"
ERROR_SCHEMA: Final = "durable-workflow.v2.runtime-external-payload-error.v1"
CODEC_HEADER: Final = "X-Durable-Workflow-Payload-Codec"
SIZE_HEADER: Final = "X-Durable-Workflow-Payload-Size"
SHA256_HEADER: Final = "X-Durable-Workflow-Payload-SHA256"

_BY_REASON: Final = {
    "unauthorized": "external_payload_unauthorized",
    "forbidden": "external_payload_unauthorized",
    "payload_too_large": "external_payload_oversized",
    "unsupported_media_type": "external_payload_unsupported",
    "namespace_not_found": "external_payload_not_found",
    "backend_unavailable": "external_payload_unavailable",
}
"""How the refusals of the gates are called on the routes of the transport."""


class TransportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the transport takes: bytes of one payload, seconds of one request."""

    payload_bytes_max: int
    request_timeout_seconds: int


def manifest(policy: StoragePolicy, limits: TransportLimits) -> dict[str, Any]:
    """``namespace.external_payload_storage`` of cluster info, for a policy that is enabled."""
    return {
        "enabled": True,
        "threshold_bytes": min(policy.effective_threshold_bytes, limits.payload_bytes_max),
        "status": "available",
        "direct_provider_adapters": {"capability_negotiated": True, "enabled": True},
        "transport": {
            "schema": "durable-workflow.v2.runtime-external-payload-transport.v1",
            "version": 1,
            "reference_schema": RUNTIME_SCHEMA,
            "mode": "authenticated_namespace_runtime",
            "upload": {"method": "POST", "path": UPLOAD_PATH},
            "fetch": {"method": "GET", "path_template": FETCH_PATH},
            "limits": {
                "max_payload_bytes": limits.payload_bytes_max,
                "request_timeout_seconds": limits.request_timeout_seconds,
            },
        },
    }


def uploaded(reference: RuntimeReference) -> dict[str, Any]:
    """The answer to an upload."""
    return {
        "schema": "durable-workflow.v2.runtime-external-payload-upload.v1",
        "transport_version": 1,
        "reference": msgspec.structs.asdict(reference),
    }


def payload_headers(reference: RuntimeReference) -> tuple[tuple[str, str], ...]:
    """The headers that describe the bytes of an answer."""
    return (
        (CODEC_HEADER.lower(), reference.codec),
        (SIZE_HEADER.lower(), str(reference.size_bytes)),
        (SHA256_HEADER.lower(), reference.sha256),
        ("etag", f'"sha256:{reference.sha256}"'),
        ("cache-control", "immutable, max-age=60, private"),
    )


def transport_problem(problem: Problem) -> Problem:
    """A refusal in the form of the transport, whatever gate or handler it comes from."""
    reason = _BY_REASON.get(problem.reason, problem.reason)
    status = problem.status
    fields = {"schema": ERROR_SCHEMA, "retryable": status >= 500, "status": status}
    return Problem(reason, problem.message, as_status=status, **(problem.fields | fields))
