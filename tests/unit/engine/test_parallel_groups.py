"""Parallel groups: numbering, re-basing, re-sending and the barrier."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.rows import TaskKind
from tests.unit.engine.commands import activity, entry, finish, group, leaf, side_effect
from tests.unit.engine.world import World, accepted, rejected

NESTED = ("a", ("b", "c"))


@pytest.fixture
def world() -> World:
    return World()


def paths(world: World, run_id: str, event_type: str) -> list[list[dict[str, Any]]]:
    """The group paths of the events of one type; lone calls have none."""
    payloads = [event["payload"] for event in world.events(run_id) if event["event_type"] == event_type]
    return [payload["parallel_group_path"] for payload in payloads if "parallel_group_path" in payload]


def test_a_nested_group_keeps_its_path_on_every_event_of_every_leaf(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, NESTED))
    expected = [
        [entry(1, 3, 0)],
        [entry(1, 3, 1), entry(2, 2, 0)],
        [entry(1, 3, 2), entry(2, 2, 1)],
    ]
    assert paths(world, run_id, "ActivityScheduled") == expected
    for _ in range(3):
        world.complete_activity(world.claim_activity().task)
    assert paths(world, run_id, "ActivityStarted") == expected
    assert paths(world, run_id, "ActivityCompleted") == expected
    payload = world.events(run_id)[-1]["payload"]
    assert {key: payload[key] for key in entry(2, 2, 1)} == entry(2, 2, 1)


def test_a_group_wakes_the_run_once_when_its_last_leaf_is_done(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, NESTED))
    tasks = [world.claim_activity().task for _ in range(3)]
    for index in (2, 0):
        assert accepted(world.complete_activity(tasks[index]))["next_task_id"] is None
        assert world.workflow_task(run_id) is None
    reply = accepted(world.fail_activity(tasks[1]))
    assert reply["next_task_id"] == f"{run_id}.t5"
    assert world.run(run_id).last_wake_sequence == world.run(run_id).last_history_sequence
    woken = world.claim_workflow()
    assert woken.task.resume == {
        "workflow_wait_kind": "activity",
        "open_wait_id": f"activity:{run_id}.a2",
        "resume_source_kind": "activity_execution",
        "resume_source_id": f"{run_id}.a2",
        "activity_execution_id": f"{run_id}.a2",
        "activity_attempt_id": f"{run_id}.a2.1",
        "activity_type": "b",
        "workflow_sequence": 2,
        "workflow_event_type": "ActivityFailed",
    }


def test_two_groups_of_one_batch_wake_separately(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, ("a", "b")), *group(3, ("c", "d")))
    tasks = [world.claim_activity().task for _ in range(4)]
    world.complete_activity(tasks[0])
    world.complete_activity(tasks[2])
    assert world.workflow_task(run_id) is None
    world.complete_activity(tasks[3])
    assert world.workflow_task(run_id) is not None


def test_a_group_sent_again_changes_nothing_and_closes_the_task(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("lone"), *group(2, NESTED))
    world.complete_activity(world.claim_activity().task)
    types = world.types(run_id)
    task = world.claim_workflow().task
    reply = accepted(world.complete(task, *group(2, NESTED)))
    assert reply["created_task_ids"] == []
    assert world.types(run_id) == types
    assert world.workflow_task(run_id) is None
    assert world.run(run_id).next_workflow_sequence == 5


def test_a_group_sent_again_after_it_is_done_is_refused_instead_of_hanging_the_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, ("a", "b")))
    for _ in range(2):
        world.complete_activity(world.claim_activity().task)
    task = world.claim_workflow().task
    assert list(rejected(world.complete(task, *group(1, ("a", "b")))).fields["errors"]) == ["commands"]
    assert world.workflow_task(run_id) == task


def test_a_group_sent_again_while_its_last_result_waits_for_the_lease_is_answered_and_woken(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("lone"), *group(2, ("a", "b")))
    tasks = [world.claim_activity().task for _ in range(3)]
    world.complete_activity(tasks[0])
    task = world.claim_workflow().task
    for late in tasks[1:]:
        world.complete_activity(late)
    accepted(world.complete(task, *group(2, ("a", "b"))))
    assert world.types(run_id)[-2:] == ["ActivityCompleted", "ActivityCompleted"]
    assert world.workflow_task(run_id) is not None


def test_a_wrong_guess_of_the_base_is_shifted_on_every_level(world: World) -> None:
    run_id = world.start()
    world.decide_with(side_effect(), side_effect(), *group(1, NESTED))
    assert paths(world, run_id, "ActivityScheduled") == [
        [entry(3, 3, 0)],
        [entry(3, 3, 1), entry(4, 2, 0)],
        [entry(3, 3, 2), entry(4, 2, 1)],
    ]
    assert [world.activity(run_id, sequence).group_base for sequence in (3, 4, 5)] == [3, 3, 3]
    (stored,) = world.memory.of_run("groups", run_id)
    assert (stored["base_sequence"], stored["size"], stored["open_count"]) == (3, 3, 3)


def test_a_group_whose_base_names_another_recorded_group_is_a_new_group(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, ("a", "b")))
    for _ in range(2):
        world.complete_activity(world.claim_activity().task)
    world.decide_with(*group(1, ("a", "b", "c")))
    assert paths(world, run_id, "ActivityScheduled")[2:] == [[entry(3, 3, index)] for index in range(3)]


def test_a_group_of_another_shape_at_a_recorded_base_is_a_new_group(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("lone"), *group(2, ("a", ("b", "c"))))
    world.complete_activity(world.claim_activity().task)
    world.decide_with(*group(2, (("a", "b"), "c")))
    assert [path[0] for path in paths(world, run_id, "ActivityScheduled")[3:]] == [entry(5, 3, i) for i in range(3)]


def test_a_batch_with_more_than_the_recorded_group_is_no_repetition(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("lone"), *group(2, ("a", "b")))
    world.complete_activity(world.claim_activity().task)
    world.decide_with(*group(2, ("a", "b")), activity("more"))
    assert world.run(run_id).next_workflow_sequence == 7


def test_closing_the_run_cancels_open_leaves_with_their_paths(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, NESTED))
    world.terminate()
    assert paths(world, run_id, "ActivityCancelled") == paths(world, run_id, "ActivityScheduled")


def test_the_largest_group_is_accepted_and_counted_down(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, ["a"] * 1000))
    for task in [claimed.task for claimed in world.poll(TaskKind.ACTIVITY, slots=10)]:
        world.complete_activity(task)
    assert world.memory.of_run("groups", run_id)[0]["open_count"] == 990


def changed(command: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A grouped command whose only path entry, and flat keys, are changed."""
    path: list[dict[str, Any]] = [command["parallel_group_path"][-1] | fields]
    return command | path[-1] | {"parallel_group_path": path}


