"""The results as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.machine import Environment
from benchmarks.results import Bar, IdleResult, LoadResult, Results


def render(results: Results) -> str:
    """Every result as one text of several blocks."""
    blocks = [_environment(results.environment), _loads(results.loads)]
    if results.idle is not None:
        blocks.append(_idle(results.idle))
    blocks.append(_bars(results.bars))
    return "\n\n".join(blocks)


def _environment(found: Environment) -> str:
    rows = [
        ("Machine", f"{found.cores} cores of {found.processor}, {found.memory_mib} MiB, {found.kernel}"),
        ("Load before", f"{found.load_average:.2f} (other work on the machine makes every number worse)"),
        ("Versions", _pairs(found.versions)),
        ("Postgres", _pairs(found.postgres_settings)),
    ]
    return "\n".join(f"{name:<12} {text}" for name, text in rows)


def _loads(loads: list[LoadResult]) -> str:
    head = ("in flight", "workflows/s", "p50 ms", "p99 ms", "requests", "commits", "xacts", "statements")
    cores = ("client", "server", "Postgres", "others", "CPU ms")
    rows = [
        (
            str(load.in_flight),
            f"{load.workflows_per_second:.0f}",
            f"{load.p50_ms:.1f}",
            f"{load.p99_ms:.1f}",
            f"{load.requests_per_workflow:.2f}",
            f"{load.commits_per_workflow:.2f}",
            f"{load.transactions_per_workflow:.2f}",
            f"{load.statements_per_workflow:.2f}",
            f"{load.client_cores:.2f}",
            f"{load.server_cores:.2f}",
            f"{load.postgres_cores:.2f}",
            f"{load.other_cores:.2f}",
            f"{load.cpu_ms_per_workflow:.2f}",
        )
        for load in loads
    ]
    note = (
        "One no-op workflow with one no-op activity, one HTTP process, load from its own process.\n"
        "requests, commits, xacts (counted by Postgres) and statements are per workflow; client to others are cores,\n"
        "others being the rest of the machine; CPU ms is what client, server and Postgres spend on one workflow.\n"
    )
    return note + _columns((*head, *cores), rows)


def _idle(idle: IdleResult) -> str:
    head = ("polls", "queues", "seconds", "ended early", "statements/s", "xacts/s", "KiB per poll", "server cores")
    row = (
        str(idle.polls),
        str(idle.queues),
        f"{idle.seconds:.0f}",
        str(idle.polls_ended_early),
        f"{idle.statements_per_second:.2f}",
        f"{idle.transactions_per_second:.2f}",
        f"{idle.kib_per_poll:.1f}",
        f"{idle.server_cores:.2f}",
    )
    return "Held long polls without work, in a fresh server process.\n" + _columns(head, [row])


def _bars(bars: list[Bar]) -> str:
    verdicts = {True: "met", False: "missed", None: "not run"}
    rows = [
        (bar.name, bar.goal, "-" if bar.measured is None else f"{bar.measured:.2f}", verdicts[bar.is_met])
        for bar in bars
    ]
    return "Bars of the project's two-core machine.\n" + _columns(("bar", "goal", "measured", "verdict"), rows)


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Right-aligned columns, except a first one of words."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    is_wordy = any(not row[0].isdigit() for row in rows)

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        if is_wordy:
            padded[0] = cells[0].ljust(widths[0])
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in rows)])


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
