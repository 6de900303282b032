"""Timestamps on the wire: UTC, exactly six fractional digits, trailing ``Z`` (worker-plane §1.4)."""

from __future__ import annotations

from datetime import datetime


def wire_time(moment: datetime) -> str:
    """The wire form of an aware UTC time."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def wire_time_or_none(moment: datetime | None) -> str | None:
    """The wire form, or None."""
    return None if moment is None else wire_time(moment)
