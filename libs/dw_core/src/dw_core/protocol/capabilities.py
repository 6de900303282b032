"""``server_capabilities``: what this server really does, and nothing else (worker-plane §3).

Clients act on what is advertised, so a feature appears here in the commit that implements it. Keys whose mere presence
makes a client behave differently (worker-plane §3.2) stay out until their feature exists.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.commands.parse import SUPPORTED_COMMANDS, TERMINAL_COMMANDS
from dw_core.history.compression import ENCODINGS
from dw_core.leases.durations import query_lease_seconds
from dw_core.limits import (
    DEFAULT_LIMITS,
    HISTORY_COMPRESSION_THRESHOLD_EVENTS,
    HISTORY_PAGE_SIZE_DEFAULT,
    HISTORY_PAGE_SIZE_MAX,
    LOCAL_ATTEMPTS_MAX,
    LOCAL_HEARTBEATS_MAX,
    LONG_POLL_DEFAULT_SECONDS,
    MEMO_ENTRIES_MAX,
    MEMO_TOTAL_BYTES_MAX,
    MEMO_VALUE_BYTES_MAX,
    QUERY_LEASE_GRACE_SECONDS,
    WORKER_HEARTBEAT_INTERVAL_SECONDS,
    WORKER_STALE_AFTER_SECONDS,
    Limits,
    history_budget,
)
from dw_core.metadata.attributes import TYPES as SEARCH_ATTRIBUTE_TYPES
from dw_core.protocol.trace_context import CAPABILITY as TRACE_CONTEXT
from dw_core.sessions.contract import VERBS, worker_sessions
from dw_core.updates.validation import CAPABILITY, REPORT_REFUSALS

NON_TERMINAL_COMMANDS = tuple(name for name in SUPPORTED_COMMANDS if name not in TERMINAL_COMMANDS)
"""The advertised commands follow from the parsers that exist."""


class CapabilityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that show in the capabilities; durations in seconds, page sizes in events."""

    long_poll_seconds: int = LONG_POLL_DEFAULT_SECONDS
    history_page_size_default: int = HISTORY_PAGE_SIZE_DEFAULT
    history_page_size_max: int = HISTORY_PAGE_SIZE_MAX
    heartbeat_interval_seconds: int = WORKER_HEARTBEAT_INTERVAL_SECONDS
    stale_after_seconds: int = WORKER_STALE_AFTER_SECONDS
    query_timeout_seconds: int = LONG_POLL_DEFAULT_SECONDS
    query_lease_seconds: int = LONG_POLL_DEFAULT_SECONDS
    compression: bool = True
    sticky_execution: bool = True
    limits: Limits = DEFAULT_LIMITS


def server_capabilities(options: CapabilityOptions | None = None) -> dict[str, Any]:
    """The object that cluster info and every response of the worker plane carry; build it once per process."""
    options = options or CapabilityOptions()
    encodings = list(ENCODINGS) if options.compression else []
    return {
        "supported_workflow_task_commands": list(SUPPORTED_COMMANDS),
        "long_poll_timeout": options.long_poll_seconds,
        "poll_status": True,
        "workflow_task_poll_request_idempotency": True,
        "query_tasks": True,
        "query_task_poll_request_idempotency": True,
        "query_task_timeouts": {
            "control_plane_timeout_seconds": options.query_timeout_seconds,
            "lease_timeout_seconds": query_lease_seconds(options.query_lease_seconds, options.query_timeout_seconds),
            "lease_grace_seconds": QUERY_LEASE_GRACE_SECONDS,
        },
        "update_validation_tasks": True,
        "synchronous_update_validation": synchronous_update_validation(),
        "activity_retry_policy": True,
        "activity_timeouts": True,
        "activity_lease_renewal": True,
        "child_workflow_retry_policy": True,
        "child_workflow_timeouts": True,
        "parent_close_policy": True,
        "sticky_execution": {
            "feature": "sticky_execution",
            "supported": options.sticky_execution,
            "worker_capability": "sticky_execution",
            "minimum_worker_protocol_version": "1.18",
            "cache_key_fields": ["workflow_id", "run_id", "build_id"],
            "correctness_fallback": "cold_replay",
            "metrics": ["hit", "miss", "eviction", "forced_cold_replay"],
        },
        "non_retryable_failures": True,
        "default_history_page_size": options.history_page_size_default,
        "history_page_size_default": options.history_page_size_default,
        "history_page_size_max": options.history_page_size_max,
        "history_compression": {
            "supported_encodings": encodings,
            "compression_threshold": HISTORY_COMPRESSION_THRESHOLD_EVENTS,
        },
        "response_compression": encodings,
        "workflow_history_budget": history_budget(options.limits),
        "worker_status": {
            "supported": True,
            "heartbeat_interval_seconds": options.heartbeat_interval_seconds,
            "stale_after_seconds": options.stale_after_seconds,
            "fields": {"task_slots": True, "process_metrics": True},
        },
        "worker_sessions": worker_sessions(),
        "worker_session_verbs": list(VERBS),
        "cooperative_cancellation": True,
        "runtime_external_payload_transport": True,
        "activity_cancellation_acknowledgement": True,
        "observability_context": TRACE_CONTEXT,
        **_recorded_in_history(),
        **_not_yet(),
    }


