"""Who may report on a workflow task, and what everybody else is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dw_core.engine.rows import Task
from tests.unit.engine.commands import activity, finish
from tests.unit.engine.world import Reply, World, accepted, rejected

Call = Callable[..., Reply]


def complete(world: World, task: Task, **changes: Any) -> Reply:
    """Complete with one activity."""
    return world.complete(task, activity(), **changes)


CALLS: list[Call] = [complete, World.fail, World.wait, World.heartbeat, World.check]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def task(world: World) -> Task:
    world.start()
    return world.claim_workflow().task


@pytest.fixture(params=CALLS, ids=lambda call: str(call.__name__))
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


def refused(world: World, call: Call, task: Task, **changes: Any) -> dict[str, Any]:
    """The reason and members of a refusal, which has changed nothing."""
    image = world.memory.image()
    refusal = rejected(call(world, task, **changes))
    assert world.memory.image() == image
    members = dict(refusal.fields)
    assert members.pop("task_id") == f"{task.run_id}.t{changes.get('task_number', task.task_number)}"
    assert members.pop("workflow_task_attempt") == changes.get("attempt", task.attempt)
    return {"reason": refusal.reason} | members


@pytest.mark.parametrize("changes", [{"task_number": 99}, {"task_number": 0}, {"namespace": "other"}])
def test_an_unknown_task_is_not_found(world: World, task: Task, call: Call, changes: dict[str, Any]) -> None:
    assert refused(world, call, task, **changes) == {"reason": "task_not_found"}


def test_a_task_of_an_unknown_run_is_not_found(world: World, task: Task, call: Call) -> None:
    task.run_id = world.new_id()
    assert refused(world, call, task) == {"reason": "task_not_found"}


def test_an_activity_task_is_no_workflow_task(world: World, task: Task, call: Call) -> None:
    accepted(complete(world, task))
    assert refused(world, call, world.claim_activity().task) == {"reason": "task_not_found"}


def test_a_ready_task_is_not_leased(world: World, task: Task, call: Call) -> None:
    world.later(300)
    world.sweep()
    assert refused(world, call, task) == {"reason": "task_not_leased", "task_status": "ready"}


@pytest.mark.parametrize("owner", ["worker", "stranger"])
def test_an_expired_lease_says_so_to_everybody(world: World, task: Task, call: Call, owner: str) -> None:
    world.later(300)
    assert refused(world, call, task, lease_owner=owner) == {
        "reason": "lease_expired",
        "task_status": "leased",
        "lease_owner": "worker",
        "lease_expires_at": "2026-11-30T18:05:00.000000Z",
    }


def test_a_stranger_is_told_the_owner_before_the_attempt(world: World, task: Task, call: Call) -> None:
    expected = {"reason": "lease_owner_mismatch", "lease_owner": "worker"}
    assert refused(world, call, task, lease_owner="stranger", attempt=9) == expected


def test_an_old_attempt_is_told_the_current_one(world: World, task: Task, call: Call) -> None:
    world.later(300)
    world.sweep()
    world.claim_workflow()
    expected = {"reason": "workflow_task_attempt_mismatch", "current_attempt": 2}
    assert refused(world, call, task) == expected


@pytest.mark.parametrize("report", [complete, World.fail, World.wait], ids=["complete", "fail", "wait"])
def test_the_same_report_again_gets_the_stored_answer_and_changes_nothing(
    world: World, task: Task, report: Call
) -> None:
    reply = accepted(report(world, task))
    image = world.memory.image()
    assert report(world, task) == reply
    assert world.memory.image() == image


def test_the_same_completion_again_after_the_run_has_closed_gets_the_stored_answer(world: World, task: Task) -> None:
    reply = accepted(world.complete(task, finish("ok")))
    assert (reply["outcome"], reply["run_status"]) == ("completed", "completed")
    assert world.complete(task, finish("ok")) == reply


@pytest.mark.parametrize("changes", [{}, {"lease_owner": "stranger"}, {"attempt": 2}])
def test_another_report_on_a_completed_task_finds_it_not_leased(
    world: World, task: Task, changes: dict[str, Any]
) -> None:
    accepted(complete(world, task))
    expected = {"reason": "task_not_leased", "task_status": "completed"}
    for call in (World.fail, World.heartbeat, World.check):
        assert refused(world, call, task, **changes) == expected


def test_another_report_on_a_failed_task_finds_it_failed(world: World, task: Task) -> None:
    accepted(world.fail(task))
    assert refused(world, complete, task) == {"reason": "task_not_leased", "task_status": "failed"}


def test_a_lease_closed_with_its_run_tells_its_owner_why(world: World, task: Task, call: Call) -> None:
    world.later(60)
    world.terminate(reason="enough")
    assert refused(world, call, task) == {
        "reason": "run_closed",
        "stop_reason": "run_terminated",
        "cancel_requested": True,
        "can_continue": False,
        "run_status": "terminated",
        "run_closed_reason": "terminated",
        "run_closed_at": "2026-11-30T18:01:00.000000Z",
        "task_status": "cancelled",
        "lease_owner": "worker",
        "lease_expires_at": None,
    }


def test_a_lease_closed_with_its_run_tells_others_about_the_mismatch(world: World, task: Task, call: Call) -> None:
    world.terminate()
    owner = {"reason": "lease_owner_mismatch", "lease_owner": "worker"}
    attempt = {"reason": "workflow_task_attempt_mismatch", "current_attempt": 1}
    assert refused(world, call, task, lease_owner="stranger") == owner
    assert refused(world, call, task, attempt=2) == attempt


def test_a_ready_task_closed_with_its_run_is_not_leased(world: World, call: Call) -> None:
    world.start()
    task = world.claim_workflow().task
    world.later(300)
    world.sweep()
    world.terminate()
    assert refused(world, call, task) == {"reason": "task_not_leased", "task_status": "cancelled"}


def test_a_lease_closed_by_a_deadline_stops_without_a_cancel(world: World) -> None:
    world.start(run_timeout=10)
    task = world.claim_workflow().task
    world.later(10)
    world.sweep()
    members = refused(world, complete, task)
    assert (members["reason"], members["stop_reason"], members["cancel_requested"]) == (
        "run_closed",
        "run_closed",
        False,
    )
    assert (members["run_status"], members["run_closed_reason"]) == ("failed", "timed_out")
