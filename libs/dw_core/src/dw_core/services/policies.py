"""The policies of an operation: who may call it, how long a call may take, how often it is tried, who may cancel it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from dw_core.engine.rows import RetryPolicy
from dw_core.limits import (
    SECONDS_MAX,
    SERVICE_ATTEMPTS_MAX,
    SERVICE_REQUEST_SECONDS_DEFAULT,
    SERVICE_REQUEST_SECONDS_MAX,
    SERVICE_WAIT_SECONDS_MAX,
)

POLICIES: Final = ("deadline_policy", "idempotency_policy", "cancellation_policy", "retry_policy", "boundary_policy")

_BOUNDARY: Final = {
    "default_action": str,
    "allow_cross_namespace": bool,
    "allowed_caller_namespaces": list,
    "denied_caller_namespaces": list,
    "required_roles": list,
}
"""The rules of a boundary policy that this server enforces. A policy with any other rule admits nobody."""


def policy_errors(policies: Mapping[str, Any]) -> dict[str, list[str]]:
    """What is wrong with the policies of an operation, by field; rules that are not known here are kept as they are."""
    errors: dict[str, list[str]] = {}

    def whole(policy: str, field: str, maximum: int) -> None:
        value = (policies.get(policy) or {}).get(field)
        if value is not None and (type(value) is not int or not 1 <= value <= maximum):
            errors[f"{policy}.{field}"] = [f"must be an integer from 1 to {maximum}"]

    whole("deadline_policy", "timeout_seconds", SERVICE_WAIT_SECONDS_MAX)
    whole("deadline_policy", "request_timeout_seconds", SERVICE_REQUEST_SECONDS_MAX)
    whole("retry_policy", "max_attempts", SERVICE_ATTEMPTS_MAX)
    retry = policies.get("retry_policy") or {}
    pauses = retry.get("backoff_seconds")
    if not _is_list_of(pauses, int) or any(not 0 <= seconds <= SECONDS_MAX for seconds in pauses or ()):
        errors["retry_policy.backoff_seconds"] = ["must be a list of whole seconds"]
    if not _is_list_of(retry.get("non_retryable_error_types"), str):
        errors["retry_policy.non_retryable_error_types"] = ["must be a list of strings"]
    for policy, flag in (("idempotency_policy", "required"), ("cancellation_policy", "allowed")):
        if not isinstance((policies.get(policy) or {}).get(flag, False), bool):
            errors[f"{policy}.{flag}"] = ["must be true or false"]
    for rule, kind in _BOUNDARY.items():
        value = (policies.get("boundary_policy") or {}).get(rule)
        if value is not None and (not isinstance(value, kind) or (kind is list and not _is_list_of(value, str))):
            errors[f"boundary_policy.{rule}"] = ["does not have the right type"]
    if (policies.get("boundary_policy") or {}).get("default_action") not in (None, "allow", "deny"):
        errors["boundary_policy.default_action"] = ["must be allow or deny"]
    return errors


def _is_list_of(value: Any, kind: type) -> bool:
    return value is None or (isinstance(value, list) and all(type(item) is kind for item in value))


def boundary_refusal(policy: Mapping[str, Any] | None, caller: str | None, target: str, role: str) -> str | None:
    """Why a caller may not cross into an operation, as a boundary reason (control-plane §17.2); None when it may.

    ``caller`` and ``target`` are namespaces. Without a policy only callers of the same namespace are let in.
    """
    rules = policy or {}
    if any(rule not in _BOUNDARY for rule in rules):
        return "default_action_denied"
    allowed = _lowered(rules.get("allowed_caller_namespaces"))
    if caller is None:
        return "caller_namespace_missing" if allowed or rules.get("denied_caller_namespaces") else None
    if caller in _lowered(rules.get("denied_caller_namespaces")):
        return "caller_namespace_denied"
    roles = rules.get("required_roles") or []
    if roles and role not in roles:
        return "missing_required_role"
    if caller in allowed:
        return None
    if allowed:
        return "caller_namespace_not_allowed"
    if caller != target and not rules.get("allow_cross_namespace"):
        return "cross_namespace_blocked"
    return "default_action_denied" if rules.get("default_action") == "deny" else None


def _lowered(names: list[str] | None) -> list[str]:
    return [name.strip().lower() for name in names or []]


def needs_key(policies: Mapping[str, Any]) -> bool:
    """Whether a call without an idempotency key is refused."""
    return bool((policies.get("idempotency_policy") or {}).get("required"))


def may_cancel(policies: Mapping[str, Any]) -> bool:
    """Whether calls can be cancelled; they can, unless the operation says no."""
    return (policies.get("cancellation_policy") or {}).get("allowed") is not False


def retry_policy(policies: Mapping[str, Any]) -> RetryPolicy:
    """How often the server tries to serve a call; once, unless the operation says more."""
    rules = policies.get("retry_policy") or {}
    return RetryPolicy(
        max_attempts=rules.get("max_attempts", 1),
        backoff_seconds=tuple(rules.get("backoff_seconds") or ()),
        non_retryable_error_types=tuple(rules.get("non_retryable_error_types") or ()),
    )


def deadline_at(policies: Mapping[str, Any], wait_timeout_seconds: int | None, now: datetime) -> datetime | None:
    """When a call that has not ended is given up: the earlier of the caller's wait and the operation's deadline."""
    seconds = [(policies.get("deadline_policy") or {}).get("timeout_seconds"), wait_timeout_seconds]
    known = [value for value in seconds if value is not None]
    return now + timedelta(seconds=min(known)) if known else None


def request_seconds(policies: Mapping[str, Any]) -> int:
    """How long one request to an HTTP target may take."""
    rules = policies.get("deadline_policy") or {}
    return int(rules.get("request_timeout_seconds") or SERVICE_REQUEST_SECONDS_DEFAULT)
