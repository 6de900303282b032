"""Blocked runs, and what repair makes of a run (engine §4.6, control-plane §13.7)."""

from __future__ import annotations

import pytest

from dw_core.engine.inputs import UnblockRun
from dw_core.engine.rows import TaskKind
from tests.unit.engine.commands import activity, finish, wait
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import World, accepted, rejected


def block(world: World, build_id: str | None = "old", **changes: str) -> str:
    """A run that nobody can replay."""
    run_id = world.start(**changes)
    for _ in range(5):
        task = world.claim_workflow().task
        accepted(world.fail(task, "differs", "NonDeterministicReplayError", build_id=build_id))
        world.later(60)
    assert world.run(run_id).replay_blocked
    return run_id


def test_a_blocked_run_is_not_offered_again_and_its_signals_change_nothing() -> None:
    world = World()
    run_id = block(world)
    accepted(world.signal())
    world.later(86_400)
    world.sweep()
    assert world.poll(TaskKind.WORKFLOW) == []
    assert world.run(run_id).replay_blocked


def test_repair_sets_a_blocked_run_free_with_a_clean_slate() -> None:
    world = World()
    run_id = block(world)
    reply = accepted(world.repair())
    assert (reply["outcome"], reply["command_status"]) == ("repair_dispatched", "accepted")
    run = world.run(run_id)
    assert (run.replay_blocked, run.blocked_build_id, run.task_failure_count) == (False, None, 0)
    requested = world.events(run_id)[-1]
    assert (requested["event_type"], requested["payload"]["liveness_state"]) == (
        "RepairRequested",
        "workflow_replay_blocked",
    )
    assert requested["workflow_command_id"] == reply["command_id"]
    world.decide_with(finish())
    Watch(world).look()


def test_repair_ends_a_pause_between_failures() -> None:
    world = World()
    world.start()
    for _ in range(4):
        accepted(world.fail(world.claim_workflow().task, "boom", "KeyError"))
        assert accepted(world.repair())["outcome"] == "repair_dispatched"
    world.decide_with(finish())


def test_repair_takes_a_task_from_a_worker_whose_lease_has_ended() -> None:
    world = World()
    world.start()
    lost = world.claim_workflow().task
    world.later(301)
    assert accepted(world.repair())["outcome"] == "repair_dispatched"
    assert world.claim_workflow("other").task.attempt == lost.attempt + 1
    assert rejected(world.complete(lost, finish())).reason == "lease_owner_mismatch"


@pytest.mark.parametrize("state", ["ready", "leased", "waiting"])
def test_repair_leaves_a_healthy_run_alone(state: str) -> None:
    world = World()
    run_id = world.start()
    if state == "waiting":
        world.decide_with(wait())
    leased = world.claim_workflow().task if state == "leased" else None
    before = world.tasks(run_id)
    assert accepted(world.repair())["outcome"] == "repair_not_needed"
    assert world.tasks(run_id) == before
    if leased is not None:
        assert world.types(run_id)[-1] == "WorkflowStarted"
        accepted(world.complete(leased, activity()))
    assert "RepairRequested" in world.types(run_id)
    Watch(world).look()


def test_a_repeated_repair_gets_its_first_answer() -> None:
    world = World()
    run_id = block(world)
    first = accepted(world.repair(request_id="r"))
    again = accepted(world.repair(request_id="r"))
    assert again == first | {"retained": True}
    assert world.types(run_id).count("RepairRequested") == 1


def test_a_closed_run_cannot_be_repaired() -> None:
    world = World()
    world.start()
    world.terminate()
    assert rejected(world.repair()).reason == "run_not_active"


@pytest.mark.parametrize(
    ("build_id", "pinned", "is_freed"),
    [("new", None, True), ("old", None, False), (None, None, True), ("new", "old", False), ("new", "new", True)],
)
def test_a_worker_of_another_build_sets_a_blocked_run_free(
    build_id: str | None, pinned: str | None, is_freed: bool
) -> None:
    world = World()
    run_id = world.start()
    world.memory.tables["runs"][run_id,]["compatibility"] = pinned
    for _ in range(5):
        accepted(world.fail(world.claim_workflow().task, "differs", "InvalidWorkflowDefinition", build_id="old"))
        world.later(60)
    reply = world.submit(UnblockRun(run_id=run_id, build_id=build_id))
    assert isinstance(reply, dict) is is_freed
    assert world.run(run_id).replay_blocked is not is_freed
    assert len(world.poll(TaskKind.WORKFLOW)) == is_freed
