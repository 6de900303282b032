"""The capability object ``worker_sessions`` (worker-plane §15.5): the words are those of the published schema."""

from __future__ import annotations

from typing import Any

from dw_core.limits import SESSION_ACTIVITIES_DEFAULT
from dw_core.sessions.session import SessionLoss, SessionStatus

VERBS = ("create", "heartbeat", "close")


def worker_sessions() -> dict[str, Any]:
    """How sessions work here."""
    statuses = [status.value for status in SessionStatus]
    return {
        "feature": "worker_sessions",
        "contract_version": "1.0",
        "command_field": "worker_session",
        "activity_options_field": "worker_session",
        "verbs": list(VERBS),
        "lifecycle": {
            "creation": "lazy_create_on_first_admitted_activity_or_explicit_worker_create",
            "renewal": "activity_heartbeat_or_explicit_session_heartbeat",
            "close": "explicit_holder_close",
            "lease_expiry": "session_expires_when_lease_is_not_renewed",
            "ttl_expiry": "absolute_session_ttl_is_terminal_for_that_session_id",
        },
        "ownership": "single_worker_lease_owner",
        "lease": {
            "scope": "namespace_session_id",
            "owner": "registered_worker_id",
            "activity_attempt_leases_remain_independent": True,
        },
        "admission": dict.fromkeys(
            (
                "queue_routing_first",
                "requires_registered_worker",
                "requires_capabilities",
                "create_if_missing_default",
                "allow_reacquire_after_failure_default",
            ),
            True,
        ),
        "limits": {"max_concurrent_worker_sessions": "worker_registration", "max_concurrent_activities": "session"},
        "default_max_concurrent_activities": SESSION_ACTIVITIES_DEFAULT,
        "renewal": {"activity_heartbeat_renews_session": True, "explicit_session_heartbeat": True},
        "failure_detection": ["lease_expiry", "registered_worker_heartbeat_staleness"],
        "holder_loss": dict.fromkeys(
            (
                "in_flight_activities_keep_at_least_once_attempt_semantics",
                "replacement_worker_must_reacquire_session",
                "process_local_state_must_be_rebuilt_after_reacquire",
            ),
            True,
        ),
        "cancellation": dict.fromkeys(
            (
                "workflow_cancellation_observed_through_activity_heartbeat",
                "session_lease_does_not_override_activity_cancel_requested",
                "planned_shutdown_should_close_sessions",
            ),
            True,
        ),
        "routing": ["queue", "connection", "requirements"],
        "visibility": statuses,
        "statuses": statuses,
        "terminal_statuses": [SessionStatus.CLOSED.value],
        "terminal_conditions": [
            "explicit_close",
            SessionLoss.TTL_EXPIRED.value,
            "allow_reacquire_after_failure_false",
        ],
        "authoring_guidance": [
            "Rebuild process-local state whenever an activity finds it missing: the session may have moved.",
            "Give activities of a session a schedule_to_start_timeout: one whose session has ended is never started.",
        ],
    }
