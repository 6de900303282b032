"""Memo updates: the limits of entries and of the whole, merging, the form for JSON readers (engine §2.9, §6.5)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from dw_core.limits import MEMO_ENTRIES_MAX, MEMO_TOTAL_BYTES_MAX, MEMO_VALUE_BYTES_MAX
from dw_core.payloads.codec import encode

_KEY = re.compile(r"(?!-?[0-9]+\Z)[A-Za-z0-9_.:-]{1,64}", re.ASCII)


def complaint(entries: Any, *, may_be_empty: bool = False) -> str | None:
    """What is wrong with the decoded entries of an update, or with a merged memo; None when all is well.

    Sizes are those of the Avro frames, which is what the workers measure too.
    """
    if not isinstance(entries, dict):
        return "must encode a map"
    if not entries and not may_be_empty:
        return "must have at least one entry"
    if len(entries) > MEMO_ENTRIES_MAX:
        return f"must have at most {MEMO_ENTRIES_MAX} entries"
    for key, value in entries.items():
        if not _KEY.fullmatch(key):
            return f"must have keys of at most 64 letters, digits and _ . : - that are no number, unlike {key[:64]!r}"
        if len(encode(value)) > MEMO_VALUE_BYTES_MAX:
            return f"must have values of at most {MEMO_VALUE_BYTES_MAX} bytes, unlike {key!r}"
    if len(encode(entries)) > MEMO_TOTAL_BYTES_MAX:
        return f"must have at most {MEMO_TOTAL_BYTES_MAX} bytes in total"
    return None


def merge(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The memo after an update, its keys sorted on every level; a null entry removes its key."""
    merged = {key: value for key, value in {**current, **patch}.items() if value is not None}
    return {key: _sorted(merged[key]) for key in sorted(merged)}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def shown(value: Any) -> Any:
    """A memo as stored JSON can show it: bytes as base64, and no NUL, which no JSON column holds."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {shown(key): shown(item) for key, item in value.items()}
    return value
