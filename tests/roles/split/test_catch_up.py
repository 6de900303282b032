"""The clock was away for some time: what is due then happens once and together, and the rest of the past does not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from durable_workflow import Client, Worker, workflow
from durable_workflow.workflow import WorkflowContext

from tests.harness.servers import TOKEN, serving
from tests.harness.waiting import eventually
from tests.harness.wire import Wire, wired
from tests.roles.split.conftest import NewSplit

TIMERS = 100
SCHEDULES = 10
AWAY = timedelta(seconds=4)


@workflow.defn(name="naps")
class Naps:
    def run(self, ctx: WorkflowContext) -> Generator[Any, Any, str]:
        yield ctx.sleep(1)
        return "rested"


@workflow.defn(name="ticks")
class Ticks:
    def run(self, ctx: WorkflowContext) -> str:
        return "ticked"


async def fires(wire: Wire, schedule_id: str) -> list[datetime]:
    """The nominal moments of a schedule's fires."""
    answer = await wire.control("GET", f"/schedules/{schedule_id}")
    assert answer.status_code == 200, answer.text
    path = f"/schedules/{schedule_id}/history?page_size=1000"
    events = (await wire.control("GET", path)).json()["events"]
    return [
        datetime.fromisoformat(event["payload"]["occurrence_time"])
        for event in events
        if event["event_type"] == "ScheduleTriggered"
    ]


async def test_after_an_outage_of_the_clock_everything_due_happens_once(
    new_split: NewSplit, queue: str, tmp_path: Path
) -> None:
    with new_split() as split:
        split.scheduler.kill()
        database_url = split.scheduler.environ["DATABASE_URL"]
        async with (
            Client(split.ingress.url, token=TOKEN) as application,
            Client(split.matching[0].url, token=TOKEN) as plane,
            wired(split.ingress.url) as wire,
        ):
            worker = Worker(plane, task_queue=queue, workflows=[Naps, Ticks], max_concurrent_workflow_tasks=20)
            running = asyncio.create_task(worker.run())
            for number in range(SCHEDULES):
                body = {
                    "schedule_id": f"s-{number}",
                    "spec": {"intervals": [{"every": "PT1S"}]},
                    "action": {"workflow_type": "ticks", "task_queue": queue},
                    "overlap_policy": "allow_all",
                }
                assert (await wire.control("POST", "/schedules", body)).status_code == 201
            created = datetime.now(UTC)
            handles = await asyncio.gather(
                *(
                    application.start_workflow(workflow_type="naps", workflow_id=f"{queue}-{n}", task_queue=queue)
                    for n in range(TIMERS)
                )
            )
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:

                async def all_overdue() -> bool:
                    cursor = await connection.execute(
                        "SELECT count(*) FROM workflow_timers WHERE due_at < dw_now() - %s", (AWAY,)
                    )
                    return await cursor.fetchone() == (TIMERS,)

                await eventually(all_overdue, "every timer is long overdue", 60)
            returned = datetime.now(UTC)
            context = serving(tmp_path, split.scheduler.environ, "scheduler", "scheduler")
            await asyncio.to_thread(context.__enter__)
            try:
                results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
                assert results == ["rested"] * TIMERS
                late = {f"s-{n}": await fires(wire, f"s-{n}") for n in range(SCHEDULES)}
            finally:
                await asyncio.to_thread(context.__exit__, None, None, None)
            await worker.stop()
            await running
            batches = Counter[str]()
            for handle in handles:
                events = await wire.events(handle.workflow_id, handle.run_id or "")
                (fired,) = [event for event in events if event["event_type"] == "TimerFired"]
                batches[fired["timestamp"]] += 1
    assert batches.total() == TIMERS, "each timer fires once, although two schedulers came at once"
    assert len(batches) < TIMERS / 4, f"{TIMERS} timers were fired in {len(batches)} commits, not together"
    assert returned - created > AWAY
    for moments in late.values():
        assert len(moments) == len(set(moments)), "no occurrence is fired twice"
        missed = [moment for moment in moments if moment < returned - timedelta(seconds=1)]
        assert len(missed) == 1, "of the occurrences that were missed, one is made up for"
