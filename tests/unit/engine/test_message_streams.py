"""Message streams: positions, identity, delivery, cursors, and what the next run is handed (engine §6.15)."""

from __future__ import annotations

from typing import Any

import pytest
from durable_workflow import serializer

from dw_core.engine.message_streams import CURSOR_SCHEMA, MESSAGE_SCHEMA, MESSAGE_SIGNAL
from dw_core.limits import Limits
from dw_core.payloads.codec import encode_blob
from tests.unit.engine.commands import activity, child, continued, finish, give_up, retrying, wait
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import NAMESPACE, Json, World, accepted, completion, rejected


@pytest.fixture
def world() -> World:
    return World()


def delivered(world: World, run_id: str) -> list[Json]:
    """What a run's history brings of message streams, decoded."""
    found = [event["payload"] for event in world.events(run_id) if event["event_type"] == "SignalReceived"]
    carried = [serializer.decode_envelope(p["arguments"]) for p in found if p["signal_name"] == MESSAGE_SIGNAL]
    return [arguments[0] for arguments in carried]


def stream(world: World, name: str = "in") -> Json:
    return world.memory.tables["streams"][NAMESPACE, "w", name]


def test_a_message_wakes_a_waiting_run_and_carries_its_arguments_unchanged(world: World) -> None:
    run_id = world.start()
    world.decide_with(wait("message-stream:in:0"))
    reply = accepted(world.append("w", "in", "m1", 1, "two"))
    shown = ("accepted", "duplicate", "run_id", "stream_name", "message_id", "position", "cursor_position", "outcome")
    assert [reply[name] for name in shown] == [True, False, run_id, "in", "m1", 1, 0, "accepted"]
    event = world.events(run_id)[-1]
    named = f"{reply['command_id']}.s"
    assert {name: value for name, value in event["payload"].items() if name != "arguments"} == {
        "signal_name": MESSAGE_SIGNAL,
        "signal_id": named,
        "workflow_command_id": reply["command_id"],
        "workflow_instance_id": "w",
        "workflow_run_id": run_id,
        "payload_codec": "avro",
        "workflow_sequence": 1,
    }
    assert delivered(world, run_id) == [
        {
            "schema": MESSAGE_SCHEMA,
            "stream_name": "in",
            "message_id": "m1",
            "position": 1,
            "payload_envelope": {"codec": "avro", "blob": encode_blob([1, "two"])},
        }
    ]
    resume = world.claim_workflow().task.resume or {}
    assert (resume["signal_name"], resume["workflow_signal_id"]) == (MESSAGE_SIGNAL, named)


def test_positions_count_from_one_in_each_stream(world: World) -> None:
    world.start()
    sent = [world.message_input("w", name, f"m{n}") for n in range(3) for name in ("a", "b")]
    replies = [accepted(reply) for reply in world.transact(sent)]
    assert [(r["stream_name"], r["position"]) for r in replies] == [
        (name, position) for position in (1, 2, 3) for name in ("a", "b")
    ]


def test_a_message_id_names_one_message_also_after_the_run_has_closed(world: World) -> None:
    run_id = world.start()
    first = accepted(world.append("w", "in", "m1", 1))
    again = [accepted(r) for r in world.transact([world.message_input("w", "in", "m1", 1) for _ in range(2)])]
    assert all(r["duplicate"] and r["position"] == first["position"] for r in again)
    world.decide_with(finish())
    late = accepted(world.append("w", "in", "m1", 1))
    assert (late["duplicate"], late["run_id"]) == (True, run_id)
    refused = rejected(world.append("w", "in", "m1", 2))
    assert (refused.reason, refused.fields["outcome"], refused.fields["position"]) == (
        "message_identity_conflict",
        "rejected",
        1,
    )
    assert rejected(world.append("w", "in", "m2", 1)).reason == "run_not_active"
    assert len(delivered(world, run_id)) == 1
    assert (stream(world)["duplicate_count"], stream(world)["last_input_outcome"]) == (3, "rejected")


def test_a_request_id_belongs_to_one_message(world: World) -> None:
    world.start()
    accepted(world.append("w", "in", "m1", 1, request_id="r"))
    assert accepted(world.append("w", "in", "m1", 1, request_id="r"))["duplicate"]
    assert rejected(world.append("w", "in", "m2", 1, request_id="r")).reason == "request_id_conflict"
    assert stream(world)["last_position"] == 1


def test_a_message_that_no_live_worker_could_read_is_refused(world: World) -> None:
    world.start()
    world.memory.without_readers = {"w"}
    refused = rejected(world.append())
    assert (refused.reason, refused.fields["message_id"]) == ("message_stream_not_supported", "m1")
    world.memory.without_readers = set()
    assert accepted(world.append())["position"] == 1


def test_an_unknown_workflow_has_no_streams(world: World) -> None:
    assert rejected(world.append("nobody")).reason == "instance_not_found"


