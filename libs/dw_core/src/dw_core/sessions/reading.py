"""Reading the options of a session from a command or a request body (worker-plane §15.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dw_core.limits import (
    SESSION_ACTIVITIES_DEFAULT,
    SESSION_ACTIVITIES_MAX,
    SESSION_LEASE_SECONDS_DEFAULT,
    SESSION_LEASE_SECONDS_MAX,
    SESSION_REQUIREMENTS_MAX,
    SESSION_TTL_SECONDS_DEFAULT,
    SESSION_TTL_SECONDS_MAX,
)
from dw_core.sessions.session import SessionOptions

NAME_CHARS_MAX = 255
_NUMBERS = {
    "lease_seconds": (SESSION_LEASE_SECONDS_DEFAULT, SESSION_LEASE_SECONDS_MAX),
    "ttl_seconds": (SESSION_TTL_SECONDS_DEFAULT, SESSION_TTL_SECONDS_MAX),
    "max_concurrent_activities": (SESSION_ACTIVITIES_DEFAULT, SESSION_ACTIVITIES_MAX),
}


def read_session(given: Mapping[str, Any]) -> tuple[SessionOptions | None, dict[str, list[str]]]:
    """The options, or None and what is wrong by field; null counts as absent, unknown fields are ignored."""
    errors: dict[str, list[str]] = {}
    names: dict[str, Any] = {}
    for name in ("session_id", "connection", "queue"):
        value = given.get(name)
        if value is None and name != "session_id":
            continue
        if _is_name(value):
            names[name] = value
        else:
            errors[name] = [f"must be a text of 1 to {NAME_CHARS_MAX} characters without the NUL character"]
    numbers: dict[str, Any] = {}
    for name, (default, maximum) in _NUMBERS.items():
        value = given.get(name)
        numbers[name] = default if value is None else value
        if type(numbers[name]) is not int or not 1 <= numbers[name] <= maximum:
            errors[name] = [f"must be an integer from 1 to {maximum}"]
    flags: dict[str, Any] = {}
    for name in ("create_if_missing", "allow_reacquire_after_failure"):
        value = given.get(name)
        flags[name] = True if value is None else value
        if not isinstance(flags[name], bool):
            errors[name] = ["must be true or false"]
    required = given.get("requirements") or []
    if not isinstance(required, list) or not all(map(_is_name, required)) or len(set(required)) < len(required):
        errors["requirements"] = [f"must be a list of different texts of 1 to {NAME_CHARS_MAX} characters"]
    elif len(required) > SESSION_REQUIREMENTS_MAX:
        errors["requirements"] = [f"must have at most {SESSION_REQUIREMENTS_MAX} entries"]
    if errors:
        return None, errors
    return SessionOptions(requirements=tuple(required), **names, **numbers, **flags), {}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= NAME_CHARS_MAX and "\0" not in value
