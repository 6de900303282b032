"""Fair shares of a queue (worker-plane §7.6)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from dw_core.engine.rows import Task, TaskKind
from dw_core.workers.shares import FairQueue, ShareState

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)


def task(number: int, share: str = "", *, weight: int = 1, priority: int = 5, age: int = 0) -> Task:
    return Task(
        run_id=f"run-{number:05}",
        task_number=1,
        kind=TaskKind.ACTIVITY,
        namespace="n",
        queue="q",
        task_type="a",
        priority=priority,
        fairness_key=share or None,
        fairness_weight=weight,
        available_at=NOW - timedelta(seconds=age),
        created_at=NOW,
    )


def granted(queue: FairQueue, count: int) -> list[str]:
    """The shares of the next grants."""
    shares = []
    for _ in range(count):
        due = queue.next()
        assert due is not None
        queue.charge(*due)
        shares.append(due[1])
    return shares


def filled(*shares: tuple[str, int], count: int = 200, **states: tuple[int, int]) -> FairQueue:
    """A queue with ``count`` tasks of each share and weight."""
    queue = FairQueue()
    for place, (share, weight) in enumerate(shares):
        ends_at, now_at = states.get(share, (None, None))
        for number in range(count):
            state = ShareState(share=share, ends_at=ends_at, now_at=now_at)
            queue.add(task(place * count + number, share, weight=weight, age=count - number), state)
    return queue


def test_shares_take_turns_in_proportion_to_their_weights() -> None:
    assert Counter(granted(filled(("a", 3), ("b", 1)), 100)) == {"a": 75, "b": 25}
    assert Counter(granted(filled(("a", 1), ("b", 1), ("", 1)), 99)) == {"a": 33, "b": 33, "": 33}


def test_no_stretch_of_grants_strays_from_the_weights_by_more_than_one_turn() -> None:
    order = granted(filled(("a", 5), ("b", 2)), 140)
    for end in range(7, 141):
        seen = Counter(order[:end])
        assert abs(seen["a"] * 2 - seen["b"] * 5) <= 7


def test_a_share_that_was_silent_earns_no_credit() -> None:
    order = granted(filled(("a", 1), ("b", 1), a=(50_000_000, 49_000_000), b=(1_000_000, 49_000_000)), 10)
    assert Counter(order) == {"a": 5, "b": 5}


def test_priority_comes_before_every_share() -> None:
    queue = filled(("a", 1), count=3)
    queue.add(task(90, "b", priority=6, weight=1000, age=500), ShareState(share="b"))
    queue.add(task(91, "b", priority=4), ShareState(share="b"))
    assert granted(queue, 5) == ["b", "a", "a", "a", "b"]
    assert queue.next() is None


def test_within_a_share_the_oldest_goes_first_whoever_found_it() -> None:
    queue = FairQueue()
    for number, age in ((1, 10), (2, 5), (3, 20), (1, 10)):
        queue.add(task(number, "a", age=age), ShareState(share="a"))
    order = []
    while (due := queue.next()) is not None:
        order.append(due[0].run_id)
    assert order == ["run-00003", "run-00001", "run-00002"]


def test_what_was_not_granted_costs_nothing() -> None:
    queue = filled(("a", 1), ("b", 1), count=2)
    assert queue.next() is not None
    assert queue.charges == {}


def test_a_charge_says_when_the_newest_grant_began_and_ends() -> None:
    queue = filled(("a", 4), count=3, a=(7, 9))
    granted(queue, 2)
    (charge,) = queue.charges.values()
    assert (charge.share, charge.began_at, charge.ends_at) == ("a", 250_009, 500_009)
