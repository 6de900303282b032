"""The one character that JSON can carry and Postgres cannot keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.protocol.problems import Invalid


def refuse_nul(body: msgspec.Struct, fields: Sequence[str]) -> None:
    """Raise ``Invalid`` for each field with the character NUL in it, which Postgres cannot keep."""
    found = [field for field in fields if holds_nul(getattr(body, field))]
    if found:
        raise Invalid({field: ["must not contain the character NUL"] for field in found})


def holds_nul(value: Any) -> bool:
    """Whether a decoded JSON value has the character NUL anywhere."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(holds_nul(key) or holds_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_nul, value))
