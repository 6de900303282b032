"""Completing, failing and keeping a workflow task."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dw_core.engine.rows import TaskKind, TaskState
from dw_core.limits import SECONDS_MAX, Limits
from dw_core.payloads.codec import EMPTY_LIST_BLOB, encode_blob
from tests.unit.engine.commands import activity, envelope, finish, give_up, side_effect, timer, version
from tests.unit.engine.world import START, World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def test_the_history_of_one_activity_has_these_events_with_these_payloads(world: World) -> None:
    run_id = world.start()
    first = world.claim_workflow().task
    reply = accepted(world.complete(first, activity("greet", arguments=envelope(["Ada"]))))
    assert reply == {
        "task_id": f"{run_id}.t1",
        "workflow_task_attempt": 1,
        "outcome": "completed",
        "recorded": True,
        "run_id": run_id,
        "run_status": "waiting",
        "created_task_ids": [f"{run_id}.t2"],
        "reason": None,
    }
    world.later(1)
    claimed = world.claim_activity()
    assert claimed.arguments == encode_blob(["Ada"])
    reply = accepted(world.complete_activity(claimed.task, "Hello"))
    assert reply == {
        "task_id": f"{run_id}.t2",
        "activity_attempt_id": f"{run_id}.a1.1",
        "outcome": "completed",
        "recorded": True,
        "reason": None,
        "next_task_id": f"{run_id}.t3",
    }
    world.decide_with(finish("Hello"))
    scheduled, started, completed, closed = world.events(run_id)[2:]
    assert world.types(run_id)[2:] == ["ActivityScheduled", "ActivityStarted", "ActivityCompleted", "WorkflowCompleted"]
    identity = {"sequence": 1, "activity_type": "greet", "activity_execution_id": f"{run_id}.a1"}
    attempt = {"activity_attempt_id": f"{run_id}.a1.1", "attempt_number": 1}
    assert scheduled["payload"] == identity | {"activity_class": "greet", "queue": "q"}
    assert scheduled["workflow_task_id"] == f"{run_id}.t1"
    assert started["payload"] == identity | attempt | {
        "lease_owner": "worker",
        "lease_expires_at": "2026-11-30T18:05:01.000000Z",
    }
    assert completed["payload"] == identity | attempt | {"result": encode_blob("Hello"), "payload_codec": "avro"}
    assert closed["payload"] == {"output": encode_blob("Hello"), "payload_codec": "avro"}
    assert closed["workflow_task_id"] == f"{run_id}.t3"
    run = world.run(run_id)
    assert (run.status, run.closed_reason, run.closed_at) == ("completed", "completed", START + timedelta(seconds=1))
    assert world.tasks(run_id) == []


def test_absent_arguments_are_an_empty_list_and_an_absent_result_is_null(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    assert world.activity(run_id, 1).arguments == EMPTY_LIST_BLOB
    world.complete_activity(world.claim_activity().task)
    world.decide_with({"type": "complete_workflow"})
    assert world.events(run_id)[-1]["payload"]["output"] == encode_blob(None)


def test_workflow_sequence_counts_durable_calls_and_history_sequence_counts_events(world: World) -> None:
    run_id = world.start()
    world.decide_with(side_effect(), version(), activity("a"), activity("b"))
    numbered = [(e["sequence"], e["payload"]["sequence"], e["event_type"]) for e in world.events(run_id)[2:]]
    assert numbered == [
        (3, 1, "SideEffectRecorded"),
        (4, 2, "VersionMarkerRecorded"),
        (5, 3, "ActivityScheduled"),
        (6, 4, "ActivityScheduled"),
    ]
    assert world.run(run_id).next_workflow_sequence == 5


def test_a_failed_workflow_records_who_failed_it(world: World) -> None:
    run_id = world.start()
    command = give_up(
        "no card",
        exception_type="CardDeclined",
        exception_class="billing.CardDeclined",
        non_retryable=True,
        exception={"type": "CardDeclined", "code": 4},
        failed_step_sequence=1,
        failed_activity_execution_id="x.a1",
    )
    world.decide_with(command)
    assert world.events(run_id)[-1]["payload"] == {
        "failure_id": f"{run_id}.f",
        "source_kind": "activity_execution",
        "source_id": "x.a1",
        "failure_category": "activity",
        "non_retryable": True,
        "exception_type": "CardDeclined",
        "exception_class": "billing.CardDeclined",
        "message": "no card",
        "exception": {"type": "CardDeclined", "code": 4},
        "failed_step_sequence": 1,
    }
    assert (world.run(run_id).status, world.run(run_id).closed_reason) == ("failed", "failed")


def test_a_waiting_acknowledgement_closes_the_task_without_a_trace_in_history(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity("a"), activity("b"))
    world.complete_activity(world.claim_activity().task)
    types = world.types(run_id)
    task = world.claim_workflow().task
    reply = accepted(world.wait(task))
    assert (reply["outcome"], reply["recorded"], reply["next_task_id"]) == ("waiting_for_history", True, None)
    assert world.types(run_id) == types
    assert world.workflow_task(run_id) is None
    assert world.run(run_id).task_failure_count == 0


def test_waiting_with_nothing_open_is_a_failure_and_repeating_it_gives_the_same_answer(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    reply = accepted(world.wait(task))
    assert (reply["outcome"], reply["next_task_id"]) == ("failed", f"{run_id}.t2")
    image = world.memory.image()
    assert world.wait(task) == reply
    assert world.memory.image() == image
    replacement = world.workflow_task(run_id)
    assert replacement is not None and replacement.available_at == START + timedelta(seconds=3)


def test_failures_back_off_and_replay_failures_block_after_five(world: World) -> None:
    run_id = world.start()
    pauses: list[float] = []
    blocked: list[bool] = []
    for _ in range(5):
        task = world.claim_workflow().task
        assert task.attempt == 1
        accepted(world.fail(task, "differs", "NonDeterministicReplayError"))
        replacement = world.workflow_task(run_id)
        assert replacement is not None
        pause = (replacement.available_at - world.now).total_seconds()
        assert world.poll(TaskKind.WORKFLOW) == []
        pauses.append(pause)
        blocked.append(world.run(run_id).replay_blocked)
        world.later(min(pause, 24))
    assert pauses == [3, 6, 12, 24, SECONDS_MAX]
    assert blocked == [False, False, False, False, True]


def test_other_failures_double_to_the_longest_pause_and_never_block(world: World) -> None:
    run_id = world.start()
    pauses = []
    for _ in range(6):
        world.fail(world.claim_workflow().task, "boom", "KeyError")
        replacement = world.workflow_task(run_id)
        assert replacement is not None
        pauses.append((replacement.available_at - world.now).total_seconds())
        world.later(pauses[-1])
    assert pauses == [3, 6, 12, 24, 48, 60]
    assert not world.run(run_id).replay_blocked
    assert world.run(run_id).status == "pending"


@pytest.mark.parametrize("message", ["no workflow registered for type 'x'", "boom"])
def test_an_unregistered_type_counts_as_a_replay_failure(world: World, message: str) -> None:
    run_id = world.start()
    for _ in range(5):
        world.fail(world.claim_workflow().task, message)
        world.later(60)
    assert world.run(run_id).replay_blocked is (message != "boom")


def test_a_heartbeat_renews_the_lease_from_now(world: World) -> None:
    world.start()
    task = world.claim_workflow().task
    world.later(299)
    reply = accepted(world.heartbeat(task))
    assert reply == {
        "task_id": f"{task.run_id}.t1",
        "workflow_task_attempt": 1,
        "lease_owner": "worker",
        "renewed": True,
        "lease_expires_at": "2026-11-30T18:09:59.000000Z",
        "run_status": "pending",
        "task_status": "leased",
        "reason": None,
    }
    world.later(299)
    assert world.sweep() == []
    accepted(world.complete(task, finish()))


def test_a_check_answers_the_claim_mark_and_changes_nothing(world: World) -> None:
    world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    assert accepted(world.check(task))["claimed_history_sequence"] == 2
    assert world.memory.image() == image


def test_an_expired_lease_gives_the_same_task_to_the_next_claim_with_a_higher_attempt(world: World) -> None:
    run_id = world.start()
    world.claim_workflow("first")
    world.later(300)
    assert [accepted(reply)["outcome"] for reply in world.sweep()] == ["lease_expired"]
    task = world.workflow_task(run_id)
    assert task is not None
    assert (task.state, task.attempt, task.repair_count, task.lease_owner) == (TaskState.READY, 1, 1, None)
    again = world.claim_workflow("second").task
    assert (again.task_number, again.attempt, again.lease_owner) == (1, 2, "second")


def test_recorded_values_alone_wake_the_run_once_more(world: World) -> None:
    run_id = world.start()
    world.decide_with(side_effect())
    assert world.claim_workflow().task.claimed_history_sequence == 3
    assert world.poll(TaskKind.WORKFLOW) == []
    assert world.run(run_id).last_wake_sequence == 3


def test_recorded_values_beside_open_work_wake_nobody(world: World) -> None:
    run_id = world.start()
    world.decide_with(side_effect(), activity())
    assert world.workflow_task(run_id) is None


def test_a_change_id_recorded_again_with_the_same_version_is_ignored(world: World) -> None:
    run_id = world.start()
    world.decide_with(version("c", 1), version("c", 1), activity())
    assert world.types(run_id)[2:] == ["VersionMarkerRecorded", "ActivityScheduled"]
    assert world.events(run_id)[2]["payload"] == {
        "sequence": 1,
        "change_id": "c",
        "version": 1,
        "min_supported": -1,
        "max_supported": 2,
    }
    world.complete_activity(world.claim_activity().task)
    world.decide_with(version("c", 1), activity())
    assert world.types(run_id).count("VersionMarkerRecorded") == 1


@pytest.mark.parametrize("is_later", [False, True])
def test_a_change_id_with_another_version_refuses_the_batch(world: World, is_later: bool) -> None:
    world.start()
    if is_later:
        world.decide_with(version("c", 1), side_effect())
    task = world.claim_workflow().task
    image = world.memory.image()
    batch = [activity(), version("c", 2)] if is_later else [version("c", 1), version("c", 2)]
    refusal = rejected(world.complete(task, *batch))
    assert refusal.reason == "validation_failed"
    assert list(refusal.fields["errors"]) == ["commands.1.version"]
    assert world.memory.image() == image


def test_a_batch_that_records_nothing_on_a_run_that_waits_for_nothing_is_refused(world: World) -> None:
    run_id = world.start()
    world.decide_with(version("c", 1))
    task = world.claim_workflow().task
    refusal = rejected(world.complete(task, version("c", 1)))
    assert (refusal.reason, list(refusal.fields["errors"])) == ("validation_failed", ["commands"])
    assert world.workflow_task(run_id) == task
    accepted(world.complete(task, version("c", 1), finish()))


@pytest.mark.parametrize(("kind", "shown"), [(None, ""), ("", ""), (7, ""), ("x" * 65, ": " + "x" * 64)])
def test_the_refusal_shows_no_more_of_a_command_type_than_a_name_needs(world: World, kind: object, shown: str) -> None:
    world.start()
    refusal = rejected(world.complete(world.claim_workflow().task, {"type": kind}))
    assert refusal.fields["errors"] == {"commands.0.type": [f"is not a supported command type{shown}"]}


def test_an_invalid_batch_is_refused_whole_and_the_lease_stays(world: World) -> None:
    world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    refusal = rejected(world.complete(task, activity(), {"type": "no_such_command"}))
    assert refusal.fields == {
        "task_id": f"{task.run_id}.t1",
        "workflow_task_attempt": 1,
        "errors": {"commands.1.type": ["is not a supported command type: no_such_command"]},
        "validation_errors": {"commands.1.type": ["is not a supported command type: no_such_command"]},
    }
    assert world.memory.image() == image
    accepted(world.complete(task, activity()))


@pytest.mark.parametrize(
    ("limits", "kind", "value"),
    [
        (Limits(pending_activity_count=2), "pending_activity_count", 3),
        (Limits(max_pending_activities=2), "pending_activity_count", 3),
        (Limits(command_batch_size=2), "command_batch_size", 3),
    ],
)
def test_a_batch_beyond_a_structural_limit_is_refused_whole(limits: Limits, kind: str, value: int) -> None:
    world = World(limits)
    world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    refusal = rejected(world.complete(task, *[activity()] * 3))
    assert refusal.reason == "structural_limit_exceeded"
    assert refusal.fields == {
        "task_id": f"{task.run_id}.t1",
        "workflow_task_attempt": 1,
        "outcome": "rejected",
        "limit_kind": kind,
        "current_value": value,
        "configured_limit": 2,
    }
    assert world.memory.image() == image


def test_activities_that_are_open_already_count_against_the_limit() -> None:
    world = World(Limits(pending_activity_count=2))
    world.start()
    world.decide_with(activity("a"), activity("b"))
    world.complete_activity(world.claim_activity().task)
    world.decide_with(activity("c"))
    world.complete_activity(world.claim_activity().task)
    refusal = rejected(world.complete(world.claim_workflow().task, activity("d"), activity("e")))
    assert refusal.fields["current_value"] == 3


def test_a_limit_of_zero_is_no_limit() -> None:
    world = World(Limits(pending_activity_count=0, max_pending_activities=0, command_batch_size=0))
    run_id = world.start()
    world.decide_with(*[activity()] * 1001)
    assert world.run(run_id).open_activity_count == 1001


def test_a_completion_names_every_task_it_has_opened() -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow().task
    reply = accepted(world.complete(task, timer(0), activity()))
    follow_up = world.workflow_task(run_id)
    assert follow_up is not None
    assert sorted(reply["created_task_ids"]) == sorted(f"{run_id}.t{t.task_number}" for t in world.tasks(run_id))
    assert accepted(world.complete(task, timer(0), activity())) == reply
