"""Putting payloads into an export that are kept outside the database, so that it stands on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from dw_core.history.bundle import Sections
from dw_core.payloads.envelope import envelope, is_envelope, payload_of
from dw_core.payloads.references import RUNTIME, STORAGE, is_external

_COLUMNS: Final = frozenset({"arguments", "output", "payload", "result"})
"""Members of rows that hold stored payloads."""


def external_payloads(sections: Sections) -> frozenset[str]:
    """The stored forms of all payloads of an export that are kept elsewhere."""
    found: set[str] = set()

    def note(payload: str) -> str:
        found.add(payload)
        return payload

    _replaced(msgspec.structs.asdict(sections), note)
    return frozenset(found)


def with_payloads(sections: Sections, blobs: dict[str, str]) -> Sections:
    """The sections with blobs in place of the references; ``blobs`` has one for each of them."""
    return Sections(**_replaced(msgspec.structs.asdict(sections), blobs.__getitem__))


def _replaced(value: Any, blob_of: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        if is_envelope(value) and "blob" not in value:
            return envelope(blob_of(payload_of(value)))
        return dict(_members(value, blob_of))
    return [_replaced(item, blob_of) for item in value] if isinstance(value, list) else value


def _members(row: dict[str, Any], blob_of: Callable[[str], str]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        is_stored = name in _COLUMNS and isinstance(value, str) and is_external(value)
        if is_stored and value.startswith((f'{{"{RUNTIME}":', f'{{"{STORAGE}":')):
            yield name, blob_of(value)
        else:
            yield name, _replaced(value, blob_of)
