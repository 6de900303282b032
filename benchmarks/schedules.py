"""``python -m benchmarks.schedules``: thousands of schedules due in one second, beside starts that nobody scheduled.

Tells how long it takes until every run has been started, and what an unrelated start costs before and meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg

from benchmarks.caller import Caller
from benchmarks.stack import running_server, running_stores
from dw_runtime.telemetry.logs import configure_logs

CALLERS: Final = 8
LEAD_SECONDS_PER_SCHEDULE: Final = 0.008
"""How far ahead the common moment lies, so that all schedules exist by then."""
LEAD_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.25
STARTS_BEFORE: Final = 50
COUNT: Final = "SELECT count(*) FROM workflow_runs WHERE workflow_type = %s"


async def start_once(caller: Caller) -> float:
    """The seconds that an unrelated start takes."""
    began = time.perf_counter()
    await caller.send("/workflows", {"workflow_type": "unrelated", "task_queue": "unrelated"})
    return time.perf_counter() - began


async def create(url: str, schedules: int, workflow_type: str, due: datetime) -> None:
    """Create schedules that are due once a day, at the second of ``due``."""
    midnight = due.replace(hour=0, minute=0, second=0, microsecond=0)
    spec = {"intervals": [{"every": "P1D", "offset": f"PT{int((due - midnight).total_seconds())}S"}]}
    numbers = iter(range(schedules))

    async def work() -> None:
        caller = await Caller.connect(url)
        for number in numbers:
            action = {"workflow_type": workflow_type, "task_queue": workflow_type}
            schedule_id = f"{workflow_type}-{number}"
            await caller.send("/schedules", {"schedule_id": schedule_id, "spec": spec, "action": action})
        caller.close()

    await asyncio.gather(*(work() for _ in range(CALLERS)))


async def measure(url: str, database_url: str, schedules: int) -> None:
    """Print the table."""
    workflow_type = f"bench-{uuid.uuid4().hex[:6]}"
    caller = await Caller.connect(url)
    before = [await start_once(caller) for _ in range(STARTS_BEFORE)]
    lead = LEAD_SECONDS + schedules * LEAD_SECONDS_PER_SCHEDULE
    due = (datetime.now(UTC) + timedelta(seconds=lead)).replace(microsecond=0)
    began = time.perf_counter()
    await create(url, schedules, workflow_type, due)
    created = time.perf_counter() - began
    left = (due - datetime.now(UTC)).total_seconds()
    print(f"created {schedules} schedules in {created:.1f} s, due in {left:.1f} s")
    if left < 0:
        print("they were created too late to be due together")
        return
    caller.close()
    await asyncio.sleep(left)
    caller = await Caller.connect(url)
    meanwhile: list[float] = []
    first = 0.0
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        while True:
            cursor = await connection.execute(COUNT, [workflow_type])
            row = await cursor.fetchone()
            started = 0 if row is None else int(row[0])
            late = (datetime.now(UTC) - due).total_seconds()
            first = first or (late if started else 0.0)
            if started >= schedules:
                break
            looked = time.perf_counter()
            while time.perf_counter() - looked < LOOK_SECONDS:
                meanwhile.append(await start_once(caller))
    print(f"first run seen {first:.2f} s after the moment, all {started} after {late:.1f} s")
    for name, seconds in (("before", before), ("meanwhile", meanwhile)):
        ordered = sorted(seconds)
        p99 = ordered[int(len(ordered) * 0.99) - 1] * 1000
        print(
            f"unrelated starts {name}: {len(ordered)}, p50 {statistics.median(ordered) * 1000:.1f} ms, p99 {p99:.1f} ms"
        )
    caller.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it on stores and processes of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parsed = parser.parse_args(arguments)
    configure_logs("warning")
    with running_stores() as services, running_server(services) as server, running_server(services, role="scheduler"):
        asyncio.run(measure(server.url, services.database_url, parsed.schedules))


if __name__ == "__main__":
    main()
