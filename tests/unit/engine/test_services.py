"""Service calls of workflows: admission, what the caller is told, and the runs that answer (engine §2.11, §6.18)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.rows import TaskKind
from dw_core.payloads.codec import encode_blob
from tests.unit.engine.commands import continued, finish, give_up, service, side_effect, timer, wait
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import NAMESPACE, QUEUE, World, accepted, rejected

BINDING = {"workflow_type": "greeting", "task_queue": QUEUE}


def world_with(**members: Any) -> World:
    """A world whose catalogue has ``greet``."""
    world = World()
    world.catalogue("greet", **({"handler_binding": BINDING} | members))
    return world


def test_the_run_that_answers_a_call_ends_it_and_wakes_the_caller() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    (call,) = world.accepted_calls()
    assert (call.service_call_id, call.caller_namespace) == (f"{run_id}.v1", NAMESPACE)
    started = world.events(run_id)[-1]
    assert started["event_type"] == "ServiceCallStarted"
    assert (started["payload"]["wait_for"], started["payload"]["operation_mode"]) == ("completed", "sync")
    assert world.workflow_task(run_id) is None

    reply = accepted(world.serve(call))
    assert world.call(call.service_call_id).linked_run_id == reply["run_id"]
    world.decide_with(finish("hello"))
    world.sweep()
    completed = world.events(run_id)[-1]
    assert completed["event_type"] == "ServiceCallCompleted"
    assert completed["payload"]["response_payload"] == {"codec": "avro", "blob": encode_blob("hello")}
    assert "exception_type" not in completed["payload"]
    assert "service_error_type" not in completed["payload"]["service_call"]
    task = world.claim_workflow().task
    assert task.resume is not None
    assert (task.resume["resume_source_kind"], task.resume["resume_source_id"]) == ("service_call", f"{run_id}.v1")
    accepted(world.complete(task, finish()))
    Watch(world).look()


def test_a_call_that_is_only_to_be_accepted_wakes_its_caller_at_once() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service(mode_override="async"))
    assert world.types(run_id)[-1] == "ServiceCallStarted"
    assert world.workflow_task(run_id) is not None
    world.end_call(f"{run_id}.v1")
    assert world.memory.deliveries == []


def test_a_failed_run_fails_the_call_with_its_exception() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    world.serve(world.accepted_calls()[0])
    world.decide_with(give_up("no", exception_type="ValueError"))
    world.sweep()
    failed = world.events(run_id)[-1]["payload"]
    assert (failed["outcome"], failed["exception_type"], failed["message"]) == ("handler_failed", "ValueError", "no")


def test_a_message_that_no_text_column_holds_is_kept_without_its_nul() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    world.serve(world.accepted_calls()[0])
    world.decide_with(give_up("a\0b"))
    assert world.call(f"{run_id}.v1").message == "ab"


def test_a_call_follows_its_run_over_continue_as_new() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    world.serve(world.accepted_calls()[0])
    world.decide_with(continued())
    world.sweep()
    assert world.types(run_id)[-1] == "ServiceCallStarted"
    world.decide_with(finish(7))
    world.sweep()
    assert world.types(run_id)[-1] == "ServiceCallCompleted"


@pytest.mark.parametrize(
    ("command", "outcome", "reason"),
    [
        (service("missing"), "rejected_not_found", "operation_not_found"),
        (service(namespace="elsewhere"), "rejected_not_found", "operation_not_found"),
        (service("guarded", namespace="other"), "rejected_forbidden", "cross_namespace_blocked"),
    ],
)
def test_what_cannot_be_resolved_or_is_not_let_in_fails_the_call_and_not_the_batch(
    command: dict[str, Any], outcome: str, reason: str
) -> None:
    world = world_with()
    world.catalogue("guarded", namespace="other", handler_binding=BINDING)
    run_id = world.start()
    world.decide_with(side_effect(), command)
    failed = world.events(run_id)[-1]
    assert failed["event_type"] == "ServiceCallFailed"
    surface = failed["payload"]["service_call"]
    assert (surface["outcome"], surface["reason"], surface["accepted"]) == (outcome, reason, False)
    assert failed["payload"]["sequence"] == 2
    assert world.workflow_task(run_id) is not None
    Watch(world).look()


def test_a_policy_lets_named_namespaces_in() -> None:
    world = world_with()
    policy = {"allowed_caller_namespaces": [NAMESPACE]}
    world.catalogue("open", namespace="other", handler_binding=BINDING, boundary_policy=policy)
    run_id = world.start()
    world.decide_with(service("open", namespace="Other"))
    started = world.events(run_id)[-1]["payload"]
    assert started["service_call"]["target_namespace"] == "Other"
    assert world.accepted_calls()[0].namespace == "other"


def test_a_repeated_key_is_the_first_call() -> None:
    world = world_with()
    first, second = world.start("a"), world.start("b")
    tasks = [found.task for found in world.poll(TaskKind.WORKFLOW, slots=2)]
    for task in tasks:
        accepted(world.complete(task, service(idempotency_key="once")))
    (call,) = world.accepted_calls()
    world.end_call(call.service_call_id, response_payload=encode_blob(1))
    world.sweep()
    ends = [world.events(run_id)[-1]["payload"] for run_id in (first, second)]
    assert {end["service_call_id"] for end in ends} == {call.service_call_id}
    third = world.start("c")
    for found in world.poll(TaskKind.WORKFLOW, slots=3):
        accepted(
            world.complete(found.task, service(idempotency_key="once") if found.task.run_id == third else finish())
        )
    assert world.types(third)[-1] == "ServiceCallCompleted"
    assert len(world.memory.services.calls) == 1
    Watch(world).look()


def test_a_completion_that_is_sent_twice_calls_once() -> None:
    world = world_with()
    run_id = world.start()
    task = world.claim_workflow().task
    reply = world.complete(task, service())
    image = world.memory.image()
    assert world.complete(task, service()) == reply
    assert world.memory.image() == image
    assert list(world.memory.services.calls) == [f"{run_id}.v1"]


def test_a_start_for_a_call_that_has_ended_starts_nothing() -> None:
    world = world_with()
    world.start()
    world.decide_with(service())
    (call,) = world.accepted_calls()
    world.end_call(call.service_call_id, "cancelled")
    runs = len(world.memory.tables["runs"])
    assert rejected(world.serve(call)).reason == "service_call_terminal"
    assert len(world.memory.tables["runs"]) == runs


def test_a_dispatcher_that_comes_second_finds_the_run() -> None:
    world = world_with()
    world.start()
    world.decide_with(service())
    (call,) = world.accepted_calls()
    first = accepted(world.serve(call))
    image = world.memory.image()
    assert accepted(world.serve(call))["run_id"] == first["run_id"]
    assert world.memory.image() == image


def test_a_standalone_activity_answers_a_call_once() -> None:
    world = World()
    world.catalogue("double", "activity_execution", handler_binding={"activity_type": "double", "task_queue": QUEUE})
    run_id = world.start()
    world.decide_with(service("double"))
    (call,) = world.accepted_calls()
    accepted(world.serve(call))
    image = world.memory.image()
    accepted(world.serve(call))
    assert world.memory.image() == image
    accepted(world.complete_activity(world.claim_activity().task, 42))
    world.sweep()
    completed = world.events(run_id)[-1]
    assert completed["event_type"] == "ServiceCallCompleted"
    assert completed["payload"]["response_payload"]["blob"] == encode_blob(42)
    Watch(world).look()


def test_an_update_answers_a_call_with_its_end() -> None:
    world = World()
    world.catalogue("count", "update_workflow", handler_target_reference="count")
    run_id = world.start("caller")
    world.decide_with(service("count", target_workflow_instance_id="counter"))
    world.start("counter")
    world.decide_with(wait())
    (call,) = world.accepted_calls()
    first = accepted(world.serve(call))
    assert world.call(call.service_call_id).linked_update_id == first["update_id"]
    assert accepted(world.serve(world.call(call.service_call_id)))["update_id"] == first["update_id"]
    accepted(world.terminate("counter"))
    world.sweep()
    failed = world.events(run_id)[-1]
    assert (failed["event_type"], failed["payload"]["exception_type"]) == ("ServiceCallFailed", "ServiceUpdateFailed")
    Watch(world).look()


def test_an_end_that_comes_during_a_lease_waits_for_its_end() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    accepted(world.request_cancellation())
    task = world.claim_workflow().task
    world.end_call(f"{run_id}.v1")
    world.sweep()
    assert world.types(run_id)[-1] != "ServiceCallCompleted"
    accepted(world.wait(task))
    assert world.types(run_id)[-1] == "ServiceCallCompleted"


def test_a_closed_caller_hears_nothing() -> None:
    world = world_with()
    run_id = world.start()
    world.decide_with(service())
    accepted(world.terminate())
    world.end_call(f"{run_id}.v1")
    world.sweep()
    assert world.types(run_id)[-1] == "WorkflowTerminated"
    assert world.memory.deliveries == []


def test_a_second_wait_is_refused() -> None:
    world = world_with()
    world.start()
    world.decide_with(service())
    accepted(world.request_cancellation())
    refused = rejected(world.complete(world.claim_workflow().task, service()))
    assert refused.reason == "validation_failed"


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        ([service(), timer()], "commands.0.type"),
        ([service(mode_override="later")], "commands.0.mode_override"),
        ([service(wait_timeout_seconds=86_401)], "commands.0.wait_timeout_seconds"),
        ([service(idempotency_key="k" * 192)], "commands.0.idempotency_key"),
        ([service(request_payload="not a payload")], "commands.0.request_payload"),
        ([service(endpoint_name=None)], "commands.0.endpoint_name"),
    ],
)
def test_a_wrong_command_is_named(batch: list[dict[str, Any]], field: str) -> None:
    world = world_with()
    world.start()
    refused = rejected(world.complete(world.claim_workflow().task, *batch))
    assert list(refused.fields["errors"]) == [field]
