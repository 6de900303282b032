"""The one character that JSON can carry and Postgres cannot keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dw_core.protocol.nul import NUL_COMPLAINT
from dw_core.protocol.problems import Invalid

_ESCAPED: Final = b"\\u0000"


def find_nul(body: bytes, allowed: frozenset[str]) -> Invalid | None:
    """What is wrong with a JSON object (already known to be one) that has NUL in a string; by field path.

    The top-level fields ``allowed`` may hold it: they are written as part of an event, whose text keeps the escape.
    """
    if _ESCAPED not in body:
        return None
    kept = {name: value for name, value in msgspec.json.decode(body).items() if name not in allowed}
    paths = list(dict.fromkeys(_paths(kept, "")))
    return Invalid({path: [NUL_COMPLAINT] for path in paths}) if paths else None


def _paths(value: Any, path: str) -> Iterator[str]:
    """Where NUL stands; a name with NUL is reported on the object that has it."""
    if isinstance(value, str):
        if "\0" in value:
            yield path or "body"
    elif isinstance(value, dict):
        for name, item in value.items():
            if "\0" in name:
                yield path or "body"
            else:
                yield from _paths(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}.{index}" if path else str(index))
