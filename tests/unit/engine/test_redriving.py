"""Redriving a failed run: who may, and what the new run is."""

from __future__ import annotations

from itertools import takewhile, zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dw_core.engine.inputs import RedriveWorkflow, TerminateWorkflow
from dw_core.engine.rows import TaskKind
from tests.unit.engine.commands import activity, envelope, finish, give_up, group, side_effect, timer
from tests.unit.engine.world import NAMESPACE, Json, World


def redrive(world: World, run_id: str, **changes: Any) -> dict[str, Any]:
    command = RedriveWorkflow(
        namespace=NAMESPACE,
        workflow_id="w",
        run_id=run_id,
        target_scope="run",
        command_id=world.new_id(),
        **changes,
    )
    reply = world.submit(command)
    return reply if isinstance(reply, dict) else {"reason": reply.reason} | reply.fields


def failed(world: World) -> str:
    run_id = world.start()
    world.complete(world.claim_workflow().task, {"type": "fail_workflow", "message": "broken"})
    return run_id


def test_a_failed_run_is_followed_by_one_that_names_it() -> None:
    world = World()
    run_id = failed(world)
    reply = redrive(world, run_id, request_id="r")
    assert (reply["outcome"], reply["command_status"]) == ("redriven", "accepted")
    old, new = world.memory.tables["runs"][run_id,], world.memory.tables["runs"][reply["run_id"],]
    assert (old["status"], old["continued_to_run_id"]) == ("failed", new["run_id"])
    assert (new["status"], new["run_number"], new["redrive_of"]) == ("pending", 2, run_id)
    (started,) = world.memory.of_run("events", new["run_id"])
    assert started["event_type"] == "WorkflowStarted"
    assert f'"redriven_from_run_id":"{run_id}"' in started["body"]
    assert redrive(world, run_id, request_id="r") == reply | {"retained": True, "intent_verified": True}
    assert redrive(world, run_id)["reason"] == "selected_run_not_current"
    assert redrive(world, new["run_id"], request_id="r")["reason"] == "request_id_conflict"
    assert len(world.memory.tables["runs"]) == 2


@pytest.mark.parametrize("how", ["open", "terminated", "completed"])
def test_a_run_that_has_not_failed_refuses(how: str) -> None:
    world = World()
    run_id = world.start()
    if how == "terminated":
        world.submit(TerminateWorkflow(namespace=NAMESPACE, workflow_id="w", command_id=world.new_id()))
    elif how == "completed":
        world.complete(world.claim_workflow().task, {"type": "complete_workflow"})
    refused = redrive(world, run_id)
    assert (refused["reason"], refused["outcome"]) == ("run_not_failed", "rejected_run_not_failed")
    assert len(world.memory.tables["runs"]) == 1


class Failing:
    """A workflow that has run the activities "a" and "b" in turn, with a timer between them, and has failed then."""

    def __init__(self) -> None:
        self.world = World()
        self.run_id = self.world.start()
        self.step(activity("a", arguments=envelope(1)))
        self.world.complete_activity(self.world.claim_activity().task, "A")
        self.step(timer(1))
        self.world.later(1)
        self.world.sweep()
        self.step(activity("b"))
        self.world.complete_activity(self.world.claim_activity().task, "B")
        self.step(give_up())
        self.run_id = redrive(self.world, self.run_id)["run_id"]

    def step(self, *commands: Json) -> None:
        """Decide the next commands of the workflow."""
        self.world.complete(self.world.claim_workflow().task, *commands)

    def ended(self) -> list[tuple[int, str]]:
        """What the new run has of the old one, by sequence."""
        return [
            (event["payload"]["sequence"], event["payload"]["activity_type"])
            for event in self.world.events(self.run_id)
            if event["payload"].get("redriven_from_run_id") and event["event_type"] == "ActivityCompleted"
        ]

    def pass_timer(self) -> None:
        """Let the timer fire."""
        self.step(timer(1))
        self.world.later(1)
        self.world.sweep()


