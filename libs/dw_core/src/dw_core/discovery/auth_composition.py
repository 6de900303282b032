"""How clients put their connection settings together (topology §3.3.8): a worker does not start without this block."""

from __future__ import annotations

from typing import Any

from dw_core.discovery.identity import AUTH_COMPOSITION


def auth_composition_contract() -> dict[str, Any]:
    """The contract, in the shape that the published SDK parses strictly."""
    return {
        **AUTH_COMPOSITION,
        "scope": "external_execution_carriers",
        "unknown_field_policy": "ignore_additive_reject_unknown_required",
        "precedence": {
            "connection_values": ["flag", "environment", "selected_profile", "default"],
            "profile_selection": ["flag_env", "DW_ENV", "current_profile", "default_profile"],
            "notes": [],
        },
        "canonical_environment": {
            "server_url": "DURABLE_WORKFLOW_SERVER_URL",
            "namespace": "DURABLE_WORKFLOW_NAMESPACE",
            "auth_token": "DURABLE_WORKFLOW_AUTH_TOKEN",
            "tls_verify": "DURABLE_WORKFLOW_TLS_VERIFY",
            "profile": "DW_ENV",
        },
        "auth_material": {
            "token": {
                "status": "supported",
                "transport": "bearer_authorization_header",
                "persisted_as": "secret_reference_or_profile_env_reference",
                "effective_config_value": "redacted",
            },
            "mtls": {"status": "reserved"},
            "signed_headers": {"status": "reserved"},
            "extensions": {"status": "reserved"},
        },
        "effective_config": {
            "required_fields": ["server_url", "namespace", "profile", "auth", "tls", "identity"],
            "source_values": ["flag", "environment", "selected_profile", "profile_env", "default", "server"],
            "field_contracts": {},
        },
        "redaction": {
            "never_echo": [
                "bearer_tokens",
                "private_keys",
                "shared_signature_keys",
                "client_certificate_private_key_material",
                "raw_authorization_headers",
            ],
            "allowed_diagnostics": ["auth_source", "token_present"],
        },
        "resolution": {},
    }
