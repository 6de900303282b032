"""Names of signals, queries and updates, as they stand in a path (control-plane §1.2)."""

from __future__ import annotations

import unicodedata

from dw_core.protocol.problems import Invalid


def check_operation_name(field: str, name: str, bytes_max: int) -> None:
    """Raise ``Invalid`` on ``field`` for a name that is empty, too long in UTF-8 or has control characters."""
    if not name or len(name.encode()) > bytes_max:
        raise Invalid({field: [f"must have 1 to {bytes_max} bytes"]})
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise Invalid({field: ["must not contain control characters"]})
