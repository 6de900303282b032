"""Schedules with the published clients, asynchronous and blocking, in both shapes; the scheduler fires them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from durable_workflow import Client, ScheduleAction, ScheduleSpec, workflow
from durable_workflow.errors import InvalidArgument, ScheduleAlreadyExists, ScheduleListError, ScheduleNotFound
from durable_workflow.sync import Client as SyncClient

from tests.e2e.conftest import Planes, Working, worker_on
from tests.harness.servers import TOKEN
from tests.harness.waiting import eventually

EVERY_SECOND = ScheduleSpec(intervals=[{"every": "PT1S"}])
NEW_YEAR = ScheduleSpec(cron_expressions=["0 0 1 1 *"], timezone="Europe/Kyiv")


@workflow.defn(name="report")
class Report:
    def run(self, ctx: workflow.WorkflowContext, region: str) -> str:
        return f"report of {region}"


@workflow.defn(name="wait-for-go")
class WaitForGo:
    def __init__(self) -> None:
        self.may_go = False

    @workflow.signal("go")
    def go(self) -> None:
        self.may_go = True

    def run(self, ctx: workflow.WorkflowContext) -> Generator[Any, Any, Any]:
        yield ctx.wait_condition(lambda: self.may_go, key="go")
        return "gone"


@pytest.fixture
def name() -> str:
    """A schedule of this test alone."""
    return f"nightly-{uuid.uuid4().hex[:8]}"


async def test_the_clock_starts_runs_and_a_worker_restarted_between_them_goes_on(
    client: Client, planes: Planes, queue: str, name: str
) -> None:
    action = ScheduleAction("report", task_queue=queue, input=["eu"])
    handle = await client.create_schedule(
        schedule_id=name, spec=EVERY_SECOND, action=action, overlap_policy="allow_all", memo={"who": "ops"}
    )
    fired: list[str] = []
    async with Client(planes.worker.url, token=TOKEN) as plane:
        for wanted in (2, 4):
            async with worker_on(plane, queue, [Report]):

                async def has_fired(wanted: int = wanted) -> bool:
                    return (await handle.describe()).fires_count >= wanted

                await eventually(has_fired, f"{wanted} fires", seconds=30)
                events = [event async for event in handle.iter_history(limit=2)]
                fired = [e.workflow_instance_id or "" for e in events if e.event_type == "ScheduleTriggered"]
                for workflow_id in fired[:wanted]:
                    run = client.get_workflow_handle(workflow_id)
                    assert await run.result(poll_interval=0.05) == "report of eu"
    await handle.delete()
    assert len(set(fired)) == len(fired)
    with pytest.raises(ScheduleNotFound):
        await handle.describe()


async def test_every_method_of_a_schedule_handle(client: Client, working: Working, queue: str, name: str) -> None:
    action = ScheduleAction("report", task_queue=queue, input=["eu"], run_timeout_seconds=60)
    handle = await client.create_schedule(
        schedule_id=name,
        spec=NEW_YEAR,
        action=action,
        jitter_seconds=30,
        max_runs=9,
        memo={"who": "ops"},
        search_attributes={"Region": "eu"},
        note="made",
        paused=True,
    )
    with pytest.raises(ScheduleAlreadyExists):
        await client.create_schedule(schedule_id=name, spec=NEW_YEAR, action=action)
    with pytest.raises(InvalidArgument):
        await client.create_schedule(spec=ScheduleSpec(cron_expressions=["x"]), action=action)
    await handle.resume(note="on")
    found = await client.get_schedule_handle(name).describe()
    assert (found.status, found.remaining_actions, found.memo) == ("active", 9, {"who": "ops"})
    assert found.next_fire_at is not None and datetime.fromisoformat(found.next_fire_at) > datetime.now(UTC)
    async with working([Report]):
        told = await handle.trigger()
        assert told.outcome == "triggered" and told.workflow_id is not None
        run = client.get_workflow_handle(told.workflow_id, run_id=told.run_id)
        assert await run.result(poll_interval=0.05) == "report of eu"
        window = {"start_time": "2024-06-01T00:00:00Z", "end_time": "2027-01-01T00:00:00Z"}
        filled = await handle.backfill(**window, overlap_policy="allow_all")
        assert (filled.outcome, filled.fires_attempted) == ("backfill_started", 3)
        assert [one["outcome"] for one in filled.results or []] == ["started"] * 3
    await handle.update(note="changed", overlap_policy="buffer_one", spec=EVERY_SECOND, max_runs=50)
    await handle.pause(note="off")
    found = await handle.describe()
    assert (found.status, found.note, found.spec) == ("paused", "changed", {"intervals": [{"every": "PT1S"}]})
    kinds = [event.event_type for event in (await client.get_schedule_history(name, limit=2)).events]
    assert kinds == [event.event_type async for event in client.iter_schedule_history(name, limit=2)][:2]
    assert kinds[0] == "ScheduleCreated"
    page = await client.list_schedules(query=f"ScheduleId = '{name}'", status="paused", page_size=1)
    assert [one.schedule_id for one in page.schedules] == [name] and page.next_page_token is None
    with pytest.raises(ScheduleListError):
        await client.list_schedules(page_size=500)
    first = await handle.history(limit=3)
    assert [event.event_type for event in first.events] == ["ScheduleCreated", "SchedulePaused", "ScheduleResumed"]
    assert (first.has_more, first.next_cursor) == (True, 3)
    await handle.delete()
    with pytest.raises(ScheduleNotFound):
        await handle.pause()


async def test_what_is_buffered_starts_when_the_run_before_has_ended(
    client: Client, working: Working, queue: str, name: str
) -> None:
    action = ScheduleAction("wait-for-go", task_queue=queue)
    handle = await client.create_schedule(
        schedule_id=name, spec=NEW_YEAR, action=action, overlap_policy="buffer_all", max_runs=2
    )
    async with working([WaitForGo]):
        first = await handle.trigger()
        assert first.workflow_id is not None
        assert (await handle.trigger()).buffer_depth == 1
        await client.get_workflow_handle(first.workflow_id).signal("go")

        async def is_used_up() -> bool:
            return "ScheduleDeleted" in [event.event_type async for event in handle.iter_history()]

        await eventually(is_used_up, "the buffered run has been started", seconds=30)
        last = [e.workflow_instance_id async for e in handle.iter_history() if e.event_type == "ScheduleTriggered"][-1]
        assert last is not None and last != first.workflow_id
        await client.get_workflow_handle(last).signal("go")


def test_the_blocking_client_does_the_same(planes: Planes, queue: str, name: str) -> None:
    with SyncClient(planes.control.url, token=TOKEN) as client:
        action = ScheduleAction("report", task_queue=queue, input=["eu"])
        handle = client.create_schedule(schedule_id=name, spec=NEW_YEAR, action=action, note="made")
        client.update_schedule(name, note="changed")
        client.pause_schedule(name)
        assert client.describe_schedule(name).status == "paused"
        assert client.trigger_schedule(name).reason == "status_not_triggerable"
        client.resume_schedule(name)
        told = client.trigger_schedule(name)
        assert told.outcome == "triggered" and told.workflow_id is not None
        filled = client.backfill_schedule(
            name, start_time="2024-06-01T00:00:00Z", end_time="2025-06-01T00:00:00Z", overlap_policy="terminate_other"
        )
        assert [one["outcome"] for one in filled.results or []] == ["started"]
        assert client.describe_workflow(told.workflow_id).status == "terminated"
        assert name in [one.schedule_id for one in client.list_schedules(workflow_type="report").schedules]
        assert handle.describe().note == "changed"
        client.delete_schedule(name)
        with pytest.raises(ScheduleNotFound):
            client.describe_schedule(name)


async def test_one_window_filled_by_four_callers_at_once_starts_each_moment_once(
    client: Client, queue: str, name: str
) -> None:
    handle = await client.create_schedule(
        schedule_id=name,
        spec=NEW_YEAR,
        action=ScheduleAction("report", task_queue=queue, input=["eu"]),
        overlap_policy="allow_all",
    )
    window = {"start_time": "2000-06-01T00:00:00Z", "end_time": "2020-06-01T00:00:00Z"}
    filled = await asyncio.gather(*(handle.backfill(**window) for _ in range(4)))
    started = [one["workflow_id"] for part in filled for one in part.results or [] if one["outcome"] == "started"]
    assert len(started) == len(set(started)) == 20
    assert (await handle.describe()).fires_count == 20
    await handle.delete()
