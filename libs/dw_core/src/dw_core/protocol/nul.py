"""The one character that JSON can carry and Postgres cannot keep."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dw_core.protocol.problems import Invalid

NUL_COMPLAINT: Final = "must not contain the NUL character"

_ESCAPED: Final = b"\\u0000"
"""In valid JSON the character can stand only like this."""


def holds_nul(value: Any) -> bool:
    """Whether a decoded JSON value has the character NUL anywhere."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(holds_nul(key) or holds_nul(item) for key, item in value.items())
    return isinstance(value, list | tuple) and any(map(holds_nul, value))


def nul_fields(body: bytes, request: msgspec.Struct) -> Invalid | None:
    """The fields of a request that hold the character, in a form to raise; ``body`` is the JSON it was decoded from.

    Every field counts, unless the struct's class names it in ``MAY_HOLD_NUL``: those are written as part of an event,
    whose text keeps the escape.
    """
    if _ESCAPED not in body:
        return None
    allowed = getattr(request, "MAY_HOLD_NUL", ())
    fields = msgspec.to_builtins(request)
    found = [name for name, value in fields.items() if name not in allowed and holds_nul(value)]
    return Invalid({name: [NUL_COMPLAINT] for name in found}) if found else None
