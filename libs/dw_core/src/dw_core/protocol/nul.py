"""The one character that JSON can carry and Postgres cannot keep."""

from __future__ import annotations

from typing import Any, Final

NUL_COMPLAINT: Final = "must not contain the character NUL"


def holds_nul(value: Any) -> bool:
    """Whether a decoded JSON value has the character NUL anywhere."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(holds_nul(key) or holds_nul(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_nul, value))


def without_nul(text: str) -> str:
    """The text as a text column can hold it: without NULs, and with a mark for each half of a surrogate pair."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
