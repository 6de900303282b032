"""Sticky execution: the next workflow task waits a moment for the worker that keeps the history (engine §4.8)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.rows import TaskKind
from dw_core.engine.sticky import replay_mode
from tests.unit.engine.commands import activity, finish
from tests.unit.engine.world import World, accepted, poll, rejected


@pytest.fixture
def world() -> World:
    return World()


def kept(world: World, ttl_seconds: int = 60) -> str:
    """A run whose first task ann has completed, and whose only activity is done: its next task is ready."""
    run_id = world.start()
    accepted(world.complete_keeping(world.claim_workflow("ann").task, activity(), ttl_seconds=ttl_seconds))
    accepted(world.complete_activity(world.claim_activity("bob").task))
    return run_id


def test_another_worker_gets_the_task_only_after_a_moment(world: World) -> None:
    run_id = kept(world)
    assert world.poll(TaskKind.WORKFLOW, owner="bob") == []
    world.later(1)
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="bob")
    assert replay_mode(world.run(run_id), claimed.task) == "cold_replay"


def test_the_worker_that_keeps_the_history_gets_it_at_once(world: World) -> None:
    run_id = kept(world)
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="ann")
    assert replay_mode(world.run(run_id), claimed.task) == "sticky_hit_expected"


def test_a_held_poll_of_another_worker_is_not_given_it(world: World) -> None:
    world.start()
    accepted(world.complete_keeping(world.claim_workflow("ann").task, activity()))
    running = world.claim_activity("bob").task
    world.held += [poll(TaskKind.WORKFLOW, "bob"), poll(TaskKind.WORKFLOW, "ann")]
    accepted(world.complete_activity(running))
    assert [found.task.lease_owner for found in world.dispatched] == ["ann"]


def test_affinity_ends_with_its_time(world: World) -> None:
    run_id = world.start()
    accepted(world.complete_keeping(world.claim_workflow("ann").task, activity(), ttl_seconds=2))
    running = world.claim_activity("bob").task
    world.later(2)
    accepted(world.complete_activity(running))
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="bob")
    assert claimed.task.reserved_for is None
    assert replay_mode(world.run(run_id), claimed.task) == "cold_replay"


def test_a_worker_without_a_cache_ends_the_affinity(world: World) -> None:
    run_id = kept(world)
    world.later(1)
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="bob")
    accepted(world.complete(claimed.task, activity()))
    assert world.run(run_id).sticky_worker is None
    assert replay_mode(world.run(run_id), claimed.task) is None


def test_a_failed_task_ends_the_affinity(world: World) -> None:
    run_id = kept(world)
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="ann")
    accepted(world.fail(claimed.task, "boom", "NonDeterministicReplayError"))
    assert world.run(run_id).sticky_worker is None
    task = world.workflow_task(run_id)
    assert task is not None
    assert task.reserved_for is None


def test_a_lease_that_is_given_back_is_for_anybody(world: World) -> None:
    run_id = kept(world)
    (claimed,) = world.poll(TaskKind.WORKFLOW, owner="ann")
    world.later(300)
    world.sweep()
    (again,) = world.poll(TaskKind.WORKFLOW, owner="bob")
    assert again.task.task_number == claimed.task.task_number
    assert world.run(run_id).sticky_worker == "ann"


@pytest.mark.parametrize("changes", [{"worker_id": "bob"}, {"workflow_id": "other"}, {"run_id": "other"}])
def test_a_cache_of_another_worker_or_run_is_refused_and_changes_nothing(world: World, changes: dict[str, Any]) -> None:
    world.start()
    task = world.claim_workflow("ann").task
    image = world.memory.image()
    refused = rejected(world.complete_keeping(task, activity(), **changes))
    assert (refused.reason, refused.fields["recorded"]) == ("sticky_cache_identity_mismatch", False)
    assert world.memory.image() == image
    accepted(world.complete_keeping(task, finish()))
