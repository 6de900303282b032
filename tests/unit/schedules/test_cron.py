"""Cron expressions on the wall clock: every change of the clock from 2026 to 2028 in twelve zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from dw_core.schedules.cron import complaint, moment_of, next_after

ZONES = (
    "Europe/Kyiv",
    "Europe/London",
    "Europe/Lisbon",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Santiago",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
)
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def changes(zone: ZoneInfo) -> list[tuple[datetime, timedelta]]:
    """Each moment at which the clock of a zone jumps, and by how much."""
    found = []
    moment = START
    while moment < END:
        later = moment + timedelta(days=1)
        if later.astimezone(zone).utcoffset() != moment.astimezone(zone).utcoffset():
            low, high = moment, later
            while high - low > MINUTE:
                middle = low + (high - low) // 2
                middle = middle.replace(second=0, microsecond=0)
                if middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset():
                    low = middle if middle > low else low + MINUTE
                else:
                    high = middle
            before, after = low.astimezone(zone).utcoffset(), high.astimezone(zone).utcoffset()
            assert before is not None and after is not None
            found.append((high, after - before))
        moment = later
    return found


def due(expression: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    found = []
    moment = next_after(expression, start - timedelta(microseconds=1), zone)
    while moment is not None and moment < end:
        found.append(moment)
        moment = next_after(expression, moment, zone)
    return found


def daily(wall: datetime) -> str:
    return f"{wall.minute} {wall.hour} * * *"


@pytest.mark.parametrize("name", ZONES)
def test_a_skipped_time_is_the_first_moment_behind_the_gap_and_a_repeated_one_occurs_once(name: str) -> None:
    zone = ZoneInfo(name)
    found = changes(zone)
    assert len(found) == 6, "two changes in each of three years"
    for moment, jump in found:
        wall = moment.astimezone(zone).replace(tzinfo=None)
        first_day, last_day = moment - timedelta(hours=12), moment + timedelta(hours=12)
        for minutes in (1, abs(jump) // MINUTE // 2, abs(jump) // MINUTE - 1):
            if jump > timedelta(0):
                skipped = wall - jump + minutes * MINUTE
                assert due(daily(skipped), zone, first_day, last_day) == [moment], (name, skipped)
            else:
                repeated = wall + minutes * MINUTE
                assert due(daily(repeated), zone, first_day, last_day) == [moment + jump + minutes * MINUTE], (
                    name,
                    repeated,
                )


@pytest.mark.parametrize("name", ZONES)
def test_every_day_has_one_occurrence_of_a_daily_expression(name: str) -> None:
    zone = ZoneInfo(name)
    for expression in ("30 0 * * *", "30 2 * * *"):
        found = due(expression, zone, START, END)
        days = [moment.astimezone(zone).date() for moment in found]
        assert len(days) == len(set(days)) and 1095 <= len(days) <= 1097
        assert all(timedelta(hours=22) <= later - moment <= timedelta(hours=26) for moment, later in pairwise(found))


@pytest.mark.parametrize("name", ZONES)
def test_moments_rise_whatever_the_clock_does(name: str) -> None:
    zone = ZoneInfo(name)
    for moment, _ in changes(zone):
        for expression in ("*/15 * * * *", "0 * * * *", "15,45 1-3 * * *"):
            found = due(expression, zone, moment - timedelta(hours=3), moment + timedelta(hours=3))
            assert found == sorted(set(found)) and len(found) > 1
            walls = [one.astimezone(zone).replace(tzinfo=None) for one in found]
            assert len(walls) == len(set(walls)), "a repeated local time occurs once"


def test_the_classic_rule_of_days_months_names_steps_and_macros() -> None:
    zone = ZoneInfo("UTC")
    friday_or_13th = due("0 0 13 * FRI", zone, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    assert [moment.day for moment in friday_or_13th] == [2, 9, 13, 16, 23, 30]
    sundays = due("0 0 * JAN 7", zone, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert [moment.day for moment in sundays] == [4, 11, 18, 25]
    steps = due("10-40/15 */12 1 1 *", zone, START, datetime(2026, 2, 1, tzinfo=UTC))
    assert [(moment.hour, moment.minute) for moment in steps] == [
        (0, 10),
        (0, 25),
        (0, 40),
        (12, 10),
        (12, 25),
        (12, 40),
    ]
    for macro, count in (("@hourly", 744), ("@daily", 31), ("@weekly", 4), ("@monthly", 1), ("@yearly", 1)):
        assert complaint(macro) is None
        assert len(due(macro, zone, START, datetime(2026, 2, 1, tzinfo=UTC))) == count


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * *", "@often", "60 * * * *", "0 0 31 4 *", "a b c d e", "*/0 * * * *", "5-1 * * * *"],
)
def test_an_expression_that_cannot_be_followed_is_complained_of(expression: str) -> None:
    assert complaint(expression) is not None


def test_a_gap_of_half_an_hour_ends_at_the_half_hour() -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    assert moment_of(datetime(2026, 10, 4, 2, 10), zone).astimezone(zone).strftime("%H:%M") == "02:30"
