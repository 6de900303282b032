"""Times on the wire: UTC with exactly six fractional digits and a trailing Z (worker-plane §1.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def wire_time(moment: datetime) -> str: ...
@overload
def wire_time(moment: None) -> None: ...
def wire_time(moment: datetime | None) -> str | None:
    """``2026-04-18T12:00:00.000000Z`` for an aware time, None for None; a naive time is an error of ours."""
    if moment is None:
        return None
    assert moment.tzinfo is not None, "a time without a zone cannot go on the wire"
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:26] + "Z"
