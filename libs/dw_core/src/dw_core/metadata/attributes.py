"""Search attributes: names, the seven types, values (engine §6.5, worker-plane §9.3)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from dw_core.limits import KEYWORD_CHARS_MAX, SEARCH_TEXT_BYTES_MAX
from dw_core.payloads.codec import INT64_MAX, INT64_MIN
from dw_core.protocol.timestamps import read_time

TYPES = ("string", "keyword", "keyword_list", "int", "float", "bool", "datetime")
"""The canonical names of the types a command may declare (capability ``typed_search_attributes``)."""

WIRE_TYPES = {
    "keyword": "keyword",
    "text": "string",
    "int": "int",
    "double": "float",
    "bool": "bool",
    "datetime": "datetime",
    "keyword_list": "keyword_list",
}
"""The canonical type of each type that an operator may register (control-plane §21)."""

SYSTEM_ATTRIBUTES = {
    **dict.fromkeys(("WorkflowType", "WorkflowId", "RunId", "Status", "TaskQueue", "BuildId"), "keyword"),
    **dict.fromkeys(("StartTime", "CloseTime"), "datetime"),
}
"""What every run can be found by; the names are reserved, with their types as they are registered."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_TYPED_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}", re.ASCII)


def name_complaint(name: str, *, is_typed: bool) -> str | None:
    """What is wrong with an attribute's name; a typed one is held to the narrower form (engine C16)."""
    pattern = _TYPED_NAME if is_typed else _NAME
    return None if pattern.fullmatch(name) else f"has a name that does not match {pattern.pattern}"


def infer(value: Any) -> str | None:
    """The type of a value that was sent without one; None for a value that no type takes."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "keyword" if len(value) <= KEYWORD_CHARS_MAX else "string"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "keyword_list"
    return None


def value_complaint(value: Any, type_name: str) -> str | None:
    """What keeps a value from being of a type; None when it fits."""
    match type_name:
        case "bool":
            fits = isinstance(value, bool)
        case "int":
            fits = type(value) is int and INT64_MIN <= value <= INT64_MAX
        case "float":
            fits = type(value) in (int, float) and abs(value) <= sys.float_info.max
        case "datetime":
            fits = isinstance(value, str) and read_time(value) is not None
        case "keyword":
            fits = isinstance(value, str) and len(value) <= KEYWORD_CHARS_MAX
        case "string":
            fits = isinstance(value, str) and len(value.encode()) <= SEARCH_TEXT_BYTES_MAX
        case _:
            fits = isinstance(value, list) and all(
                isinstance(item, str) and len(item) <= KEYWORD_CHARS_MAX for item in value
            )
    return None if fits else f"is no value of the type {type_name}"


def merge(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes after an update; a null value removes its name."""
    return {name: value for name, value in {**current, **patch}.items() if value is not None}


def size_bytes(attributes: Mapping[str, Any]) -> int:
    """What attributes weigh: the bytes of their names and of their values as JSON."""
    return sum(len(name.encode()) + len(msgspec.json.encode(value)) for name, value in attributes.items())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def search_number(value: Any, type_name: str | None) -> int | float | None:
    """What a number or a time is compared by: itself, or microseconds since 1970."""
    if type_name == "datetime" and isinstance(value, str):
        found = read_time(value)
        return None if found is None else (found - _EPOCH) // timedelta(microseconds=1)
    return value if type(value) in (int, float) else None


def search_texts(value: Any) -> list[str]:
    """The texts a value is found by: itself, its items, or the name of a truth value."""
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return [value]
    return list(dict.fromkeys(value)) if isinstance(value, list) else []
