"""Manifests of the platform around the server: required by the envelope, read by no client (topology §3.3)."""

from __future__ import annotations

from typing import Any

AUTHORITY_URL = "https://durable-workflow.github.io/docs/2.0/compatibility"
CATALOG_URL = "https://durable-workflow.github.io/platform-protocol-specs/"


_MANIFESTS: dict[str, Any] = {
    "surface_stability_contract": {
        "schema": "durable-workflow.v2.surface-stability.contract",
        "version": 4,
        "authority_url": AUTHORITY_URL,
        "stability_levels": {},
        "release_rules": {},
        "field_visibility_rule": {},
        "surface_families": {},
        "release_check": {},
    },
    "platform_protocol_specs": {
        "schema": "durable-workflow.v2.platform-protocol-specs.catalog",
        "version": 16,
        "catalog_url": CATALOG_URL,
        "authority_url": AUTHORITY_URL,
        "formats": {},
        "owner_repos": {},
        "status_levels": {},
        "evolution_rules": {},
        "specs": {},
        "release_check": {},
    },
    "platform_conformance_suite": {
        "schema": "durable-workflow.v2.platform-conformance.suite",
        "version": 41,
        "authority_doc": "",
        "surface_stability_authority": "durable-workflow.v2.surface-stability.contract",
        "result_schema": "durable-workflow.v2.platform-conformance.result",
        "result_version": 1,
        "conformance_levels": {},
        "targets": {},
        "fixture_catalog": {},
        "pass_fail_rules": {},
        "harness_contract": {},
        "release_gates": {},
    },
    "sdk_neutrality_contract": {
        "schema": "durable-workflow.v2.sdk-neutrality.contract",
        "version": 1,
        "authority_url": AUTHORITY_URL,
    },
    "bridge_adapter_outcome_contract": {
        "schema": "durable-workflow.v2.bridge-adapter-outcome.contract",
        "version": 1,
        "outcomes": {"accepted": 202, "duplicate": 200, "rejected": 422, "unauthorized": 401},
        "rejection_reasons": [
            "unknown_target",
            "auth_failed",
            "malformed_payload",
            "duplicate_start",
            "unsupported_routing",
            "unsupported_action",
            "payload_too_large",
            "adapter_unavailable",
        ],
    },
    "replay_verification_contract": {
        "schema": "durable-workflow.v2.replay-verification.contract",
        "version": 1,
    },
}


def platform_manifests() -> dict[str, Any]:
    """The six manifests by key; blocks this server has nothing to say about are empty, never invented."""
    return dict(_MANIFESTS)
