"""Identifiers that tell what they belong to."""

from __future__ import annotations

import itertools

import pytest

from dw_core.ids import Ulids, attempt_id, run_of, task_id, ulid

RUN = ulid(1, bytes(10))
RUN_AT_5 = ulid(5, bytes(10))


@pytest.mark.parametrize(
    ("identifier", "run_id"),
    [(task_id(RUN, 3), RUN), (attempt_id(RUN, 1, 2), RUN), (RUN, None), ("", None), ("nothing", None)],
)
def test_a_derived_id_names_its_run(identifier: str, run_id: str | None) -> None:
    assert run_of(identifier) == run_id


def test_ids_ascend_within_a_millisecond_and_when_the_clock_is_set_back() -> None:
    moments = [5_000_000] * 3_000 + [4_000_000, 6_000_000]
    ids = list(itertools.starmap(Ulids(iter(moments).__next__), [()] * len(moments)))
    assert ids == sorted(set(ids))
    stamps = [one[:10] for one in ids]
    assert set(stamps[:3_001]) == {RUN_AT_5[:10]}
    assert stamps[-1] == ulid(6, bytes(10))[:10]


def test_a_clock_that_was_far_ahead_is_not_believed_for_ever() -> None:
    ids = Ulids(iter([10**15, 10**9, 2 * 10**9]).__next__)
    ahead, *later = ids(), ids(), ids()
    assert later == sorted(later) and later[-1] < ahead
    assert later[0][:10] == ulid(1_000, bytes(10))[:10]
