"""Which schedules a listing is asked for (control-plane §20.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dw_core.limits import SCHEDULE_QUERY_CHARS_MAX
from dw_core.protocol.problems import Problem

_FIELDS: Final = {
    "ScheduleId": "schedule_id",
    "Status": "status",
    "WorkflowType": "workflow_type",
    "TaskQueue": "task_queue",
    "Note": "note",
}
STATUSES: Final = ("active", "paused")
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)|'(?P<single>(?:[^']|'')*)'|\"(?P<double>(?:[^\"]|\"\")*)\""
    r"|(?P<number>-?\d+(?:\.\d+)?)|(?P<operator><=|>=|!=|<>|=|<|>|\(|\)|,))"
)


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What every listed schedule has; ``attributes`` are search attributes by name.

    ``conflict`` says that two conditions on one field exclude each other.
    """

    schedule_id: str | None = None
    status: str | None = None
    workflow_type: str | None = None
    task_queue: str | None = None
    note: str | None = None
    attributes: dict[str, Any] = {}
    conflict: bool = False


def read_filter(query: Mapping[str, str], known_attributes: Mapping[str, str]) -> ScheduleFilter:
    """The filter of a request's ``status``, ``workflow_type`` and ``query``; all of them must hold.

    ``known_attributes`` are the types of the namespace's search attributes by name. Raises ``Problem``.
    """
    wanted: list[tuple[str, Any]] = []
    if query.get("status"):
        if query["status"] not in STATUSES:
            raise list_problem("validation_failed", "status", f"must be one of {', '.join(STATUSES)}")
        wanted.append(("status", query["status"]))
    if query.get("workflow_type"):
        wanted.append(("workflow_type", query["workflow_type"]))
    attributes: dict[str, Any] = {}
    is_conflicting = False
    for name, value in _conditions(query.get("query") or ""):
        if name in _FIELDS:
            wanted.append((_FIELDS[name], value))
            continue
        if name not in known_attributes:
            message = f"names the field {name}, which schedules cannot be filtered by"
            raise list_problem("unsupported_schedule_visibility_field", "query", message)
        is_conflicting |= name in attributes and attributes[name] != value
        attributes[name] = value
    named: dict[str, Any] = {}
    for name, value in wanted:
        is_conflicting |= named.get(name, value) != value or not isinstance(value, str)
        named[name] = str(value)
    return ScheduleFilter(**named, attributes=attributes, conflict=is_conflicting)


def list_problem(reason: str, field: str, message: str, **fields: Any) -> Problem:
    """A refusal of a listing, with all the members that clients read."""
    errors = {field: [message]}
    said = {"field": field, "errors": errors, "validation_errors": errors, "last_safe_cursor": None} | fields
    return Problem(reason, f"The schedules cannot be listed: {field} {message}.", **said)


def _conditions(text: str) -> list[tuple[str, Any]]:
    """``Field = literal`` joined by AND."""
    if not text.strip():
        return []
    if len(text) > SCHEDULE_QUERY_CHARS_MAX:
        raise list_problem("validation_failed", "query", f"must have at most {SCHEDULE_QUERY_CHARS_MAX} characters")
    tokens = _tokens(text)
    found: list[tuple[str, Any]] = []
    for start in range(0, len(tokens), 4):
        condition = tokens[start : start + 3]
        joint = tokens[start + 3 : start + 4]
        if any(_is_unsupported(token) for token in (*condition, *joint)):
            message = "may only compare fields with = and join comparisons with AND"
            raise list_problem("unsupported_schedule_visibility_predicate", "query", message)
        is_joined = not joint or (_is_word(joint[0], "AND") and len(tokens) > start + 4)
        if len(condition) < 3 or condition[0][0] != "name" or condition[1] != ("operator", "=") or not is_joined:
            raise _malformed()
        found.append((condition[0][1], _literal(condition[2])))
    return found


def _malformed() -> Problem:
    return list_problem("invalid_schedule_visibility_query", "query", "must be of the form Field = literal")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise _malformed()
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


def _is_word(token: tuple[str, str], word: str) -> bool:
    return token[0] == "name" and token[1].upper() == word


def _is_unsupported(token: tuple[str, str]) -> bool:
    if token[0] == "operator":
        return token[1] != "="
    return any(_is_word(token, word) for word in ("OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "STARTS_WITH", "ORDER"))


def _literal(token: tuple[str, str]) -> Any:
    kind, value = token
    match kind:
        case "single":
            return value.replace("''", "'")
        case "double":
            return value.replace('""', '"')
        case "number":
            return float(value) if "." in value else int(value)
        case "name" if value.lower() in ("true", "false"):
            return value.lower() == "true"
        case _:
            raise _malformed()
