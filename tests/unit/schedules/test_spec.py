"""Intervals, unions, jitter, and what is due next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dw_core.schedules.durations import parse_duration
from dw_core.schedules.spec import read_spec

NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1S", 1), ("P1W", 604_800), ("P1DT2H3M4S", 93_784), ("PT0.25S", 0.25), ("PT90M", 5400), ("pt1h", 3600)],
)
def test_durations_of_a_fixed_length_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1M", "P1Y", "1H", "PT1H1", "P-1D", "P1W1D", "P999999999D"])
def test_anything_else_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


def test_intervals_count_from_the_epoch_and_their_offset() -> None:
    spec = read_spec({"intervals": [{"every": "PT1H", "offset": "PT15M"}]})
    found = spec.next_after(NOW)
    assert found is not None and found.at == datetime(2026, 5, 1, 12, 15, tzinfo=UTC)
    following = spec.next_after(found.at)
    assert following is not None and following.at == found.at + timedelta(hours=1)


def test_a_moment_that_two_entries_name_is_one_occurrence() -> None:
    spec = read_spec({"cron_expressions": ["0 * * * *"], "intervals": [{"every": "PT30M"}], "other": 1})
    moments = [one.at for one in spec.between(NOW, NOW + timedelta(hours=2))]
    assert moments == [datetime(2026, 5, 1, 12, 30, tzinfo=UTC) + timedelta(minutes=30 * k) for k in range(4)]


@given(seconds=st.integers(1, 3600), jitter=st.integers(0, 3600), at=st.integers(0, 10**6), seed=st.text(max_size=5))
def test_jitter_is_the_same_every_time_and_lets_none_overtake_another(
    seconds: int, jitter: int, at: int, seed: str
) -> None:
    spec = read_spec({"intervals": [{"every": f"PT{seconds}S"}]})
    first = spec.next_after(NOW + timedelta(seconds=at))
    assert first is not None
    second = spec.next_after(first.at)
    assert second is not None
    fire_at = spec.fire_at(first, jitter, seed)
    assert fire_at == spec.fire_at(first, jitter, seed)
    assert first.at <= fire_at <= first.at + timedelta(seconds=jitter)
    assert fire_at <= second.at <= spec.fire_at(second, jitter, seed)


def test_jitter_differs_from_one_occurrence_and_from_one_schedule_to_the_next() -> None:
    spec = read_spec({"intervals": [{"every": "P1D"}]})
    days = list(spec.between(NOW, NOW + timedelta(days=20)))
    drawn = {spec.fire_at(day, 3600, seed) - day.at for day in days for seed in ("a", "b")}
    assert len(drawn) == 40


def test_after_a_pause_of_the_clock_the_next_occurrence_lies_ahead() -> None:
    spec = read_spec({"cron_expressions": ["* * * * *"]})
    late = spec.next_due(NOW - timedelta(hours=3), NOW, 0, "s")
    assert late is not None and late.occurrence.at == datetime(2026, 5, 1, 12, 1, tzinfo=UTC)
    hardly = spec.next_due(NOW.replace(second=0), NOW.replace(minute=1, second=1), 0, "s")
    assert hardly is not None and hardly.occurrence.at == datetime(2026, 5, 1, 12, 1, tzinfo=UTC), "not missed"


@given(offset=st.integers(0, 10**5), jitter=st.integers(0, 600))
def test_a_clock_that_keeps_up_fires_every_occurrence(offset: int, jitter: int) -> None:
    spec = read_spec({"intervals": [{"every": "PT7S"}], "cron_expressions": ["* * * * *"]})
    now = NOW + timedelta(seconds=offset)
    expected = [one.at for one in spec.between(now + timedelta(microseconds=1), now + timedelta(minutes=3))]
    fired: list[datetime] = []
    behind = now
    while len(fired) < len(expected):
        due = spec.next_due(behind, now, jitter, "s")
        assert due is not None
        now = max(now, due.fire_at) + timedelta(seconds=0.9)
        behind = due.occurrence.at
        fired.append(behind)
    assert fired == expected
