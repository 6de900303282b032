"""Several schedulers, lost ones and late ones: every occurrence starts one run, and is counted once."""

from __future__ import annotations

import asyncio

from dw_core.schedules.actions import start_input
from dw_core.schedules.rows import Fire
from dw_runtime.pump.fires import FireRunner
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.schedules import ScheduleClock
from tests.contract.control.conftest import Send
from tests.contract.control.test_schedules import body, described, history, make_due
from tests.harness.control_plane import ControlPlane, new_id


def clock(plane: ControlPlane, holder: str) -> ScheduleClock:
    """Another scheduler on the same database."""
    metrics = Metrics()
    return ScheduleClock(
        plane.database, FireRunner(plane.database, plane.pump, metrics, new_id), metrics, new_id, holder=holder
    )


async def lapse(plane: ControlPlane) -> None:
    """As if the lease of every fire of the namespace had lapsed."""
    async with plane.database.transaction() as session:
        await session._connection.execute(
            b"UPDATE workflow_schedule_fires SET due_at = dw_now() WHERE namespace = $1", (plane.namespace,)
        )


async def ordered_and_lost(plane: ControlPlane) -> list[Fire]:
    """The fires of a scheduler that has ordered them and is lost before it can carry them out."""
    _, fires = await clock(plane, "lost")._order()
    return [fire for fire in fires if fire.namespace == plane.namespace]


async def test_schedulers_that_look_at_once_share_the_work(plane: ControlPlane, send: Send) -> None:
    names = [f"s-{number}" for number in range(30)]
    for name in names:
        await send("POST", "/schedules", body(schedule_id=name))
        await make_due(plane, name)
    await asyncio.gather(*(clock(plane, f"scheduler-{number}").look() for number in range(3)))
    found = [await described(send, name) for name in names]
    assert [one["fires_count"] for one in found] == [1] * 30
    assert (await send("GET", "/workflows?page_size=200")).json["workflow_count"] == 30


async def test_what_a_lost_scheduler_has_ordered_is_carried_out_once_even_if_it_comes_back(
    plane: ControlPlane, send: Send
) -> None:
    await send("POST", "/schedules", body())
    await make_due(plane)
    (fire,) = await ordered_and_lost(plane)
    other = clock(plane, "other")
    await other.look()
    assert (await described(send))["fires_count"] == 0, "the lease of the lost one is respected"
    await lapse(plane)
    await other.look()
    assert (await described(send))["fires_count"] == 1
    late = await FireRunner(plane.database, plane.pump, Metrics(), new_id).run([fire])
    assert [one.outcome for one in late.values()] == ["started"], "it finds the run it has ordered"
    assert (await described(send))["fires_count"] == 1
    assert [name for name, _ in await history(send)] == ["ScheduleCreated", "ScheduleTriggered"]
    assert (await send("GET", "/workflows")).json["workflow_count"] == 1


async def test_a_scheduler_that_is_lost_between_the_start_and_its_record_leaves_nothing_twice(
    plane: ControlPlane, send: Send
) -> None:
    await send("POST", "/schedules", body())
    await make_due(plane)
    (fire,) = await ordered_and_lost(plane)
    await plane.pump.submit(start_input(fire, new_id(), {}))
    await lapse(plane)
    await asyncio.gather(*(clock(plane, f"scheduler-{number}").look() for number in range(3)))
    found = await described(send)
    assert (found["fires_count"], found["latest_workflow_instance_id"]) == (1, fire.workflow_id)
    assert (await send("GET", "/workflows")).json["workflow_count"] == 1


async def test_a_fire_that_ends_a_run_waits_for_the_one_before_it(plane: ControlPlane, send: Send) -> None:
    await send("POST", "/schedules", body(overlap_policy="terminate_other"))
    await make_due(plane)
    (first,) = await ordered_and_lost(plane)
    await make_due(plane)
    assert await ordered_and_lost(plane) == [], "it is left to whoever finds the first one carried out"
    await clock(plane, "other").look()
    assert (await described(send))["fires_count"] == 0
    await lapse(plane)
    for _ in range(2):
        await clock(plane, "other").look()
    assert (await described(send))["fires_count"] == 2
    assert (await send("GET", f"/workflows/{first.workflow_id}")).json["status"] == "terminated"


async def test_a_schedule_that_cannot_be_followed_any_more_keeps_no_other_back(plane: ControlPlane, send: Send) -> None:
    for name in ("broken", "sound"):
        await send("POST", "/schedules", body(schedule_id=name))
        await make_due(plane, name)
    async with plane.database.transaction() as session:
        await session._connection.execute(
            b'UPDATE workflow_schedules SET spec = \'{"timezone": "Nowhere"}\' WHERE namespace = $1'
            b" AND schedule_id = 'broken'",
            (plane.namespace,),
        )
    await clock(plane, "one").look()
    assert (await described(send, "sound"))["fires_count"] == 1
    broken = await described(send, "broken")
    assert (broken["next_fire_at"], broken["failures_count"]) == (None, 1)
    assert (await history(send, "broken"))[-1][1]["reason"] == "invalid_schedule_spec"
