"""Selections: the first member to end wins, once, and losers can be awaited or cancelled."""

from __future__ import annotations

import pytest

from dw_core.engine.rows import TaskKind
from tests.unit.engine.commands import activity, cancel_member, child, finish, group, select, side_effect, timer, wait
from tests.unit.engine.world import Json, World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def resolution(world: World, run_id: str) -> Json:
    """The payload of the one ``SelectionResolved``."""
    (found,) = [e["payload"] for e in world.events(run_id) if e["event_type"] == "SelectionResolved"]
    return dict(found)


def test_the_winner_stands_directly_behind_its_cause_and_wakes_the_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(50), activity("fast")))
    world.complete_activity(world.claim_activity().task, 7)
    assert world.types(run_id)[-2:] == ["ActivityCompleted", "SelectionResolved"]
    cause = world.events(run_id)[-2]
    assert resolution(world, run_id) == {
        "selection_group_id": "select-calls:1:2",
        "selection_group_base_sequence": 1,
        "selection_group_size": 2,
        "member_key": "m1",
        "member_index": 1,
        "member_base_sequence": 2,
        "member_size": 1,
        "operation_kind": "activity",
        "operation_identity": f"{run_id}.a2",
        "outcome": "completed",
        "resolution_event_id": cause["id"],
        "resolution_event_type": "ActivityCompleted",
    }
    assert world.workflow_task(run_id) is not None


def test_a_loser_that_ends_later_wakes_the_run_and_wins_nothing(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(5), activity("fast")))
    world.complete_activity(world.claim_activity().task)
    world.wait(world.claim_workflow().task)
    world.later(5)
    world.sweep()
    assert world.types(run_id)[-1] == "TimerFired"
    assert resolution(world, run_id)["member_index"] == 1
    assert world.workflow_task(run_id) is not None


def test_a_group_wins_with_its_last_leaf_and_fails_with_its_first_failure(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, [activity("a"), activity("b")], timer(50)))
    first = world.claim_activity().task
    world.complete_activity(first)
    assert world.types(run_id)[-1] == "ActivityCompleted"
    assert world.workflow_task(run_id) is not None, "the end of a leaf is news, though it decides nothing"
    world.fail_activity(world.claim_activity().task)
    assert resolution(world, run_id)["outcome"] == "failed"
    assert resolution(world, run_id)["operation_identity"] == "group:1:2"


def test_a_result_that_arrives_during_a_lease_resolves_when_the_lease_ends(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(50), activity("fast"), wait("ready")))
    world.signal("w")
    assert world.types(run_id)[-2:] == ["ConditionWaitSatisfied", "SelectionResolved"]
    leased = world.claim_workflow().task
    world.complete_activity(world.claim_activity().task)
    assert world.types(run_id)[-1] == "ActivityStarted" or world.types(run_id)[-1] == "SelectionResolved"
    world.wait(leased)
    assert world.types(run_id)[-1] == "ActivityCompleted"
    assert resolution(world, run_id)["operation_kind"] == "condition"


def test_the_signal_that_meets_a_selected_condition_names_it(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(50), wait("ready", 20)))
    world.signal("w")
    assert world.types(run_id)[-4:] == [
        "SignalReceived",
        "ConditionWaitSatisfied",
        "SelectionResolved",
        "TimerCancelled",
    ]
    assert world.events(run_id)[-4]["payload"]["workflow_sequence"] == 2
    assert world.run(run_id).selected_waits == []


def test_a_selected_condition_times_out(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(50), wait("ready", 20)))
    world.later(20)
    world.sweep()
    assert world.types(run_id)[-3:] == ["TimerFired", "ConditionWaitTimedOut", "SelectionResolved"]
    assert "parallel_group_path" in world.events(run_id)[-2]["payload"]
    assert resolution(world, run_id)["resolution_event_type"] == "ConditionWaitTimedOut"


def test_a_wrong_base_is_shifted_on_every_level(world: World) -> None:
    run_id = world.start()
    world.decide_with(side_effect(), *select(1, [activity("a")], timer(50)))
    path = next(e for e in world.events(run_id) if e["event_type"] == "ActivityScheduled")["payload"]
    assert path["parallel_group_path"][0]["parallel_group_id"] == "select-calls:2:2"
    assert path["parallel_group_path"][0]["selection_member_base_sequence"] == 2
    assert path["parallel_group_path"][1]["parallel_group_id"] == "parallel-calls:2:1"


def test_a_cancelled_member_is_closed_and_wakes_the_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(50), activity("slow"), child(), activity("fast")))
    kid = world.memory.tables["children"][run_id, 3]["child_run_id"]
    fast = next(c for c in world.poll(TaskKind.ACTIVITY, slots=2) if c.activity and c.activity.sequence == 4)
    world.complete_activity(fast.task)
    task = next(c for c in world.poll(TaskKind.WORKFLOW, slots=2) if c.run.run_id == run_id).task
    cancels = [cancel_member(1, 4, index, index + 1) for index in range(3)]
    accepted(world.complete(task, *cancels))
    assert world.types(run_id)[-5:] == [
        "TimerCancelled",
        "SelectionOperationCancelled",
        "ActivityCancelled",
        "SelectionOperationCancelled",
        "SelectionOperationCancelled",
    ]
    run = world.run(run_id)
    assert (run.open_activity_count, run.open_timer_count, run.open_child_count) == (0, 0, 0)
    assert not world.run(kid).is_terminal, "a child runs on"
    again = world.claim_workflow().task
    before = world.events(run_id)
    accepted(world.complete(again, cancels[0], finish()))
    assert [e["event_type"] for e in world.events(run_id)[len(before) :]] == ["WorkflowCompleted"]


@pytest.mark.parametrize(
    "command",
    [
        cancel_member(5, 2, 0, 5),
        cancel_member(1, 3, 0, 1),
        cancel_member(1, 2, 7, 1),
        cancel_member(1, 2, 0, 1) | {"selection_group_id": "parallel-calls:1:2"},
        cancel_member(1, 2, 0, 1) | {"member_key": True},
    ],
)
def test_a_cancellation_that_names_no_member_is_refused(command: Json, world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(0), timer(50)))
    task = world.claim_workflow().task
    before = world.events(run_id)
    assert rejected(world.complete(task, command)).reason == "validation_failed"
    assert world.events(run_id) == before


def _path(command: Json, **changes: object) -> Json:
    """The group path of a command, its outermost entry changed."""
    return {"parallel_group_path": [command["parallel_group_path"][0] | changes]}


@pytest.mark.parametrize(
    "batch",
    [
        select(1, timer(1), timer(2))[:1],
        [
            c | {"selection_member_key": "same"} | _path(c, selection_member_key="same")
            for c in select(1, timer(1), timer(2))
        ],
        [c | {"selection_member_index": 1} for c in select(1, timer(1))],
        [c | {"selection_member_key": ""} | _path(c, selection_member_key="") for c in select(1, timer(1))],
        [wait("x") | c["parallel_group_path"][0] | _path(c) for c in group(1, ["a"])],
    ],
)
def test_a_selection_that_is_not_whole_is_refused(batch: list[Json], world: World) -> None:
    world.start()
    assert rejected(world.complete(world.claim_workflow().task, *batch)).reason == "validation_failed"
