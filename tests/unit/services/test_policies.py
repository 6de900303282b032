"""The policies of operations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dw_core.services.policies import boundary_refusal, deadline_at, may_cancel, needs_key, policy_errors, retry_policy

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "caller", "role", "reason"),
    [
        (None, "a", "worker", None),
        (None, "b", "worker", "cross_namespace_blocked"),
        ({"allow_cross_namespace": True}, "b", "worker", None),
        ({"allowed_caller_namespaces": ["B"]}, "b", "worker", None),
        ({"allowed_caller_namespaces": ["c"]}, "a", "worker", "caller_namespace_not_allowed"),
        ({"allowed_caller_namespaces": ["c"]}, None, "worker", "caller_namespace_missing"),
        ({"denied_caller_namespaces": ["a"]}, "a", "worker", "caller_namespace_denied"),
        ({"required_roles": ["admin"]}, "a", "operator", "missing_required_role"),
        ({"default_action": "deny"}, "a", "worker", "default_action_denied"),
        ({"default_action": "deny", "allowed_caller_namespaces": ["a"]}, "a", "worker", None),
        ({"rate_limit": {"per_second": 1}}, "a", "admin", "default_action_denied"),
    ],
)
def test_who_may_cross_into_an_operation(
    policy: dict[str, Any] | None, caller: str | None, role: str, reason: str | None
) -> None:
    assert boundary_refusal(policy, caller, "a", role) == reason


def test_the_earlier_deadline_counts() -> None:
    policies = {"deadline_policy": {"timeout_seconds": 60}}
    assert deadline_at(policies, None, NOW) == NOW + timedelta(seconds=60)
    assert deadline_at(policies, 5, NOW) == NOW + timedelta(seconds=5)
    assert deadline_at({}, None, NOW) is None


def test_a_call_is_tried_once_unless_its_operation_says_more() -> None:
    assert retry_policy({}).pause_after(1) is None
    policy = retry_policy({"retry_policy": {"max_attempts": 3, "backoff_seconds": [2]}})
    assert [policy.pause_after(n) for n in (1, 2, 3)] == [2, 2, None]


def test_keys_and_cancellation_are_free_unless_the_operation_says_so() -> None:
    assert (needs_key({}), may_cancel({})) == (False, True)
    closed = {"idempotency_policy": {"required": True}, "cancellation_policy": {"allowed": False}}
    assert (needs_key(closed), may_cancel(closed)) == (True, False)


def test_what_is_wrong_with_policies_is_named() -> None:
    wrong = {
        "deadline_policy": {"timeout_seconds": 0, "request_timeout_seconds": 901},
        "retry_policy": {"max_attempts": 11, "backoff_seconds": [-1], "non_retryable_error_types": "x"},
        "idempotency_policy": {"required": 1},
        "boundary_policy": {"default_action": "maybe", "required_roles": "admin"},
    }
    assert sorted(policy_errors(wrong)) == [
        "boundary_policy.default_action",
        "boundary_policy.required_roles",
        "deadline_policy.request_timeout_seconds",
        "deadline_policy.timeout_seconds",
        "idempotency_policy.required",
        "retry_policy.backoff_seconds",
        "retry_policy.max_attempts",
        "retry_policy.non_retryable_error_types",
    ]
    assert policy_errors({"retry_policy": None, "boundary_policy": {"anything": 1}}) == {}
