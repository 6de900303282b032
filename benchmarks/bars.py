"""The goals of the project's two-core machine, and how a run stands against them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.results import Bar, IdleResult, LoadResult

P50_MS_AT_1: Final = 10
WORKFLOWS_PER_SECOND_AT_64: Final = 350
WORKFLOWS_PER_SECOND_AIM: Final = 500
COMMITS_PER_WORKFLOW_AT_64: Final = 1.5
IDLE_STATEMENTS_PER_SECOND: Final = 2
IDLE_KIB_PER_POLL: Final = 40


def judge(loads: list[LoadResult], idle: IdleResult | None) -> list[Bar]:
    """Every bar, met or missed; a bar whose case was not run is neither."""
    one, many = _case(loads, 1), _case(loads, 64)
    rate = many.workflows_per_second if many else None
    return [
        _at_most("p50 at 1 in flight, ms", P50_MS_AT_1, one.p50_ms if one else None),
        _at_least("workflows/s at 64 in flight", WORKFLOWS_PER_SECOND_AT_64, rate),
        _at_least("the same, the aim", WORKFLOWS_PER_SECOND_AIM, rate),
        _at_most("commits per workflow at 64", COMMITS_PER_WORKFLOW_AT_64, many.commits_per_workflow if many else None),
        _at_most("idle statements/s", IDLE_STATEMENTS_PER_SECOND, idle.statements_per_second if idle else None),
        _at_most("KiB per held poll", IDLE_KIB_PER_POLL, idle.kib_per_poll if idle else None),
    ]


def _case(loads: list[LoadResult], in_flight: int) -> LoadResult | None:
    return next((load for load in loads if load.in_flight == in_flight), None)


def _at_most(name: str, goal: float, measured: float | None) -> Bar:
    return _bar(name, f"≤ {goal}", measured, lambda value: value <= goal)


def _at_least(name: str, goal: float, measured: float | None) -> Bar:
    return _bar(name, f"≥ {goal}", measured, lambda value: value >= goal)


def _bar(name: str, goal: str, measured: float | None, is_met: Callable[[float], bool]) -> Bar:
    return Bar(name=name, goal=goal, measured=measured, is_met=None if measured is None else is_met(measured))
