"""The one character that JSON can carry and Postgres cannot keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dw_core.protocol.problems import Invalid

MESSAGE: Final = "must not contain the character NUL"
_ESCAPED: Final = b"\\u0000"


def find_nul(body: bytes) -> Invalid | None:
    """What is wrong with a JSON body (already known to be well-formed) that has NUL in a string; by field path."""
    if _ESCAPED not in body:
        return None
    paths = list(dict.fromkeys(_paths(msgspec.json.decode(body), "")))
    return Invalid({path: [MESSAGE] for path in paths}) if paths else None


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
