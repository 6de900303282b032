"""Updates: accepted at once, applied by a task of their own, after the signals that came before them."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.inputs import Verdict
from dw_core.engine.update_tasks import update_of
from dw_core.engine.updates import VALIDATION_REQUIRED
from dw_core.limits import Limits
from dw_core.payloads.codec import encode_blob
from tests.unit.engine.commands import activity, apply, child, continued, finish, refuse, select, timer, wait
from tests.unit.engine.world import World, accepted, rejected

PARAMETER = {"name": "amount", "position": 0, "required": True, "type": "int", "allows_null": False}
CONTRACT: dict[str, Any] = {
    "signals": ["go"],
    "signal_contracts": [{"name": "go", "parameters": [PARAMETER]}],
    "updates": ["add", "checked"],
    "update_contracts": [{"name": "add", "parameters": [PARAMETER, PARAMETER | {"name": "unit", "position": 1}]}],
    "update_validators": ["checked"],
}


@pytest.fixture
def world() -> World:
    return World()


def payload(world: World, run_id: str, event_type: str) -> dict[str, Any]:
    """The payload of the only event of a type."""
    (found,) = [event["payload"] for event in world.events(run_id) if event["event_type"] == event_type]
    assert isinstance(found, dict)
    return found


def test_an_update_is_the_only_wake_of_a_waiting_run(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait())
    reply = accepted(world.update("w", "add", 5))
    update_id, command_id = reply["update_id"], reply["command_id"]
    assert update_id == f"{command_id}.u"
    assert (reply["update_status"], reply["outcome"]) == ("accepted", None)
    task = world.claim_workflow().task
    assert task.resume == {
        "workflow_wait_kind": "update",
        "open_wait_id": f"update:{update_id}",
        "resume_source_kind": "workflow_update",
        "resume_source_id": update_id,
        "workflow_update_id": update_id,
        "workflow_command_id": command_id,
        "workflow_event_type": "UpdateAccepted",
    }
    accepted(world.complete(task, apply(update_id, 6)))
    named = {
        "update_id": update_id,
        "update_name": "add",
        "workflow_command_id": command_id,
        "workflow_instance_id": "w",
        "workflow_run_id": run_id,
    }
    given = {"arguments": {"codec": "avro", "blob": encode_blob([5])}, "payload_codec": "avro"}
    assert payload(world, run_id, "UpdateAccepted") == named | given | {"ordering_state": "ready"}
    assert payload(world, run_id, "UpdateApplied") == named | given | {"sequence": 1}
    assert payload(world, run_id, "UpdateCompleted") == named | {
        "sequence": 1,
        "result": {"codec": "avro", "blob": encode_blob(6)},
        "payload_codec": "avro",
    }
    row = world.updates(run_id)[0]
    assert (row.status, row.outcome, row.result) == ("completed", "update_completed", encode_blob(6))
    assert (row.applied_at, row.closed_at) == (world.now, world.now)
    follow_up = world.claim_workflow().task
    assert update_of(follow_up) is None, "the condition may be met now"
    accepted(world.complete(follow_up, finish()))


def test_a_failed_update_is_not_applied_and_wakes_nobody(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait())
    update_id = accepted(world.update())["update_id"]
    accepted(world.complete(world.claim_workflow().task, refuse(update_id, exception_type="ValueError")))
    failed = payload(world, run_id, "UpdateCompleted")
    assert failed | {"message": "no", "exception_type": "ValueError", "failure_id": f"{update_id}.f"} == failed
    assert "UpdateApplied" not in world.types(run_id)
    assert world.workflow_task(run_id) is None
    row = world.updates(run_id)[0]
    assert (row.status, row.outcome, row.failure_message) == ("failed", "update_failed", "no")
    assert world.run(run_id).open_update_count == 0


def test_an_update_that_nothing_waits_for_leaves_the_run_with_its_activity(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    update_id = accepted(world.update())["update_id"]
    accepted(world.complete(world.claim_workflow().task, apply(update_id)))
    assert payload(world, run_id, "UpdateCompleted")["sequence"] == 1
    assert world.workflow_task(run_id) is None


def test_an_applied_update_meets_the_selected_condition(world: World) -> None:
    run_id = world.start()
    world.decide_with(*select(1, timer(60), wait("chosen")))
    update_id = accepted(world.update())["update_id"]
    accepted(world.complete(world.claim_workflow().task, apply(update_id)))
    assert world.types(run_id)[-4:] == [
        "UpdateApplied",
        "ConditionWaitSatisfied",
        "SelectionResolved",
        "UpdateCompleted",
    ]
    assert payload(world, run_id, "UpdateApplied")["sequence"] == 2
    assert update_of(world.claim_workflow().task) is None


def test_a_plain_wake_goes_before_an_update(world: World) -> None:
    run_id = world.start()
    update_id = accepted(world.update())["update_id"]
    assert update_of(world.decide_with(activity())) is None, "the start comes first"
    world.claim_activity()
    task = world.claim_workflow().task
    assert update_of(task) == update_id
    world.later(1)
    accepted(world.complete(task, apply(update_id)))
    assert world.workflow_task(run_id) is None


def test_what_arrives_during_an_update_waits_for_its_end_and_then_wakes(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    running = world.claim_activity().task
    update_id = accepted(world.update())["update_id"]
    task = world.claim_workflow().task
    world.complete_activity(running)
    accepted(world.update("w", "second"))
    accepted(world.complete(task, apply(update_id)))
    assert world.types(run_id)[-4:] == ["UpdateApplied", "UpdateCompleted", "ActivityCompleted", "UpdateAccepted"]
    assert update_of(world.decide_with(activity())) is None
    assert update_of(world.claim_workflow().task) is not None


def test_updates_are_applied_in_the_order_of_their_acceptance(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    asked = [accepted(world.update("w", "add", n))["update_id"] for n in range(4)]
    for update_id in asked:
        task = world.claim_workflow().task
        assert update_of(task) == update_id
        accepted(world.complete(task, apply(update_id)))
    assert [row.status for row in world.updates(run_id)] == ["completed"] * 4


def test_an_update_waits_until_an_earlier_signal_has_been_seen(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    signal = accepted(world.signal())
    update_id = accepted(world.update())["update_id"]
    assert {
        key: value
        for key, value in payload(world, run_id, "UpdateAccepted").items()
        if key.startswith(("ordering", "queued"))
    } == {
        "ordering_state": "queued",
        "queued_behind_command_id": signal["command_id"],
        "queued_behind_command_sequence": signal["command_sequence"],
        "queued_behind_command_type": "signal",
    }
    plain = world.claim_workflow().task
    assert update_of(plain) is None
    world.signal("w", "later")
    accepted(world.wait(plain))
    assert update_of(world.claim_workflow().task) == update_id, "a later signal does not hold it up"


def test_a_signal_between_two_updates_is_seen_before_the_second(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait())
    first = accepted(world.update())["update_id"]
    task = world.claim_workflow().task
    world.signal()
    second = accepted(world.update())["update_id"]
    accepted(world.complete(task, apply(first)))
    assert update_of(world.decide_with(wait())) is None
    assert update_of(world.claim_workflow().task) == second
    assert world.run(run_id).pending_signal_count == 0


@pytest.mark.parametrize("commands", [[activity()], [apply("other")], [finish()]])
def test_an_update_task_takes_nothing_but_its_update(world: World, commands: list[dict[str, Any]]) -> None:
    world.start()
    world.decide_with(wait())
    update_id = accepted(world.update())["update_id"]
    task = world.claim_workflow().task
    assert rejected(world.complete(task, *commands)).reason == "validation_failed"
    twice = rejected(world.complete(task, apply(update_id), apply(update_id)))
    assert list(twice.fields["errors"]) == ["commands.1.type"]
    accepted(world.complete(task, apply(update_id)))


def test_a_plain_task_reports_on_no_update(world: World) -> None:
    world.start()
    update_id = accepted(world.update())["update_id"]
    task = world.claim_workflow().task
    for command in (apply(update_id), refuse(update_id)):
        assert list(rejected(world.complete(task, command)).fields["errors"]) == ["commands.0.update_id"]


def test_a_lost_and_a_failed_update_task_come_again(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait())
    update_id = accepted(world.update())["update_id"]
    lost = world.claim_workflow().task
    world.later(300)
    world.sweep()
    again = world.claim_workflow().task
    assert update_of(again) == update_id
    assert rejected(world.complete(lost, apply(update_id))).reason == "workflow_task_attempt_mismatch"
    accepted(world.wait(again))
    world.later(60)
    task = world.claim_workflow().task
    assert update_of(task) == update_id, "an update task cannot wait for history"
    reply = accepted(world.complete(task, apply(update_id)))
    assert accepted(world.complete(task, apply(update_id))) == reply
    assert world.types(run_id).count("UpdateApplied") == 1


def test_an_update_sent_again_is_accepted_once(world: World) -> None:
    run_id = world.start()
    first = accepted(world.update("w", "add", 1, request_id="r"))
    again = accepted(world.update("w", "add", 1, request_id="r"))
    assert again == first | {"retained": True}
    conflict = rejected(world.update("w", "add", 2, request_id="r"))
    assert (conflict.reason, conflict.fields["retained_command_type"]) == ("request_id_conflict", "update")
    assert rejected(world.signal("w", "add", 1, request_id="r")).reason == "request_id_conflict"
    assert world.types(run_id).count("UpdateAccepted") == 1


def test_open_updates_follow_a_run_that_continues_as_new(world: World) -> None:
    run_id = world.start()
    world.decide_with(activity())
    seen = accepted(world.update("w", "add", 1))["update_id"]
    lost = world.claim_workflow().task
    world.complete_activity(world.claim_activity().task)
    accepted(world.complete(lost, refuse(seen)))
    task = world.claim_workflow().task
    first = accepted(world.update("w", "add", 2))["update_id"]
    world.signal("w", "go")
    second = accepted(world.update("w", "add", 3, request_id="r"))["update_id"]
    own = accepted(world.update("w", "own", run_id=run_id, target_scope="run"))["update_id"]
    accepted(world.complete(task, continued()))
    assert world.types(run_id)[-3:] == ["UpdateAccepted", "WorkflowContinuedAsNew", "UpdateCompleted"]
    assert world.events(run_id)[-1]["payload"]["update_id"] == own
    follower = str(world.run(run_id).continued_to_run_id)
    assert world.types(follower) == ["WorkflowStarted", "UpdateAccepted", "SignalReceived", "UpdateAccepted"]
    moved = [e["payload"] for e in world.events(follower) if e["event_type"] == "UpdateAccepted"]
    assert [(e["update_id"], e["ordering_state"], e["workflow_run_id"]) for e in moved] == [
        (first, "ready", follower),
        (second, "queued", follower),
    ]
    assert (world.run(run_id).open_update_count, world.run(follower).open_update_count) == (0, 2)
    assert accepted(world.update("w", "add", 3, request_id="r"))["update_id"] == second
    assert update_of(world.decide_with(activity())) is None
    for update_id in (first, second):
        task = world.claim_workflow().task
        assert update_of(task) == update_id
        accepted(world.complete(task, apply(update_id)))


def test_an_update_in_history_is_accepted_again_by_the_run_that_continues(world: World) -> None:
    run_id = world.start()
    update_id = accepted(world.update("w", "add", 7))["update_id"]
    world.decide_with(continued())
    follower = str(world.run(run_id).continued_to_run_id)
    assert "UpdateCompleted" not in world.types(run_id)
    assert payload(world, follower, "UpdateAccepted")["arguments"]["blob"] == encode_blob([7])
    world.decide_with(activity())
    accepted(world.complete(world.claim_workflow().task, apply(update_id)))
    assert payload(world, follower, "UpdateApplied")["arguments"]["blob"] == encode_blob([7])


@pytest.mark.parametrize("end", ["finish", "terminate", "time out"])
def test_updates_that_are_open_when_the_run_closes_fail(world: World, end: str) -> None:
    run_id = world.start(run_timeout=100)
    task = world.claim_workflow().task
    reply = accepted(world.update())
    if end == "finish":
        accepted(world.complete(task, finish()))
    elif end == "terminate":
        accepted(world.terminate())
    else:
        world.later(100)
        world.sweep()
    assert world.types(run_id)[-1] == "UpdateCompleted"
    assert "UpdateAccepted" in world.types(run_id)[:-2]
    closed = world.run(run_id)
    failed = payload(world, run_id, "UpdateCompleted")
    assert failed["terminal_reason"] == closed.closed_reason
    assert failed["message"] == (f"Workflow run closed as {closed.status} before accepted update set could be applied")
    (row,) = world.updates(run_id)
    assert (row.status, row.failure_message, closed.open_update_count) == ("failed", failed["message"], 0)
    assert reply["update_id"] == row.update_id


def test_a_closed_run_takes_no_update(world: World) -> None:
    world.start()
    world.terminate()
    refusal = rejected(world.update(request_id="r"))
    assert (refusal.reason, refusal.fields["outcome"]) == ("run_not_active", "rejected_not_active")
    assert rejected(world.update(request_id="r")).fields["command_id"] == refusal.fields["command_id"]


def test_open_updates_are_limited() -> None:
    world = World(Limits(pending_update_count=2))
    world.start()
    world.decide_with(wait())
    for _ in range(2):
        last = accepted(world.update())
    refusal = rejected(world.update())
    assert (refusal.reason, refusal.fields["limit_kind"]) == ("structural_limit_exceeded", "pending_update_count")
    first = world.claim_workflow().task
    accepted(world.complete(first, apply(str(update_of(first)))))
    accepted(world.update())
    assert last["update_id"] != update_of(first)


def test_a_waiting_acknowledgement_with_an_open_update_is_no_failure(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    update_id = accepted(world.update())["update_id"]
    accepted(world.wait(task))
    accepted(world.complete(world.claim_workflow().task, apply(update_id)))
    assert world.workflow_task(run_id) is not None, "nothing else will wake this run"


# -- declared contracts --------------------------------------------------------------------------------------------


def test_a_run_records_what_live_workers_declare(world: World) -> None:
    world.memory.offered["greet"] = CONTRACT
    run_id = world.start()
    started = payload(world, run_id, "WorkflowStarted")
    assert {key: started[f"declared_{key}"] for key in CONTRACT} == CONTRACT


def test_children_and_successors_record_what_is_declared_for_them(world: World) -> None:
    world.memory.offered |= {"greet": CONTRACT, "child": CONTRACT | {"signals": ["other"]}}
    run_id = world.start()
    world.decide_with(child("child"), continued())
    runs = [key[0] for key in world.memory.tables["runs"] if key[0] != run_id]
    declared = {world.run(found).workflow_type: payload(world, found, "WorkflowStarted") for found in runs}
    assert declared["child"]["declared_signals"] == ["other"]
    assert declared["greet"]["declared_signals"] == ["go"]
    assert rejected(world.signal("w", "nothing")).reason == "unknown_signal"


@pytest.mark.parametrize("kind", ["signal", "update"])
def test_an_undeclared_name_is_refused_and_recorded(world: World, kind: str) -> None:
    world.memory.offered["greet"] = CONTRACT
    world.start()
    send = world.signal if kind == "signal" else world.update
    refusal = rejected(send("w", "nothing", request_id="r"))
    assert refusal.reason == f"unknown_{kind}"
    assert refusal.fields["outcome"] == f"rejected_unknown_{kind}"
    assert refusal.fields[f"declared_{kind}s"] == CONTRACT[f"{kind}s"]
    assert rejected(send("w", "nothing", request_id="r")).fields["retained"] is True


def test_arguments_must_fit_what_is_declared(world: World) -> None:
    world.memory.offered["greet"] = CONTRACT
    run_id = world.start()
    refusal = rejected(world.signal("w", "go"))
    assert (refusal.reason, refusal.fields["outcome"]) == ("invalid_signal_arguments", "rejected_invalid_arguments")
    assert refusal.fields["validation_errors"] == {"amount": ["is required"]}
    refusal = rejected(world.update("w", "add", 1, 2, 3))
    assert refusal.reason == "invalid_update_arguments"
    assert list(refusal.fields["validation_errors"]) == ["2"]
    accepted(world.signal("w", "go", 1))
    named = {"unit": "m", "amount": 4}
    accepted(world.update("w", "add", arguments=encode_blob(["m", 4]), named=named))
    assert payload(world, run_id, "UpdateAccepted")["arguments"]["blob"] == encode_blob([4, "m"])


def test_a_run_without_a_contract_takes_every_name(world: World) -> None:
    world.start()
    accepted(world.signal("w", "anything", 1, 2))
    accepted(world.update("w", "anything", 1, 2))


# -- validators ----------------------------------------------------------------------------------------------------


def test_an_update_with_a_validator_is_accepted_only_with_its_approval(world: World) -> None:
    world.memory.offered["greet"] = CONTRACT
    run_id = world.start()
    assert rejected(world.update("w", "checked")).reason == "update_validation_request_id_required"
    pending = rejected(world.update("w", "checked", request_id="r"))
    assert pending.reason == VALIDATION_REQUIRED
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted"]
    first = accepted(world.update("w", "checked", request_id="r", verdict=Verdict(is_approved=True)))
    again = accepted(world.update("w", "checked", request_id="r"))
    assert (again["update_id"], again["retained"]) == (first["update_id"], True)


def test_a_validators_refusal_never_enters_history_and_is_kept(world: World) -> None:
    world.memory.offered["greet"] = CONTRACT
    run_id = world.start()
    verdict = Verdict(is_approved=False, message="too much", errors={"amount": ["is too much"]})
    refusal = rejected(world.update("w", "checked", request_id="r", verdict=verdict))
    assert (refusal.reason, refusal.message) == ("update_validator_rejected", "too much")
    assert refusal.fields["outcome"] == "rejected_invalid_arguments"
    assert refusal.fields["validation_errors"] == {"amount": ["is too much"]}
    assert rejected(world.update("w", "checked", request_id="r")).reason == "update_validator_rejected"
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted"]
    assert world.updates(run_id) == []
