"""Starting a run."""

from __future__ import annotations

import pytest

from dw_core.engine.rows import TaskState
from tests.unit.engine.commands import finish
from tests.unit.engine.world import START, World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def test_a_start_records_two_events_and_opens_a_ready_workflow_task(world: World) -> None:
    run_id = world.start("order-1", run_timeout=60)
    started = world.events(run_id)
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted"]
    assert [event["sequence"] for event in started] == [1, 2]
    assert started[1]["payload"] == {
        "workflow_command_id": started[1]["workflow_command_id"],
        "workflow_instance_id": "order-1",
        "workflow_id": "order-1",
        "workflow_run_id": run_id,
        "workflow_class": "greet",
        "workflow_type": "greet",
        "payload_codec": "avro",
        "input": {"codec": "avro", "blob": world.memory.details[run_id]["arguments"]},
        "run_timeout_seconds": 60,
        "run_deadline_at": "2026-11-30T18:01:00.000000Z",
    }
    assert started[1]["recorded_at"] == started[1]["timestamp"] == "2026-11-30T18:00:00.000000Z"
    task = world.workflow_task(run_id)
    assert task is not None
    assert (task.task_number, task.state, task.attempt, task.available_at) == (1, TaskState.READY, 0, START)
    assert task.resume == {"workflow_command_id": started[1]["workflow_command_id"]}
    assert world.run(run_id).status == "pending"


def test_a_second_start_is_refused_and_recorded(world: World) -> None:
    run_id = world.start()
    refusal = rejected(world.submit(world.start_input()))
    assert refusal.reason == "instance_already_started"
    assert (refusal.fields["outcome"], refusal.fields["run_id"]) == ("rejected_duplicate", run_id)
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted", "StartRejected"]
    commands = list(world.memory.tables["commands"].values())
    assert [(c["command_sequence"], c["status"], c["outcome"]) for c in commands] == [
        (1, "accepted", "started_new"),
        (2, "rejected", "rejected_duplicate"),
    ]
    assert len(world.tasks(run_id)) == 1


def test_a_start_that_is_sent_twice_is_answered_with_its_run_also_when_that_has_closed(world: World) -> None:
    scheduled = {"schedule_id": "nightly", "trigger_number": 1}
    first = accepted(world.submit(world.start_input(request_id="schedule:s:1", scheduled=scheduled)))
    run_id = first["run_id"]
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted", "ScheduleTriggered"]
    assert world.events(run_id)[-1]["payload"] == scheduled
    again = accepted(world.submit(world.start_input(request_id="schedule:s:1", scheduled=scheduled)))
    assert again == first | {"retained": True}
    world.terminate()
    assert accepted(world.submit(world.start_input(request_id="schedule:s:1")))["run_id"] == run_id
    assert rejected(world.submit(world.start_input(request_id="schedule:s:2"))).reason == "instance_already_started"
    assert world.types(run_id)[:3] == ["StartAccepted", "WorkflowStarted", "ScheduleTriggered"]


def test_use_existing_returns_the_open_run(world: World) -> None:
    run_id = world.start()
    reply = accepted(world.submit(world.start_input(duplicate_policy="use-existing")))
    assert (reply["run_id"], reply["outcome"]) == (run_id, "returned_existing_active")
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted", "StartAccepted"]
    assert len(world.tasks(run_id)) == 1


def test_use_existing_of_another_type_is_refused_on_its_field_and_changes_nothing(world: World) -> None:
    world.start()
    image = world.memory.image()
    other = world.start_input(duplicate_policy="use-existing", workflow_type="other")
    refusal = rejected(world.submit(other))
    assert refusal.reason == "validation_failed"
    assert list(refusal.fields["errors"]) == ["workflow_type"]
    assert world.memory.image() == image


@pytest.mark.parametrize("policy", ["fail", "use-existing"])
def test_a_closed_workflow_id_refuses_a_start_without_touching_its_history(world: World, policy: str) -> None:
    run_id = world.start()
    world.decide_with(finish())
    types = world.types(run_id)
    refusal = rejected(world.submit(world.start_input(duplicate_policy=policy)))
    assert refusal.reason == "instance_already_started"
    assert world.types(run_id) == types
    assert world.run(run_id).next_command_sequence == 3


def test_of_two_starts_in_one_batch_one_creates_the_run(world: World) -> None:
    run_id = world.start("a")
    replies = world.transact([world.start_input("a", duplicate_policy="use-existing") for _ in range(2)])
    assert [accepted(reply)["run_id"] for reply in replies] == [run_id, run_id]
    assert [row["sequence"] for row in world.memory.of_run("events", run_id)] == [1, 2, 3, 4]


def test_a_start_accepted_during_a_lease_leaves_the_lease_and_its_mark_alone(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    world.submit(world.start_input(duplicate_policy="use-existing"))
    assert task.claimed_history_sequence == 2
    accepted(world.complete(task, finish("ok")))
    assert world.types(run_id)[2:] == ["StartAccepted", "WorkflowCompleted"]
    assert world.run(run_id).status == "completed"
