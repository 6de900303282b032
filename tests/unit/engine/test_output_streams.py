"""Output streams: items in order, each once, until the stream ends (engine §6.16)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.commands.stream_fields import NewItem, OutputDirective
from dw_core.payloads.codec import encode_blob
from tests.unit.engine.commands import activity, finish, output, side_effect
from tests.unit.engine.world import Json, World, accepted, completion, rejected


@pytest.fixture
def world() -> World:
    return World()


def items(world: World, run_id: str) -> list[tuple[int, str | None, str | None]]:
    rows = world.memory.of_run("output_items", run_id)
    return [(row["item_offset"], row["idempotency_key"], row["payload"]) for row in rows]


def stream(world: World, run_id: str, name: str = "out") -> Json:
    return world.memory.tables["outputs"][run_id, name]


def appended(*keys: str | None, name: str = "out", **changes: Any) -> OutputDirective:
    added = tuple(NewItem(payload=encode_blob(key), idempotency_key=key) for key in keys)
    return OutputDirective(operation="append", stream_name=name, items=added, **changes)


def test_a_command_appends_with_its_side_effect_and_history_keeps_no_payload_twice(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    accepted(world.complete(task, output("append", "a", "b"), activity()))
    keys = ["dw-stream:task:0:0", "dw-stream:task:0:1"]
    assert items(world, run_id) == [(0, keys[0], encode_blob("a")), (1, keys[1], encode_blob("b"))]
    row = world.memory.of_run("output_items", run_id)[0]
    assert (row["origin"], row["origin_reference"]) == ("workflow", "task")
    recorded = next(e for e in world.events(run_id) if e["event_type"] == "SideEffectRecorded")
    assert recorded["payload"]["workflow_stream"] == {
        "operation": "append",
        "stream_name": "out",
        "command_identity": "task",
        "command_ordinal": 0,
        "items": [{"idempotency_key": key} for key in keys],
        "max_pending_items": 10_000,
    }


def test_a_directive_that_comes_again_adds_nothing(world: World) -> None:
    run_id = world.start()
    world.decide_with(output("append", "a"), output("append", "a"), activity())
    assert len(items(world, run_id)) == 1
    world.complete_activity(world.claim_activity().task)
    world.decide_with(output("append", "a"), output("append", "b", ordinal=1), activity())
    assert [offset for offset, *_ in items(world, run_id)] == [0, 1]


def test_a_refused_batch_appends_nothing(world: World) -> None:
    run_id = world.start()
    task = world.claim_workflow().task
    image = world.memory.image()
    ended = output("close", ordinal=0), output("append", "a", ordinal=1), activity()
    refused = rejected(world.complete(task, *ended))
    assert list(refused.fields["errors"]) == ["commands.1.workflow_stream"]
    assert world.memory.image() == image
    assert items(world, run_id) == []


@pytest.mark.parametrize(("operation", "status"), [("close", "closed"), ("error", "errored")])
def test_an_ended_stream_takes_no_more(world: World, operation: str, status: str) -> None:
    run_id = world.start()
    world.decide_with(output("append", "a"), output(operation, ordinal=1, retention_seconds=60), activity())
    row = stream(world, run_id)
    assert (row["status"], row["retention_seconds"], row["closed_at"] < row["expires_at"]) == (status, 60, True)
    assert row["error_reason"] == ("broken" if operation == "error" else None)
    refused = rejected(world.change_output(run_id, appended("late")))
    assert refused.reason == f"stream_{status}"
    known = accepted(world.change_output(run_id, appended("dw-stream:task:0:0")))
    assert (known["accepted_offsets"], known["accepted"], known["deduped"]) == ([0], 0, 1)
    again = OutputDirective(operation=operation, stream_name="out", error_reason="broken")
    assert accepted(world.change_output(run_id, again))["stream"]["retention_seconds"] == 60
    other = "error" if operation == "close" else "close"
    assert rejected(world.change_output(run_id, OutputDirective(operation=other, stream_name="out"))).reason == (
        f"stream_{status}"
    )


def test_an_operator_appends_also_to_a_closed_run_and_items_without_a_key_are_always_new(world: World) -> None:
    run_id = world.start()
    world.decide_with(finish())
    first = accepted(world.change_output(run_id, appended(None, "k", "k")))
    assert (first["accepted_offsets"], first["accepted"], first["deduped"]) == ([0, 1, 1], 2, 1)
    second = accepted(world.change_output(run_id, appended(None, "k")))
    assert (second["accepted_offsets"], second["accepted"], second["deduped"]) == ([2, 1], 1, 1)
    assert second["stream"]["total_items"] == second["stream"]["pending_items"] == 3
    assert second["stream"]["last_offset"] == 2


def test_a_full_stream_takes_nothing_of_what_does_not_fit(world: World) -> None:
    run_id = world.start()
    accepted(world.change_output(run_id, appended("a", "b")))
    refused = rejected(world.change_output(run_id, appended("c", max_pending_items=2)))
    numbers = (refused.fields["pending_items"], refused.fields["max_pending_items"])
    assert (refused.reason, numbers) == ("stream_full", (2, 2))
    assert len(items(world, run_id)) == 2


def test_streams_belong_to_a_run_of_a_workflow_id(world: World) -> None:
    run_id = world.start()
    assert rejected(world.change_output("0" * 26, appended("a"))).reason == "run_not_found"
    assert rejected(world.change_output(run_id, appended("a"), workflow_id="other")).reason == "run_not_found"
    closing = OutputDirective(operation="close", stream_name="out")
    assert rejected(world.change_output(run_id, closing)).reason == "stream_not_found"


def test_a_run_has_a_bounded_number_of_streams(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dw_core.engine.output_streams.OUTPUT_STREAMS_MAX", 1)
    run_id = world.start()
    accepted(world.change_output(run_id, appended("a")))
    refused = rejected(world.change_output(run_id, appended("a", name="more")))
    assert (refused.reason, refused.fields["limit_kind"]) == ("structural_limit_exceeded", "output_stream_count")
    task = world.claim_workflow().task
    assert rejected(world.complete(task, output("append", "a", name="more"))).reason == "structural_limit_exceeded"


def test_a_repeated_completion_appends_once(world: World) -> None:
    run_id = world.start()
    report = completion(world.claim_workflow().task, output("append", "a"), activity(), side_effect())
    first, second = world.transact([report, report])
    assert first == second
    assert len(items(world, run_id)) == 1
