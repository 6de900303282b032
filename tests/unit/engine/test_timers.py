"""Timers: recorded, fired once and not early, cancelled with their run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dw_core.engine.inputs import FireTimer
from dw_core.limits import Limits
from dw_core.protocol.timestamps import wire_time
from tests.unit.engine.commands import activity, entry, finish, give_up, timer
from tests.unit.engine.world import START, World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def grouped(base: int, size: int, index: int, delay_seconds: int) -> dict[str, object]:
    """A timer as one leaf of a group of timers."""
    level = entry(base, size, index) | {
        "parallel_group_id": f"parallel-timers:{base}:{size}",
        "parallel_group_kind": "timer",
    }
    return timer(delay_seconds) | level | {"parallel_group_path": [level]}


def test_a_timer_fires_when_it_is_due_and_wakes_its_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(timer(5))
    scheduled = world.events(run_id)[-1]["payload"]
    assert scheduled == {
        "timer_id": f"{run_id}.m1",
        "sequence": 1,
        "delay_seconds": 5,
        "fire_at": wire_time(START + timedelta(seconds=5)),
    }
    assert world.workflow_task(run_id) is None
    world.later(4.999)
    assert rejected(world.submit(FireTimer(run_id=run_id, sequence=1))).reason == "task_not_due"
    world.later(0.001)
    assert [accepted(reply)["outcome"] for reply in world.sweep()] == ["fired"]
    fired = world.events(run_id)[-1]
    assert fired["event_type"] == "TimerFired"
    assert fired["payload"] == scheduled | {"fired_at": scheduled["fire_at"]}
    assert world.claim_workflow().task.resume == {
        "workflow_wait_kind": "timer",
        "open_wait_id": f"timer:{run_id}.m1",
        "resume_source_kind": "timer",
        "resume_source_id": f"{run_id}.m1",
        "timer_id": f"{run_id}.m1",
        "workflow_sequence": 1,
        "workflow_event_type": "TimerFired",
    }


def test_a_timer_fires_once(world: World) -> None:
    run_id = world.start()
    world.decide_with(timer(1))
    world.later(1)
    due = FireTimer(run_id=run_id, sequence=1)
    first, second = world.transact([due, due])
    assert accepted(first)["outcome"] == "fired"
    assert rejected(second).reason == "task_not_found"
    assert rejected(world.submit(due)).reason == "task_not_found"
    assert world.types(run_id).count("TimerFired") == 1


def test_a_timer_without_delay_fires_in_the_transaction_that_opens_it(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    reply = accepted(world.complete(task, timer(0)))
    assert world.types(run_id)[-2:] == ["TimerScheduled", "TimerFired"]
    assert reply["run_status"] == "waiting"
    assert world.run(run_id).open_timer_count == 0
    world.decide_with(finish())


def test_a_timer_that_fires_during_a_lease_waits_for_its_end(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity(), timer(1))
    world.complete_activity(world.claim_activity().task)
    task = world.claim_workflow().task
    world.later(1)
    world.sweep()
    assert world.types(run_id)[-1] == "ActivityCompleted"
    world.wait(task)
    assert world.types(run_id)[-1] == "TimerFired"
    assert world.workflow_task(run_id) is not None


def test_a_group_of_timers_wakes_its_run_when_the_last_has_fired(world: World) -> None:
    run_id = world.start()
    world.decide_with(*(grouped(1, 2, index, delay) for index, delay in enumerate((2, 1))))
    world.later(1)
    world.sweep()
    assert world.workflow_task(run_id) is None
    world.later(1)
    world.sweep()
    assert world.workflow_task(run_id) is not None
    assert [event["payload"]["sequence"] for event in world.events(run_id)[-2:]] == [2, 1]


@pytest.mark.parametrize("end", [finish(), give_up()])
def test_closing_a_run_cancels_its_timers(world: World, end: dict[str, object]) -> None:
    run_id = world.start()
    world.decide_with(timer(9), activity(), timer(8))
    world.complete_activity(world.claim_activity().task)
    world.decide_with(end)
    types = world.types(run_id)
    assert types.count("TimerCancelled") == 2
    assert types[-1] in {"WorkflowCompleted", "WorkflowFailed"}
    world.later(10)
    assert world.due() == []


def test_terminating_a_run_cancels_its_timers(world: World) -> None:
    run_id = world.start()
    world.decide_with(timer(9))
    accepted(world.terminate())
    assert world.types(run_id)[-2:] == ["TimerCancelled", "WorkflowTerminated"]
    assert rejected(world.submit(FireTimer(run_id=run_id, sequence=1))).reason == "task_not_found"


def test_pending_timers_are_limited() -> None:
    world = World(Limits(pending_timer_count=2))
    run_id = world.start()
    task = world.claim_workflow().task
    refusal = rejected(world.complete(task, timer(), timer(), timer()))
    assert refusal.fields["limit_kind"] == "pending_timer_count"
    accepted(world.complete(task, timer(), timer()))
    assert world.run(run_id).open_timer_count == 2