def test_a_message_that_arrives_during_a_lease_wakes_the_run_when_it_waits(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    accepted(world.append())
    assert delivered(world, run_id) == []
    accepted(world.complete(task, wait("message-stream:in:0"), waits={"in": 0}))
    assert [message["position"] for message in delivered(world, run_id)] == [1]
    assert world.claim_workflow().task.resume


def test_cursors_move_forward_only_and_are_recorded(world: World) -> None:
    run_id = world.start()
    for number in (1, 2, 3):
        world.append("w", "in", f"m{number}", number)
    world.complete(world.claim_workflow().task, activity(), cursors={"in": 2})
    assert world.types(run_id)[-2:] == ["MessageCursorAdvanced", "ActivityScheduled"]
    assert world.events(run_id)[-2]["payload"] == {"stream_key": "in", "previous_position": 0, "new_position": 2}
    world.complete_activity(world.claim_activity().task)
    world.complete(world.claim_workflow().task, wait("message-stream:in:3"), cursors={"in": 1}, waits={"in": 2})
    assert "MessageCursorAdvanced" not in world.types(run_id)[-2:]
    assert (stream(world)["cursor_position"], stream(world)["pending_wait"]["after_position"]) == (2, 2)
    world.append("w", "in", "m4")
    world.complete(world.claim_workflow().task, activity(), cursors={"in": 4})
    assert (stream(world)["cursor_position"], stream(world)["pending_wait"]) == (4, None)


@pytest.mark.parametrize(
    ("reported", "field"),
    [
        ({"cursors": {"in": 2}}, "message_stream_cursors.0.through_position"),
        ({"cursors": {"in": 1, "other": 1}}, "message_stream_cursors.1.through_position"),
        ({"waits": {"in": 2}}, "message_stream_waits.0.after_position"),
    ],
)
def test_a_position_that_was_never_appended_refuses_the_batch(world: World, reported: Any, field: str) -> None:
    world.start()
    world.append()
    task = world.claim_workflow().task
    image = world.memory.image()
    refused = rejected(world.complete(task, activity(), **reported))
    assert (refused.reason, list(refused.fields["errors"])) == ("validation_failed", [field])
    assert world.memory.image() == image


def test_the_next_run_begins_with_the_cursors_and_what_is_unconsumed(world: World) -> None:
    first = world.start()
    watch = Watch(world)
    for number in (1, 2, 3):
        world.append("w", "in", f"m{number}", number)
    world.append("w", "other", "m1")
    task = world.claim_workflow().task
    world.append("w", "in", "m4", 4)
    world.signal()
    world.append("w", "in", "m5", 5)
    accepted(world.complete(task, continued(), cursors={"in": 2}, waits={"other": 0}))
    watch.look()
    second = world.run(first).continued_to_run_id
    assert second is not None
    assert world.types(second) == ["WorkflowStarted"] + ["SignalReceived"] * 6
    begun = delivered(world, second)
    assert begun[0] == {"schema": CURSOR_SCHEMA, "stream_name": "in", "through_position": 2}
    assert [(m["stream_name"], m["position"]) for m in begun[1:]] == [("in", 3), ("other", 1), ("in", 4), ("in", 5)]
    assert stream(world, "other")["pending_wait"] is None
    assert accepted(world.append("w", "in", "m6"))["position"] == 6
    assert accepted(world.append("w", "in", "m3", 3))["duplicate"]
    accepted(world.complete(world.claim_workflow().task, finish(), cursors={"in": 5}))
    watch.look()


def test_what_a_cursor_has_passed_unseen_is_not_handed_to_the_next_run(world: World) -> None:
    first = world.start()
    task = world.claim_workflow().task
    for number in (1, 2, 3):
        world.append("w", "in", f"m{number}", number)
    accepted(world.complete(task, continued(), cursors={"in": 2}))
    second = world.run(first).continued_to_run_id
    assert second is not None
    cursor, message = delivered(world, second)
    assert (cursor["through_position"], message["position"]) == (2, 3)


def test_a_message_behind_a_continuation_in_one_transaction_reaches_the_next_run(world: World) -> None:
    first = world.start()
    task = world.claim_workflow().task
    world.transact([completion(task, continued()), world.message_input("w", "in", "m1", 1)])
    second = world.run(first).continued_to_run_id
    assert second is not None
    assert [message["position"] for message in delivered(world, second)] == [1]


def test_a_retried_child_is_handed_its_messages_again(world: World) -> None:
    parent = world.start()
    world.decide_with(child(retry_policy=retrying(2)))
    call = world.memory.of_run("children", parent)[0]
    workflow_id, first = call["child_workflow_id"], call["child_run_id"]
    world.append(workflow_id, "in", "m1")
    world.append(workflow_id, "in", "m2")
    accepted(world.complete(world.claim_workflow().task, give_up(), cursors={"in": 1}))
    second = world.memory.instances[NAMESPACE, workflow_id]
    assert second != first
    assert [m.get("position", m.get("through_position")) for m in delivered(world, second)] == [1, 2]


def test_a_workflow_has_a_bounded_number_of_streams_and_of_messages_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Limits(pending_signal_count=3))
    world.start()
    for number in range(3):
        accepted(world.append("w", "in", f"m{number}"))
    refused = rejected(world.append("w", "in", "m3"))
    assert (refused.reason, refused.fields["limit_kind"]) == ("structural_limit_exceeded", "pending_signal_count")
    world.decide_with(activity())
    monkeypatch.setattr("dw_core.engine.message_streams.MESSAGE_BACKLOG_MAX", 3)
    assert rejected(world.append("w", "in", "m3")).fields["limit_kind"] == "message_backlog"
    monkeypatch.setattr("dw_core.engine.message_streams.MESSAGE_STREAMS_MAX", 1)
    assert rejected(world.append("w", "new", "m1")).fields["limit_kind"] == "message_stream_count"
    world.complete_activity(world.claim_activity().task)
    refused = rejected(world.complete(world.claim_workflow().task, wait(), waits={"new": 0}))
    assert refused.fields["limit_kind"] == "message_stream_count"
