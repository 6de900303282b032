"""Condition waits and the signals that feed them."""

from __future__ import annotations

import pytest

from dw_core.engine.inputs import FireTimer
from dw_core.limits import Limits
from tests.unit.engine.commands import activity, finish, timer, wait
from tests.unit.engine.world import World, accepted, rejected


@pytest.fixture
def world() -> World:
    return World()


def test_a_signal_wakes_a_waiting_run_and_names_its_wait(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait())
    opened = world.events(run_id)[-1]
    assert (opened["event_type"], opened["payload"]) == (
        "ConditionWaitOpened",
        {
            "condition_wait_id": f"{run_id}.c1",
            "condition_key": "ready",
            "condition_definition_fingerprint": "sha256:f",
            "sequence": 1,
        },
    )
    reply = accepted(world.signal("w", "go", 1))
    payload = world.events(run_id)[-1]["payload"]
    assert payload["workflow_sequence"] == 1
    assert payload["workflow_command_id"] == reply["command_id"] == world.events(run_id)[-1]["workflow_command_id"]
    named = f"{reply['command_id']}.s"
    assert world.claim_workflow().task.resume == {
        "workflow_wait_kind": "signal",
        "open_wait_id": f"signal-application:{named}",
        "resume_source_kind": "workflow_signal",
        "resume_source_id": named,
        "workflow_signal_id": named,
        "signal_name": "go",
        "workflow_command_id": reply["command_id"],
        "workflow_event_type": "SignalReceived",
    }


def test_going_on_consumes_the_wait_before_anything_else(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=60))
    world.signal()
    world.decide_with(activity())
    assert world.types(run_id)[-3:] == ["ConditionWaitSatisfied", "TimerCancelled", "ActivityScheduled"]
    assert world.run(run_id).open_wait is None
    assert world.run(run_id).open_timer_count == 0


def test_asking_again_after_a_signal_opens_a_new_wait(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=60))
    world.later(50)
    world.signal()
    world.decide_with(wait(timeout_seconds=60))
    assert world.types(run_id)[-4:] == [
        "ConditionWaitSatisfied",
        "TimerCancelled",
        "ConditionWaitOpened",
        "TimerScheduled",
    ]
    world.later(59)
    assert world.due() == []
    world.later(1)
    world.sweep()
    assert world.types(run_id)[-1] == "ConditionWaitTimedOut"


def test_asking_again_without_news_changes_nothing(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity(), wait(timeout_seconds=60))
    world.complete_activity(world.claim_activity().task)
    before = world.types(run_id)
    world.decide_with(wait(timeout_seconds=60))
    assert world.types(run_id) == before
    world.later(60)
    world.sweep()
    assert world.types(run_id)[-1] == "ConditionWaitTimedOut"


def test_a_timeout_names_its_wait_and_wakes_the_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=5))
    world.later(5)
    world.sweep()
    fired, timed_out = world.events(run_id)[-2:]
    assert (fired["event_type"], timed_out["event_type"]) == ("TimerFired", "ConditionWaitTimedOut")
    assert (fired["payload"]["timer_kind"], fired["payload"]["condition_wait_id"]) == (
        "condition_timeout",
        f"{run_id}.c1",
    )
    assert timed_out["payload"]["timer_id"] == fired["payload"]["timer_id"] == f"{run_id}.m1"
    resume = world.claim_workflow().task.resume
    assert resume is not None
    assert (resume["workflow_wait_kind"], resume["open_wait_id"], resume["timer_id"]) == (
        "condition",
        f"{run_id}.c1",
        f"{run_id}.m1",
    )


def test_a_wait_of_no_time_is_over_at_once(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=0))
    assert world.types(run_id)[-4:] == ["ConditionWaitOpened", "TimerScheduled", "TimerFired", "ConditionWaitTimedOut"]
    world.decide_with(finish())


def test_a_timeout_under_a_lease_waits_for_the_decision(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=5))
    world.signal()
    task = world.claim_workflow().task
    world.later(5)
    assert accepted(world.submit(FireTimer(run_id=run_id, sequence=1)))["outcome"] == "put_off"
    assert world.due() == []
    accepted(world.complete(task, finish()))
    assert world.types(run_id)[-3:] == ["ConditionWaitSatisfied", "TimerCancelled", "WorkflowCompleted"]


def test_a_timeout_that_elapsed_under_a_lease_fires_when_the_lease_is_lost(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=5))
    world.signal()
    task = world.claim_workflow().task
    world.later(5)
    world.sweep()
    accepted(world.fail(task))
    assert world.types(run_id)[-2:] == ["TimerFired", "ConditionWaitTimedOut"]
    world.later(300)
    assert world.due() == []


def test_signals_under_a_lease_come_after_the_decision_and_belong_to_its_wait(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    for number in range(3):
        world.signal("w", "go", number)
    assert world.run(run_id).pending_signal_count == 3
    accepted(world.complete(task, timer(9), wait()))
    assert world.types(run_id)[-5:] == ["TimerScheduled", "ConditionWaitOpened", *["SignalReceived"] * 3]
    assert [event["payload"]["workflow_sequence"] for event in world.events(run_id)[-3:]] == [2, 2, 2]
    assert world.run(run_id).pending_signal_count == 3
    world.decide_with(wait())
    assert world.run(run_id).pending_signal_count == 0


def test_a_signal_that_arrives_while_the_run_completes_is_kept_before_the_end(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    world.signal()
    accepted(world.complete(task, finish()))
    assert world.types(run_id)[-2:] == ["SignalReceived", "WorkflowCompleted"]


def test_a_signal_does_not_wake_a_run_that_waits_for_an_activity(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    world.signal()
    assert world.workflow_task(run_id) is None
    assert world.types(run_id)[-1] == "SignalReceived"


def test_signals_that_nobody_takes_are_limited() -> None:
    world = World(Limits(pending_signal_count=2))
    world.start()
    for _ in range(2):
        accepted(world.signal())
    refusal = rejected(world.signal())
    assert (refusal.reason, refusal.fields["limit_kind"]) == ("structural_limit_exceeded", "pending_signal_count")
    world.decide_with(wait())
    accepted(world.signal())


def test_a_terminated_run_leaves_no_timeout_behind(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait(timeout_seconds=5))
    accepted(world.terminate())
    assert world.types(run_id)[-2:] == ["TimerCancelled", "WorkflowTerminated"]
    assert world.events(run_id)[-2]["payload"]["condition_wait_id"] == f"{run_id}.c1"
    world.later(9)
    assert world.due() == []


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (wait("no spaces"), "condition_key"),
        (wait("k" * 129), "condition_key"),
        (wait(timeout_seconds=-1), "timeout_seconds"),
        (wait(timeout_seconds=1.5), "timeout_seconds"),
        (wait(condition_definition_fingerprint="x" * 256), "condition_definition_fingerprint"),
    ],
)
def test_a_malformed_wait_is_refused(world: World, command: dict[str, object], field: str) -> None:
    world.start()
    refusal = rejected(world.complete(world.claim_workflow().task, command))
    assert list(refusal.fields["errors"]) == [f"commands.0.{field}"]


def test_nothing_follows_a_wait(world: World) -> None:
    world.start()
    task = world.claim_workflow().task
    refusal = rejected(world.complete(task, wait(), activity()))
    assert list(refusal.fields["errors"]) == ["commands.0.type"]
