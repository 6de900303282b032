"""What the driver tells the load process, and what it hears back. Each message is one line of JSON."""

from __future__ import annotations

from typing import Literal

import msgspec


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """A closed loop: ``in_flight`` starters, each with one workflow at a time, against the server at ``url``."""

    url: str
    queue: str
    in_flight: int


class IdlePlan(msgspec.Struct, frozen=True, kw_only=True, tag="idle"):
    """``polls`` held polls, half of each kind, spread evenly over ``queues`` queues that stay empty."""

    url: str
    queue: str
    polls: int
    queues: int


Plan = LoadPlan | IdlePlan

Command = Literal["begin", "end"]
"""After the plan: the measured window begins, then ends. The load process answers the end with its outcome."""


class LoadOutcome(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """``latencies_ms`` of the workflows that completed in the window, which was ``seconds`` long."""

    seconds: float
    latencies_ms: list[float]


class IdleOutcome(msgspec.Struct, frozen=True, kw_only=True, tag="idle"):
    """``ended_early`` polls came back before the window ended."""

    ended_early: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The load runs; the window may begin."""


Report = Ready | LoadOutcome | IdleOutcome
