"""``python -m benchmarks.large``: reads of a large installation through the API, and how fast retention empties it."""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec
import psycopg

from benchmarks.caller import Caller
from benchmarks.stack import running_server, running_stores
from dw_core.payloads.codec import EMPTY_LIST_BLOB
from dw_runtime.store.database import Database
from dw_runtime.telemetry.logs import configure_logs
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.retention import Retention

SEED: Final = Path(__file__).with_name("large.sql")
AUDIT_DAYS: Final = 400
BAR_MS: Final = 200.0
BAR_RUNS_PER_SECOND: Final = 2_000
Choice = Callable[[random.Random], str]


def _listing(**parameters: str) -> str:
    return f"/workflows?{urlencode(parameters)}"


def _query(text: str) -> str:
    return _listing(query=text)


CASES: Final[dict[str, Choice]] = {
    "list": lambda chance: _listing(page_size=chance.choice(("20", "50"))),
    "list, 200 rows": lambda chance: _listing(page_size="200"),
    "frequent type": lambda chance: _listing(workflow_type=f"type-{chance.randrange(3)}"),
    "rare type": lambda chance: _listing(workflow_type=f"type-{chance.randrange(150, 200)}"),
    "running": lambda chance: _listing(status="running"),
    "failed of a type": lambda chance: _listing(status="failed", workflow_type=f"type-{chance.randrange(200)}"),
    "cancelled": lambda chance: _query("Status = cancelled"),
    "rare attribute": lambda chance: _query(f'CustomerId = "c{chance.randrange(20011)}"'),
    "list of rare values": lambda chance: _query(
        f"CustomerId IN ({', '.join(f'c{chance.randrange(20011)}' for _ in range(20))})"
    ),
    "frequent attribute": lambda chance: _query(f'Region = "{chance.choice(("eu", "us"))}"'),
    "frequent and rare": lambda chance: _query(f'Region = "eu" AND CustomerId = "c{chance.randrange(20011)}"'),
    "narrow range": lambda chance: _query(f"Amount >= 9990 AND Amount < {9990 + chance.randrange(1, 9)}"),
    "wide range": lambda chance: _query("Amount > 5000 AND IsVip = false"),
    "alternatives": lambda chance: _query(f"WorkflowType = type-{chance.randrange(200)} OR IsVip = true"),
    "nothing fits": lambda chance: _query('WorkflowType = "type-0" AND TaskQueue != "queue-1" AND Region = "mars"'),
    "not indexed": lambda chance: _query(
        'TaskQueue != "queue-1" AND WorkflowType != "type-0" AND CloseTime < "2020-01-01"'
    ),
    "free text": lambda chance: _query(f"order-{chance.randrange(100_000)}"),
    "within a day": lambda chance: _query(f'StartTime < "{_days_ago(chance.randrange(1, 50))}" AND Status = failed'),
    "one workflow id": lambda chance: _query("WorkflowId = busy"),
    "describe": lambda chance: "/workflows/busy" if chance.random() < 0.1 else f"/workflows/order-{_other(chance)}",
    "runs of 30,000": lambda chance: "/workflows/busy/runs",
}


def _days_ago(days: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * 86_400))


def _other(chance: random.Random) -> int:
    """The number of a run that does not belong to the busy workflow id."""
    return chance.randrange(1, 300) * 33 + 1


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of one case, and the bytes of its largest answer."""

    case: str
    median_ms: float
    p99_ms: float
    slowest_ms: float
    size: int


async def _read(url: str, samples: int, chance: random.Random) -> list[Reading]:
    caller = await Caller.connect(url)
    readings = []
    try:
        for case, choose in CASES.items():
            times, size = [], 0
            for _ in range(samples):
                path = choose(chance)
                began = time.perf_counter()
                _, length = await caller.send(path, method="GET")
                times.append((time.perf_counter() - began) * 1000)
                size = max(size, length)
            p99 = statistics.quantiles(times, n=100)[98]
            readings.append(
                Reading(case=case, median_ms=statistics.median(times), p99_ms=p99, slowest_ms=max(times), size=size)
            )
            _say(f"{case:20} median {statistics.median(times):8.1f} ms   p99 {p99:8.1f} ms   {size:9,} bytes")
    finally:
        caller.close()
    return readings


async def _prune(url: str) -> tuple[int, float]:
    """Remove every closed run as the scheduler does; how many, and in how many seconds."""
    metrics = Metrics()
    database = Database(url, 2, metrics)
    await database.open()
    retention = Retention(database, metrics, audit_days=AUDIT_DAYS)
    pruned, began = 0, time.monotonic()
    try:
        while batch := await retention.pass_once():
            pruned += batch
            if pruned % 50_000 < batch:
                _say(f"{pruned:,} runs pruned, {pruned / (time.monotonic() - began):,.0f} runs/s")
    finally:
        await database.close()
    return pruned, time.monotonic() - began


def _seed(url: str, runs: int, first: int = 0) -> None:
    """Add so many runs, numbered from ``first`` on."""
    values = {":runs": str(runs), ":first": str(first), ":blob": EMPTY_LIST_BLOB}
    text = SEED.read_text()
    for name, value in values.items():
        text = text.replace(name, value)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in text.split(";\n\n"):
            began = time.monotonic()
            connection.execute(statement.encode())
            _say(f"{' '.join(statement.split()[-40:])[:60]}: {time.monotonic() - began:.0f} s")
        connection.execute("VACUUM ANALYZE")


def _size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Seed, measure, print; the exit code is 0 when every bar is held."""
    options = _parser().parse_args(arguments)
    configure_logs("warning")
    with running_stores() as services:
        url = services.database_url
        _say(f"seeding {options.runs:,} runs")
        _seed(url, options.runs)
        seeded = _size(url)
        with running_server(services) as server:
            readings = asyncio.run(_read(server.url, options.samples, random.Random(options.seed)))
        slow = [reading for reading in readings if reading.p99_ms > BAR_MS]
        _say(f"{len(readings) - len(slow)} of {len(readings)} cases within {BAR_MS:g} ms at p99")
        if options.reads_only:
            return 1 if slow else 0
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE workflow_namespaces SET retention_days = 1")
            connection.execute(
                "UPDATE workflow_run_summaries SET closed_at = closed_at - interval '3 days'"
                " WHERE closed_at > now() - interval '2 days'"
            )
        pruned, seconds = asyncio.run(_prune(url))
        after = _size(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
        vacuumed = _size(url)
        rate = pruned / seconds
        _say(f"retention: {pruned:,} runs in {seconds:.0f} s, {rate:,.0f} runs/s")
        _say(f"size: {_mib(seeded)} seeded, {_mib(after)} after the last pass, {_mib(vacuumed)} after a vacuum")
        more = options.runs // 2
        _seed(url, more, first=options.runs)
        _say(f"size: {_mib(_size(url))} with {more:,} new runs in the room of those that have gone")
        return 1 if slow or rate < BAR_RUNS_PER_SECOND else 0


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.0f} MiB"


def _say(what: str) -> None:
    print(f"benchmarks: {what}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000, help="runs of the installation (default: 1,000,000)")
    parser.add_argument("--samples", type=int, default=200, help="requests per case (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="which values are asked for (default: 1)")
    parser.add_argument("--reads-only", action="store_true", help="leave retention out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
