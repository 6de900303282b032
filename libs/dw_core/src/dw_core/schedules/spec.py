"""When a schedule is due: cron expressions in a time zone, and intervals (control-plane §20.1)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple

import msgspec

from dw_core.limits import SCHEDULE_CATCH_UP_SECONDS, SCHEDULE_SPEC_ENTRIES_MAX, SCHEDULE_TIMEZONE_CHARS_MAX
from dw_core.protocol.problems import Problem
from dw_core.schedules.cron import complaint, next_after
from dw_core.schedules.durations import parse_duration

DEFAULT_ZONE: Final = "UTC"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CATCH_UP: Final = timedelta(seconds=SCHEDULE_CATCH_UP_SECONDS)
_EVERY_MIN: Final = timedelta(seconds=1)


class Occurrence(NamedTuple):
    """A nominal moment (UTC) at which a schedule is due, and the cron expression that says so, if one does."""

    at: datetime
    cron_expression: str | None


class Interval(msgspec.Struct, frozen=True):
    """The moments epoch + ``offset`` + k · ``every``."""

    every: timedelta
    offset: timedelta

    def next_after(self, moment: datetime) -> datetime:
        """The first of them behind ``moment``."""
        start = _EPOCH + self.offset
        return start + ((moment - start) // self.every + 1) * self.every


class Spec(msgspec.Struct, frozen=True):
    """A specification that has been checked."""

    crons: tuple[str, ...]
    intervals: tuple[Interval, ...]
    timezone: str

    @property
    def zone(self) -> tzinfo:
        """The time zone of the cron expressions."""
        return zoneinfo.ZoneInfo(self.timezone)

    def next_after(self, moment: datetime) -> Occurrence | None:
        """The first occurrence behind ``moment``, None when there is none any more.

        A moment that several entries name is one occurrence.
        """
        zone = self.zone
        found = [Occurrence(at, cron) for cron in self.crons if (at := next_after(cron, moment, zone)) is not None]
        with contextlib.suppress(OverflowError):
            found += [Occurrence(interval.next_after(moment), None) for interval in self.intervals]
        return min(found, key=lambda one: one.at, default=None)

    def between(self, start: datetime, end: datetime) -> Iterator[Occurrence]:
        """Every occurrence from ``start`` on and before ``end``, in order."""
        found = self.next_after(start - timedelta(microseconds=1))
        while found is not None and found.at < end:
            yield found
            found = self.next_after(found.at)

    def fire_at(self, occurrence: Occurrence, jitter_seconds: int, seed: str) -> datetime:
        """When an occurrence is fired: up to ``jitter_seconds`` later, always the same for one ``seed``.

        The delay never reaches the next occurrence, so that none overtakes another.
        """
        if not jitter_seconds:
            return occurrence.at
        following = self.next_after(occurrence.at)
        window = timedelta(seconds=jitter_seconds)
        if following is not None:
            window = min(window, following.at - occurrence.at)
        drawn = hashlib.sha256(f"{seed}:{occurrence.at.isoformat()}".encode()).digest()
        return occurrence.at + window * (int.from_bytes(drawn[:4]) / 2**32)

    def next_due(
        self, behind: datetime, now: datetime, jitter_seconds: int, seed: str, *, is_late: bool = False
    ) -> Due | None:
        """What is due next after the occurrence at ``behind``, as seen at ``now``.

        An occurrence that should have been fired more than ``SCHEDULE_CATCH_UP_SECONDS`` ago has been missed; when the
        one before was late itself (``is_late``), so has every other one that should have been fired by now.
        """
        horizon = now if is_late else now - CATCH_UP
        found = self.next_after(max(behind, horizon - timedelta(seconds=jitter_seconds)))
        while found is not None:
            fire_at = self.fire_at(found, jitter_seconds, seed)
            if fire_at > horizon:
                return Due(found, fire_at)
            found = self.next_after(found.at)
        return None


class Due(NamedTuple):
    """An occurrence, and when it is fired."""

    occurrence: Occurrence
    fire_at: datetime


def read_spec(raw: dict[str, Any], schedule_id: str | None = None) -> Spec:
    """The specification in a request; members that it does not know are left alone.

    Raises ``Problem``: ``invalid_cron_expression`` with ``schedule_id`` and ``errors``, ``invalid_schedule_spec``
    for anything else.
    """
    errors: dict[str, list[str]] = {}
    crons = _texts(raw.get("cron_expressions"), errors)
    intervals = _intervals(raw.get("intervals"), errors)
    timezone = raw.get("timezone") or DEFAULT_ZONE
    if not isinstance(timezone, str) or len(timezone) > SCHEDULE_TIMEZONE_CHARS_MAX or timezone not in _zones():
        errors["spec.timezone"] = ["must be the name of an IANA time zone"]
    if not errors and not crons and not intervals:
        errors["spec"] = ["must have at least one cron expression or interval"]
    if len(crons) + len(intervals) > SCHEDULE_SPEC_ENTRIES_MAX:
        errors["spec"] = [f"must have at most {SCHEDULE_SPEC_ENTRIES_MAX} cron expressions and intervals"]
    if errors:
        raise _problem("invalid_schedule_spec", "The specification of the schedule is invalid.", errors, schedule_id)
    complaints = {
        f"spec.cron_expressions.{index}": [said]
        for index, cron in enumerate(crons)
        if (said := complaint(cron)) is not None
    }
    if complaints:
        raise _problem("invalid_cron_expression", "A cron expression is invalid.", complaints, schedule_id)
    return Spec(tuple(crons), tuple(intervals), timezone)


def _problem(reason: str, message: str, errors: dict[str, list[str]], schedule_id: str | None) -> Problem:
    return Problem(reason, message, schedule_id=schedule_id, errors=errors, validation_errors=errors)


def _texts(value: Any, errors: dict[str, list[str]]) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        errors["spec.cron_expressions"] = ["must be a list of strings"]
        return []
    return value


def _intervals(value: Any, errors: dict[str, list[str]]) -> list[Interval]:
    if value is None:
        return []
    if not isinstance(value, list):
        errors["spec.intervals"] = ["must be a list of objects"]
        return []
    found: list[Interval] = []
    for index, entry in enumerate(value):
        if not isinstance(entry, dict):
            errors[f"spec.intervals.{index}"] = ["must be an object with every"]
            continue
        every = _duration(entry.get("every"))
        offset = _duration("PT0S" if entry.get("offset") is None else entry["offset"])
        if every is None or every < _EVERY_MIN:
            errors[f"spec.intervals.{index}.every"] = ["must be an ISO 8601 duration of at least one second"]
        elif offset is None:
            errors[f"spec.intervals.{index}.offset"] = ["must be an ISO 8601 duration"]
        else:
            found.append(Interval(every, offset % every))
    return found


def _duration(value: Any) -> timedelta | None:
    return parse_duration(value) if isinstance(value, str) else None


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
