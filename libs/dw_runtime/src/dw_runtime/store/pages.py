"""Pages of history as the database hands them over."""

from __future__ import annotations

import msgspec


class Page(msgspec.Struct, frozen=True):
    """Stored events as one JSON fragment, and the sequence of the last of them; 0 for a page without events."""

    events: bytes
    last_sequence: int


EMPTY = Page(b"", 0)


def read_page(stored: bytes | str | None) -> Page:
    """What ``dw_history_page`` has returned."""
    if not stored:
        return EMPTY
    last_sequence, _, events = (stored if isinstance(stored, bytes) else stored.encode()).partition(b" ")
    return Page(events, int(last_sequence))
