"""Times on the wire: UTC with exactly six fractional digits and a trailing Z (worker-plane §1.4).

Times that others send may have any offset. They are taken to UTC at once: the database knows no offset of 16 hours or
more, and a moment outside the years 1 to 9999 cannot be calculated with.
"""

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


def read_time(text: str, *, needs_offset: bool = False) -> datetime | None:
    """The moment (UTC) of an ISO 8601 time; without an offset it is meant in UTC, unless it ``needs_offset``.

    None for any other text, and for a moment outside the years 1 to 9999.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if needs_offset and moment.tzinfo is None else in_utc(moment)


def in_utc(moment: datetime) -> datetime | None:
    """The same moment in UTC, a naive one as it is; None for one outside the years 1 to 9999."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return None
