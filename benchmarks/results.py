"""What a run of the benchmark found, in the form in which it is written to a JSON file."""

from __future__ import annotations

import msgspec

from benchmarks.machine import Environment


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """One load: latencies in ms, processor time in cores; ``*_per_workflow`` counts over the measured window.

    ``requests`` are those the server answered, ``commits`` and ``statements`` those it counted itself;
    ``transactions`` is Postgres's own count of transactions in the database, with reads and empty claims.
    ``other_cores`` is what the rest of the machine used meanwhile, the benchmark's own small processes included;
    ``cpu_ms_per_workflow`` is client, server and Postgres together, and suffers least from a busy machine.
    """

    in_flight: int
    seconds: float
    workflows: int
    workflows_per_second: float
    p50_ms: float
    p99_ms: float
    requests_per_workflow: float
    commits_per_workflow: float
    transactions_per_workflow: float
    statements_per_workflow: float
    client_cores: float
    server_cores: float
    postgres_cores: float
    other_cores: float
    cpu_ms_per_workflow: float


class IdleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Held polls without work: what they cost the database per second and the server in memory (KiB each)."""

    polls: int
    queues: int
    seconds: float
    polls_ended_early: int
    statements_per_second: float
    transactions_per_second: float
    kib_per_poll: float
    server_cores: float


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A goal and how far it is: ``measured`` is None when its case was not run."""

    name: str
    goal: str
    measured: float | None
    is_met: bool | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one run found."""

    environment: Environment
    loads: list[LoadResult]
    idle: IdleResult | None
    bars: list[Bar]
