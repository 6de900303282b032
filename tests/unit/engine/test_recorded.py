"""Commands that record something done: memo, search attributes, local activities (engine §6.5, §6.14)."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.rows import TaskKind
from dw_core.limits import Limits
from dw_core.payloads.codec import decode_blob, encode_blob
from tests.unit.engine.commands import activity, attributes, envelope, finish, local, memo, retrying
from tests.unit.engine.invariants import Watch
from tests.unit.engine.world import Json, World, accepted, rejected


def last(world: World, run_id: str, event_type: str) -> Json:
    """The payload of the newest event of a type."""
    payload: Json = [e["payload"] for e in world.events(run_id) if e["event_type"] == event_type][-1]
    return payload


def test_a_memo_update_keeps_the_patch_as_sent_and_tells_the_whole() -> None:
    world = World()
    run_id = world.start()
    world.memory.details[run_id]["memo"] = {"source": "api", "gone": 1}
    patch = memo(zone="b", gone=None, nested={"y": 1, "x": [b"\x00", "a\0b"]})
    world.decide_with(patch, activity())
    event = last(world, run_id, "MemoUpserted")
    assert event["entries"] == patch["entries"]
    assert list(decode_blob(event["merged"]["blob"])) == ["nested", "source", "zone"]
    assert world.memory.metadata(run_id)["memo"] == {
        "nested": {"x": ["AA==", "a\N{REPLACEMENT CHARACTER}b"], "y": 1},
        "source": "api",
        "zone": "b",
    }
    task = world.claim_activity().task
    accepted(world.complete_activity(task))
    world.decide_with(memo(nested=None), finish())
    assert decode_blob(last(world, run_id, "MemoUpserted")["merged"]["blob"]) == {"source": "api", "zone": "b"}
    Watch(world).look()


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"12": 1},
        {"a b": 1},
        {"k": "x" * 10_300},
        {f"k{n}": n for n in range(101)},
        {f"k{n}": "x" * 9_000 for n in range(8)},
    ],
    ids=["none", "a number", "a space", "a large value", "many", "a large whole"],
)
def test_a_memo_update_outside_the_limits_is_refused_by_its_own_reason(entries: Json) -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow().task
    refused = rejected(world.complete(task, {"type": "upsert_memo", "entries": envelope(entries)}, finish()))
    assert refused.reason == "workflow_memo_validation_failed"
    assert list(refused.fields["errors"]) == ["commands.0.entries"]
    assert world.types(run_id) == ["StartAccepted", "WorkflowStarted"]


def test_memo_updates_that_only_together_are_too_large_are_refused() -> None:
    world = World()
    run_id = world.start()
    task = world.claim_workflow().task
    batch = [memo(**{f"k{number}": "x" * 9_000}) for number in range(8)]
    assert rejected(world.complete(task, *batch, finish())).reason == "workflow_memo_validation_failed"
    accepted(world.complete(task, *batch[:7], finish()))
    assert len(world.memory.metadata(run_id)["memo"]) == 7


def test_search_attributes_are_merged_and_their_types_are_told() -> None:
    world = World()
    run_id = world.start()
    world.memory.details[run_id]["search_attributes"] = {"Old": "x", "Stage": "new"}
    declared = {"Due": "datetime", "Price": "float"}
    batch = attributes(declared, Stage="paid", Old=None, Due="2026-11-30T18:00:00Z", Price=3, Tags=["a"], Ok=True)
    world.decide_with(batch, finish())
    event = last(world, run_id, "SearchAttributesUpserted")
    assert event["attribute_types"] == {
        "Stage": "keyword",
        "Due": "datetime",
        "Price": "float",
        "Tags": "keyword_list",
        "Ok": "bool",
    }
    assert event["attributes"] == batch["attributes"]
    assert event["merged"] == {"Stage": "paid", "Due": "2026-11-30T18:00:00Z", "Price": 3, "Tags": ["a"], "Ok": True}
    assert world.memory.metadata(run_id)["search_attributes"] == event["merged"]
    assert {key[1]: row["type"] for key, row in world.memory.tables["attribute_types"].items()} == declared


@pytest.mark.parametrize(
    ("types", "values"),
    [
        ({}, {"A": {"no": 1}}),
        ({}, {"A": [1]}),
        ({}, {"a b": 1}),
        ({}, {"A": "x" * 2_049}),
        ({}, {"A": "nul\0"}),
        ({"A": "text"}, {"A": "x"}),
        ({"B": "int"}, {"A": 1}),
        ({"A.b": "int"}, {"A.b": 1}),
        ({"A": "int"}, {"A": 1.5}),
        ({"A": "int"}, {"A": True}),
        ({"A": "int"}, {"A": 2**63}),
        ({"A": "float"}, {"A": "1"}),
        ({"A": "bool"}, {"A": 1}),
        ({"A": "datetime"}, {"A": "soon"}),
        ({"A": "keyword"}, {"A": "x" * 256}),
        ({"A": "string"}, {"A": "é" * 1_025}),
        ({"A": "keyword_list"}, {"A": "x"}),
    ],
)
def test_a_search_attribute_of_the_wrong_form_is_refused(types: Json, values: Json) -> None:
    world = World()
    world.start()
    task = world.claim_workflow().task
    command = {"type": "upsert_search_attributes", "attributes": values, "attribute_types": types}
    assert rejected(world.complete(task, command, finish())).reason == "validation_failed"
    assert world.memory.tables["attribute_types"] == {}


def test_a_search_attribute_keeps_its_type_in_its_namespace() -> None:
    world = World()
    world.start("first")
    world.decide_with(attributes({"Count": "int"}, Count=1), finish())
    world.start("second")
    task = world.claim_workflow().task
    for batch in (attributes({"Count": "string"}, Count="1"), attributes(Count="many")):
        refused = rejected(world.complete(task, batch, finish()))
        assert (refused.reason, list(refused.fields["errors"])) == (
            "validation_failed",
            ["commands.0.attributes.Count"],
        )
    accepted(world.complete(task, attributes(Count=2), finish()))


def test_search_attributes_over_a_limit_are_refused_by_its_name() -> None:
    world = World(Limits(max_search_attributes=2, search_attribute_size_bytes=40))
    world.start()
    task = world.claim_workflow().task
    assert rejected(world.complete(task, attributes(A=1, B=1, C=1))).fields["limit_kind"] == "search_attribute_count"
    assert rejected(world.complete(task, attributes(A="x" * 50))).fields["limit_kind"] == "search_attribute_size"
    types = {"A": "int", "B": "int", "C": "int"}
    batch = [attributes({name: kind}, **{name: 1}) for name, kind in types.items()]
    assert rejected(world.complete(task, *batch)).reason == "search_attribute_limit_reached"
    accepted(world.complete(task, attributes(A=1, B=1), attributes(A=None, C=1), finish()))


ATTEMPTS: list[Json] = [
    {"attempt_number": 1, "outcome": "failed", "message": "no", "exception_type": "ValueError", "backoff_seconds": 1},
    {"attempt_number": 2, "outcome": "timed_out", "message": "slow", "timeout_kind": "heartbeat"},
    {
        "attempt_number": 3,
        "outcome": "completed",
        "attempt_id": "a3",
        "heartbeats": [{"elapsed_ms": 5, "details": {"n": 1}}],
    },
]


def test_a_local_activity_is_recorded_whole_and_opens_no_task() -> None:
    world = World()
    run_id = world.start()
    result = envelope({"b": b"\x01"})
    world.decide_with(local(attempts=ATTEMPTS, result=result, retry_policy=retrying(3, 1)), activity())
    assert world.types(run_id)[2:] == [
        "ActivityScheduled",
        "ActivityStarted",
        "ActivityRetryScheduled",
        "ActivityStarted",
        "ActivityRetryScheduled",
        "ActivityStarted",
        "ActivityHeartbeatRecorded",
        "ActivityCompleted",
        "ActivityScheduled",
    ]
    for event in world.events(run_id)[2:-1]:
        payload = event["payload"]
        assert (payload["sequence"], payload["execution_mode"], payload["local_activity"]) == (1, "local", True)
    assert last(world, run_id, "ActivityCompleted")["result"] == result["blob"]
    assert [task.activity_sequence for task in world.tasks(run_id, TaskKind.ACTIVITY)] == [2]
    assert world.run(run_id).open_activity_count == 1
    Watch(world).look()


def test_a_run_that_only_recorded_a_local_activity_goes_on() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(local())
    world.decide_with(local("timed_out", timeout_kind="start_to_close"), local("cancelled"), finish())
    ends = [kind for kind in world.types(run_id) if kind in {"ActivityTimedOut", "ActivityCancelled"}]
    assert ends == ["ActivityTimedOut", "ActivityCancelled"]
    timed_out = last(world, run_id, "ActivityTimedOut")
    assert (timed_out["timeout_kind"], timed_out["failure_category"]) == ("start_to_close", "timeout")
    assert world.run(run_id).status == "completed"
    Watch(world).look()


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "lost"},
        {"attempts": []},
        {"attempts": [{"attempt_number": 2, "outcome": "completed"}]},
        {"attempts": [{"attempt_number": 1, "outcome": "failed"}]},
        {"attempts": [{"attempt_number": 1, "outcome": "completed", "who": "me"}]},
        {"attempts": [{"attempt_number": n + 1, "outcome": "failed"} for n in range(101)]},
        {"attempts": [{"attempt_number": 1, "outcome": "completed", "heartbeats": [{"elapsed_ms": 1}] * 1_001}]},
        {"execution_mode": "remote"},
        {"queue": "other"},
        {"schedule_to_start_timeout": 5},
        {"outcome": "failed", "message": None, "result": None},
        {"outcome": "timed_out", "message": "slow", "result": None},
        {"retry_policy": {"max_attempts": 101}},
    ],
)
def test_a_report_of_a_local_activity_that_contradicts_itself_is_refused(changes: Json) -> None:
    world = World()
    world.start()
    task = world.claim_workflow().task
    assert rejected(world.complete(task, local() | changes, finish())).reason == "validation_failed"


def test_the_capabilities_a_batch_needs_are_named() -> None:
    needs: list[Any] = []
    for batch in ([finish()], [attributes(A=1)], [attributes({"A": "int"}, A=1), memo(a=1)], [local(), local()]):
        parsed, errors = parse_commands(batch)
        assert parsed is not None, errors
        needs.append([capability for capability, _ in parsed.required_capabilities])
    assert needs == [[], [], ["typed_search_attributes", "memo_upserts"], ["local_activities"]]


def test_a_memo_of_null_values_only_is_empty() -> None:
    world = World()
    run_id = world.start()
    world.decide_with(memo(a=None), finish())
    merged = last(world, run_id, "MemoUpserted")["merged"]
    assert merged == {"codec": "avro", "blob": encode_blob({})}