def _recorded_in_history() -> dict[str, Any]:
    """The features whose commands record something that is done at once (worker-plane §3.3)."""
    return {
        "workflow_memo_updates": {
            "supported": True,
            "type": "upsert_memo",
            "minimum_protocol_version": "1.14",
            "worker_capability": "memo_upserts",
            "required_fields": ["type", "entries"],
            "entries": {
                "codec": "avro",
                "maximum_entries": MEMO_ENTRIES_MAX,
                "maximum_value_bytes": MEMO_VALUE_BYTES_MAX,
                "maximum_total_bytes": MEMO_TOTAL_BYTES_MAX,
            },
            "merge": {"null_value": "deletes_key", "other_keys": "kept"},
            "history": {"event_type": "MemoUpserted", "fields": ["sequence", "entries", "merged"]},
            "idempotency": {"scope": "workflow_task_completion"},
            "continue_as_new": "merged memo is inherited before commands on the continued run",
            "external_payloads": {"supported": False},
        },
        "typed_search_attributes": {
            "supported": True,
            "minimum_worker_protocol_version": "1.16",
            "worker_capability": "typed_search_attributes",
            "canonical_types": list(SEARCH_ATTRIBUTE_TYPES),
            "command_field": "attribute_types",
            "history_field": "attribute_types",
            "legacy_history_rule": "absent_metadata_is_unknown_type_identity",
        },
        "message_streams": {
            "schema": "durable-workflow.v2.message-streams.contract",
            "version": 1,
            "capability_flag": "message_streams",
            "minimum_worker_protocol_version": "1.15",
            "supported": True,
        },
        "local_activities": {
            "schema": "durable-workflow.v2.local-activity.contract",
            "version": 1,
            "supported": True,
            "worker_capability": "local_activities",
            "minimum_worker_protocol_version": "1.18",
            "execution": {"mode": "local", "command": "record_local_activity", "guarantee": "at_least_once"},
            "retry": {"owner": "worker", "maximum_attempts": LOCAL_ATTEMPTS_MAX},
            "timeouts": {"owner": "worker", "kinds": ["start_to_close", "schedule_to_close", "heartbeat"]},
            "visibility": {"history": True, "maximum_heartbeats": LOCAL_HEARTBEATS_MAX},
        },
    }


def synchronous_update_validation() -> dict[str, Any]:
    """How workers validate updates before they are accepted (worker-plane §14.1)."""
    kinds = ["workflow", "update_validation"]
    return {
        "supported": True,
        "minimum_protocol_version": "1.13",
        "acceptance_boundary": "validator_approved",
        "worker_capability": CAPABILITY,
        "workflow_contract_field": "update_validators",
        "task_poll": {
            "strategy": "multiplexed",
            "endpoint": "/worker/workflow-tasks/poll",
            "request_field": "task_kinds",
            "task_kinds": kinds,
            "default_task_kinds": kinds[:1],
            "response_discriminator": "task.task_kind",
            "poll_request_id_binding": "normalized_task_kind_set",
            "poll_request_id_conflict_reason": "poll_request_task_kinds_conflict",
        },
        "completion": {
            "approve_endpoint": "/worker/update-validation-tasks/{taskId}/approve",
            "reject_endpoint": "/worker/update-validation-tasks/{taskId}/reject",
            "fence_fields": ["lease_owner", "update_validation_attempt"],
            "typed_failure_reasons": list(REPORT_REFUSALS),
        },
    }


def _not_yet() -> dict[str, Any]:
    """The keys the published document requires although the feature is not there (worker-plane §3.3)."""
    return {
        "condition_wait_occurrence_identity": {"supported": False},
    }
