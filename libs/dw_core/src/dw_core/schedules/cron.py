"""Cron expressions on the wall clock of a time zone.

The expression is evaluated on local time, and each local time is one moment: one that a change of the clock skips is
the first moment after the gap, one that occurs twice is the first of both (control-plane §20.1).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from cronsim import CronSim, CronSimError

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS: Final = 5
_MINUTE: Final = timedelta(minutes=1)


def complaint(expression: str) -> str | None:
    """What is wrong with an expression of five fields or a macro; None when it is one that comes due some day."""
    fields = _fields(expression)
    if len(fields.split()) != FIELDS:
        return "must have five fields: minute, hour, day of month, month, day of week"
    try:
        next(CronSim(fields, datetime(2026, 1, 1)))
    except CronSimError as error:
        return str(error)
    except (StopIteration, ValueError, OverflowError):
        return "never comes due"
    return None


def next_after(expression: str, moment: datetime, zone: tzinfo) -> datetime | None:
    """The first moment (UTC) of a valid ``expression`` behind ``moment``, None when there is none any more."""
    walls = CronSim(_fields(expression), moment.astimezone(zone).replace(tzinfo=None))
    try:
        for wall in walls:
            found = moment_of(wall, zone)
            # During the second pass through a repeated hour its local times are over.
            if found > moment:
                return found
    except (ValueError, OverflowError):
        return None
    return None


def moment_of(wall: datetime, zone: tzinfo) -> datetime:
    """The moment (UTC) of a local time: the first of two, or the first behind the gap that swallows it."""
    while True:
        found = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None) == wall:
            return found
        wall += _MINUTE


def _fields(expression: str) -> str:
    return MACROS.get(expression.strip().lower(), expression)