PAIR = group(1, ("a", "b"))


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        pytest.param(PAIR[:1], "commands.0", id="incomplete"),
        pytest.param([activity(), PAIR[1]], "commands.1", id="starts in the middle"),
        pytest.param([PAIR[0], activity(), PAIR[1]], "commands.0", id="not contiguous"),
        pytest.param([PAIR[1], PAIR[0]], "commands.0", id="out of order"),
        pytest.param([*PAIR, *group(3, ("c", "d"))[:1]], "commands.2", id="second group incomplete"),
        pytest.param([activity(), changed(PAIR[0], parallel_group_kind="other"), PAIR[1]], "commands.1", id="kind"),
        pytest.param([changed(PAIR[0], parallel_group_kind="timer"), PAIR[1]], "commands.0", id="kind of another call"),
        pytest.param([PAIR[0], changed(PAIR[1], parallel_group_id="x")], "commands.1", id="id"),
        pytest.param([PAIR[0], changed(PAIR[1], parallel_group_index=2)], "commands.1", id="index beyond the size"),
        pytest.param([changed(PAIR[0], parallel_group_size=1001), PAIR[1]], "commands.0", id="too many leaves"),
        pytest.param([changed(PAIR[0], parallel_group_base_sequence=0), PAIR[1]], "commands.0", id="base"),
        pytest.param([changed(PAIR[0], parallel_group_base_sequence=2**80), PAIR[1]], "commands.0", id="huge base"),
        pytest.param([changed(PAIR[0], parallel_group_index=True), PAIR[1]], "commands.0", id="boolean index"),
        pytest.param([changed(PAIR[0], parallel_group_mode="select"), PAIR[1]], "commands.0", id="selection"),
        pytest.param([PAIR[0] | {"parallel_group_index": 1}, PAIR[1]], "commands.0", id="flat keys differ"),
        pytest.param([PAIR[0] | {"parallel_group_path": []}, PAIR[1]], "commands.0", id="empty path"),
        pytest.param([PAIR[0] | {"parallel_group_path": None}, PAIR[1]], "commands.0", id="no path"),
        pytest.param([leaf([entry(1, 1, 0), entry(2, 1, 0)])], "commands.0", id="levels disagree"),
        pytest.param([leaf([entry(1, 2, 0), entry(1, 2, 0)]), leaf([entry(1, 2, 1)])], "commands.0", id="nested"),
    ],
)
def test_wrong_group_metadata_is_refused_on_the_path_of_its_command(batch: list[dict[str, Any]], field: str) -> None:
    parsed, errors = parse_commands(batch)
    assert parsed is None
    assert list(errors) == [f"{field}.parallel_group_path"]


def test_a_mixed_group_of_activities_is_accepted(world: World) -> None:
    run_id = world.start()
    mixed = [
        entry(1, 2, index) | {"parallel_group_id": "parallel-calls:1:2", "parallel_group_kind": "mixed"}
        for index in range(2)
    ]
    world.decide_with(side_effect(), *(leaf([level]) for level in mixed))
    shifted = paths(world, run_id, "ActivityScheduled")
    assert [path[0]["parallel_group_id"] for path in shifted] == ["parallel-calls:2:2"] * 2


def test_a_run_with_groups_completes(world: World) -> None:
    run_id = world.start()
    world.decide_with(*group(1, ("a", "b")))
    for _ in range(2):
        world.complete_activity(world.claim_activity().task)
    world.decide_with(finish())
    assert world.run(run_id).status == "completed"
