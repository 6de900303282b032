"""The bounds of a history refuse by name, and never leave a run without an end."""

from __future__ import annotations

from dw_core.engine.inputs import EndOverfullRun
from dw_core.limits import Limits
from tests.unit.engine.commands import activity, continued, finish, side_effect
from tests.unit.engine.world import World, accepted, rejected


def test_a_batch_of_too_many_events_is_refused_and_changes_nothing() -> None:
    world = World(Limits(history_transaction_size=2))
    run_id = world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    refused = rejected(world.complete(task, *[side_effect()] * 3))
    assert (refused.reason, refused.fields["limit_kind"]) == ("structural_limit_exceeded", "history_transaction_size")
    assert (refused.fields["current_value"], refused.fields["configured_limit"]) == (3, 2)
    assert world.memory.image() == image
    accepted(world.complete(task, side_effect(), finish()))
    assert world.run(run_id).status == "completed"


def test_a_payload_that_is_too_large_is_refused() -> None:
    world = World(Limits(payload_size_bytes=100))
    world.start()
    refused = rejected(world.complete(world.claim_workflow().task, side_effect("x" * 200)))
    assert refused.fields["limit_kind"] == "payload_size_bytes"


def test_a_full_history_may_still_end_or_go_on_in_a_new_run() -> None:
    for command in (finish(), continued()):
        world = World(Limits(history_events_max=2))
        run_id = world.start()
        accepted(world.complete(world.claim_workflow().task, command))
        assert world.run(run_id).is_terminal


def test_a_run_that_wants_to_go_on_with_a_full_history_is_failed() -> None:
    world = World(Limits(history_events_max=3))
    run_id = world.start()
    assert rejected(world.submit(EndOverfullRun(run_id=run_id))).reason == "run_not_active"
    world.decide_with(activity())
    world.complete_activity(world.claim_activity().task)
    task = world.claim_workflow().task
    refused = rejected(world.complete(task, activity()))
    assert (refused.fields["limit_kind"], refused.fields["configured_limit"]) == ("history_events", 3)
    accepted(world.submit(EndOverfullRun(run_id=run_id)))
    last = world.events(run_id)[-1]
    assert last["event_type"] == "WorkflowFailed"
    assert last["payload"]["failure_category"] == "structural_limit"
    assert last["payload"]["structural_limit_kind"] == "history_events"
    assert rejected(world.complete(task, activity())).reason == "run_closed"
    assert rejected(world.submit(EndOverfullRun(run_id=run_id))).reason == "run_not_active"