def test_results_are_taken_over_as_long_as_the_run_goes_the_same_way() -> None:
    it = Failing()
    it.step(activity("a", arguments=envelope(1)))
    it.pass_timer()
    it.step(activity("b"))
    assert it.ended() == [(1, "a"), (3, "b")]
    it.step(activity("c"))
    assert it.world.run(it.run_id).redrive_of is None
    assert it.world.claim_activity().task.activity_sequence == 4


@pytest.mark.parametrize(
    "first",
    [[activity("a", arguments=envelope(2))], [activity("b")], [timer(1)]],
    ids=["other arguments", "another type", "another call"],
)
def test_behind_the_first_difference_everything_runs_anew(first: list[Json]) -> None:
    it = Failing()
    it.step(*first)
    if first[0]["type"] == "schedule_activity":
        it.world.complete_activity(it.world.claim_activity().task)
    else:
        it.world.later(1)
        it.world.sweep()
    assert it.world.run(it.run_id).redrive_of is None
    it.pass_timer()
    it.step(activity("b"))
    assert it.ended() == []
    assert it.world.claim_activity().task.activity_sequence == 3


def test_an_activity_that_had_failed_runs_and_the_rest_of_its_group_does_not() -> None:
    world = World()
    run_id = world.start()
    world.complete(world.claim_workflow().task, *group(1, ["a", "b", "c"]))
    for _ in range(3):
        task = world.claim_activity().task
        if task.activity_sequence == 2:
            world.fail_activity(task, {"message": "no", "non_retryable": True})
        else:
            world.complete_activity(task, task.activity_sequence)
    world.complete(world.claim_workflow().task, give_up())
    new = redrive(world, run_id)["run_id"]
    world.complete(world.claim_workflow().task, *group(1, ["a", "b", "c"]))
    task = world.claim_activity().task
    assert (task.run_id, task.activity_sequence) == (new, 2)
    world.complete_activity(task, "mended")
    world.complete(world.claim_workflow().task, finish())
    results = [e["payload"]["sequence"] for e in world.events(new) if e["event_type"] == "ActivityCompleted"]
    assert sorted(results) == [1, 2, 3]
    assert world.run(new).closed_reason == "completed"


STEPS = st.lists(
    st.builds(lambda name, value: activity(name, arguments=envelope(value)), st.sampled_from("ab"), st.integers(0, 1))
    | st.just(timer(1))
    | st.just(side_effect()),
    max_size=5,
)


def play(world: World, steps: list[Json], *, failing: set[int], end: Json) -> list[int]:
    """Do the steps one by one; the activities at the places in ``failing`` fail. Which of them a worker has run."""
    ran = []
    for place, command in enumerate(steps, start=1):
        world.complete(world.claim_workflow().task, command)
        if command["type"] == "start_timer":
            world.later(1)
            world.sweep()
        for found in world.poll(TaskKind.ACTIVITY):
            ran.append(place)
            if place in failing:
                world.fail_activity(found.task, {"message": "no", "non_retryable": True})
            else:
                world.complete_activity(found.task, f"result {place}")
    world.complete(world.claim_workflow().task, end)
    return ran


@given(before=STEPS, after=STEPS, common=st.integers(0, 5), failing=st.sets(st.integers(1, 5)))
def test_a_worker_runs_what_lies_behind_the_first_difference_or_had_failed(
    before: list[Json], after: list[Json], common: int, failing: set[int]
) -> None:
    after = before[:common] + after
    world = World()
    run_id = world.start()
    play(world, before, failing=failing, end=give_up())
    redrive(world, run_id)
    ran = play(world, after, failing=set(), end=finish())

    def activities(steps: list[Json]) -> list[Json | None]:
        return [step if step["type"] == "schedule_activity" else None for step in steps]

    same = list(takewhile(lambda pair: pair[0] == pair[1], zip_longest(activities(before), activities(after))))
    kept = {place for place, (step, _) in enumerate(same, start=1) if step is not None} - failing
    assert ran == [n for n, step in enumerate(after, 1) if step["type"] == "schedule_activity" and n not in kept]
