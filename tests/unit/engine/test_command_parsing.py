"""Commands as they come in: what is read, and where an error is reported."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.commands.parsed import CompleteWorkflow, FailWorkflow, RecordVersionMarker, ScheduleActivity
from dw_core.engine.rows import RetryPolicy
from dw_core.engine.run_rows import Timeouts
from dw_core.payloads.codec import EMPTY_LIST_BLOB, NULL_BLOB, encode_blob
from tests.unit.engine.commands import activity, envelope, finish, give_up, retrying, side_effect, timer, version

Json = dict[str, Any]


def only(command: Json) -> Any:
    """The one command of a valid batch."""
    parsed, errors = parse_commands([command])
    assert parsed is not None, errors
    return parsed.commands[0]


def test_every_field_of_an_activity_is_read() -> None:
    command = activity(
        "charge",
        arguments=envelope(["Ada"]),
        retry_policy=retrying(3, 1, 5, types=["CardDeclined"]),
        start_to_close_timeout="30",
        schedule_to_start_timeout=40,
        schedule_to_close_timeout=60,
        heartbeat_timeout=10,
        payload_codec="avro",
        connection=None,
    )
    assert only(command) == ScheduleActivity(
        activity_type="charge",
        queue="q",
        arguments=encode_blob(["Ada"]),
        has_retry_policy=True,
        retry_policy=RetryPolicy(max_attempts=3, backoff_seconds=(1, 5), non_retryable_error_types=("CardDeclined",)),
        timeouts=Timeouts(
            start_to_close_timeout=30,
            schedule_to_start_timeout=40,
            schedule_to_close_timeout=60,
            heartbeat_timeout=10,
        ),
    )


def test_null_is_absent_and_absent_fields_have_their_defaults() -> None:
    command = {
        "type": "schedule_activity",
        "activity_type": "a",
        "queue": None,
        "retry_policy": None,
        "arguments": None,
    }
    read = only(command)
    assert (read.queue, read.arguments, read.has_retry_policy) == (None, EMPTY_LIST_BLOB, False)
    assert read.retry_policy.max_attempts == 1
    assert read.timeouts == Timeouts()


@pytest.mark.parametrize("policy", [{}, {"max_attempts": None}])
def test_a_policy_without_a_number_of_attempts_is_unlimited(policy: Json) -> None:
    assert only(activity(retry_policy=policy)).retry_policy.max_attempts is None


def test_terminal_commands_are_read() -> None:
    assert only({"type": "complete_workflow"}) == CompleteWorkflow(result=NULL_BLOB)
    assert only(finish(5)) == CompleteWorkflow(result=encode_blob(5))
    failed = give_up("no", exception_type="E", exception_class="m.E", exception={"a": 1}, non_retryable=True)
    assert only(failed) == FailWorkflow(
        message="no", exception_type="E", exception_class="m.E", exception={"a": 1}, non_retryable=True
    )


def test_versions_may_be_negative() -> None:
    read = only(version("c", -1, -1, 2))
    assert read == RecordVersionMarker(change_id="c", version=-1, min_supported=-1, max_supported=2)


def test_the_last_command_says_whether_the_batch_is_terminal() -> None:
    parsed, _ = parse_commands([side_effect(), finish()])
    assert parsed is not None and parsed.is_terminal
    parsed, _ = parse_commands([side_effect()])
    assert parsed is not None and not parsed.is_terminal


BAD_PAYLOADS: list[Any] = [
    5,
    ["x"],
    "not base64!",
    {"blob": "wwHioz3/VYAiNwwA"},
    {"codec": "json", "blob": "e30="},
    {"codec": "avro", "blob": 5},
    {"codec": "avro", "blob": "AAAA"},
    {"codec": "avro", "external_storage": {}},
]
LONG = "x" * 256
OTHER_TYPES: list[Json] = [finish(), give_up(), side_effect(), version()]


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (5, ""),
        (None, ""),
        ({}, ".type"),
        ({"type": None}, ".type"),
        ({"type": ["schedule_activity"]}, ".type"),
        ({"type": "no_such_command"}, ".type"),
        *[(timer(bad), ".delay_seconds") for bad in (None, -1, 1.5, True, "x", 10**9 + 1, [1])],
        *[({"type": "schedule_activity", "activity_type": bad}, ".activity_type") for bad in (None, "", " ", 5, LONG)],
        (activity("a\0b"), ".activity_type"),
        *[(activity(queue=bad), ".queue") for bad in ("", 5, LONG, "q\0")],
        *[(activity(arguments=bad), ".arguments") for bad in BAD_PAYLOADS],
        (activity(payload_codec="json", arguments=envelope([])), ".payload_codec"),
        *[
            (activity(start_to_close_timeout=bad), ".start_to_close_timeout")
            for bad in (0, -1, 1.5, True, "x", "", "--5", "²", "1e3", 10**9 + 1, 2**80, [1])
        ],
        (activity(heartbeat_timeout=2, start_to_close_timeout=1), ".heartbeat_timeout"),
        (activity(start_to_close_timeout=2, schedule_to_close_timeout=1), ".start_to_close_timeout"),
        (activity(schedule_to_start_timeout=2, schedule_to_close_timeout=1), ".schedule_to_start_timeout"),
        (activity(retry_policy=[]), ".retry_policy"),
        *[
            (activity(retry_policy={"max_attempts": bad}), ".retry_policy.max_attempts")
            for bad in (0, "3", 1.5, True, 2**80)
        ],
        *[
            (activity(retry_policy={"backoff_seconds": bad}), ".retry_policy.backoff_seconds")
            for bad in (5, [-1], ["1"], [True], [10**9 + 1])
        ],
        *[
            (activity(retry_policy={"non_retryable_error_types": bad}), ".retry_policy.non_retryable_error_types")
            for bad in ("x", [5])
        ],
        (activity(worker_session="s"), ".worker_session"),
        *[
            (activity(worker_session={"session_id": "s"} | {name: bad}), f".worker_session.{name}")
            for name, bad in (
                ("session_id", ""),
                ("session_id", "x" * 256),
                ("connection", 1),
                ("requirements", ["a", "a"]),
                ("requirements", "a"),
                ("requirements", [f"r-{number}" for number in range(101)]),
                ("lease_seconds", 0),
                ("lease_seconds", 86_401),
                ("ttl_seconds", True),
                ("max_concurrent_activities", "1"),
                ("allow_reacquire_after_failure", 1),
            )
        ],
        (activity(queue="a", worker_session={"session_id": "s", "queue": "b"}), ".worker_session.queue"),
        (activity(cancellation_policy="abandon"), ".cancellation_policy"),
        (activity(execution_timeout_seconds=1), ".execution_timeout_seconds"),
        (activity(run_timeout_seconds=1), ".run_timeout_seconds"),
        (activity(parent_close_policy="abandon"), ".parent_close_policy"),
        (activity(non_retryable=True), ".non_retryable"),
        (activity(exception={}), ".exception"),
        (activity(delay_seconds=1), ".delay_seconds"),
        (activity(timeout_seconds=1), ".timeout_seconds"),
        *[(other | {"retry_policy": {}}, ".retry_policy") for other in OTHER_TYPES],
        *[(other | {"heartbeat_timeout": 1}, ".heartbeat_timeout") for other in OTHER_TYPES],
        *[(other | {"schedule_to_start_timeout": 1}, ".schedule_to_start_timeout") for other in OTHER_TYPES],
        ({"type": "record_side_effect"}, ".result"),
        *[({"type": "record_side_effect", "result": bad}, ".result") for bad in BAD_PAYLOADS],
        (
            side_effect() | {"workflow_stream": {"operation": "append", "items": [{"payload": envelope(1)}]}},
            ".workflow_stream.stream_name",
        ),
        (
            side_effect() | {"workflow_stream": {"operation": "append", "stream_name": "s", "items": [{}]}},
            ".workflow_stream.items.0",
        ),
        (side_effect() | {"workflow_stream": {"operation": "append", "stream_name": "s"}}, ".workflow_stream.items"),
        (
            side_effect() | {"workflow_stream": {"operation": "error", "stream_name": "s"}},
            ".workflow_stream.error_reason",
        ),
        (side_effect() | {"workflow_stream": {"operation": "drop", "stream_name": "s"}}, ".workflow_stream.operation"),
        *[
            ({key: value for key, value in version().items() if key != field}, f".{field}")
            for field in ("change_id", "version", "min_supported", "max_supported")
        ],
        (version("c\0"), ".change_id"),
        (version("c", 3, 0, 2), ".version"),
        (version("c", -2, -1, 2), ".version"),
        (version("c", 2**53, 0, 2**53 - 1), ".version"),
        *[(finish() | {"result": bad}, ".result") for bad in BAD_PAYLOADS],
        *[({"type": "fail_workflow", "message": bad}, ".message") for bad in (None, "", "  ", 5)],
        (give_up(exception="x"), ".exception"),
        (give_up(non_retryable="yes"), ".non_retryable"),
        (give_up(exception_type=5), ".exception_type"),
        (give_up(exception_class="x" * 1025), ".exception_class"),
        (give_up(failed_step_sequence=1), ".failed_step_sequence"),
        (give_up(failed_activity_execution_id="x"), ".failed_step_sequence"),
        (give_up(failed_step_sequence=0, failed_activity_execution_id="x"), ".failed_step_sequence"),
    ],
)
def test_a_wrong_field_is_reported_under_its_command(command: Any, field: str) -> None:
    parsed, errors = parse_commands([activity(), command])
    assert parsed is None
    assert list(errors) == [f"commands.1{field}"]
    assert all(messages and all(messages) for messages in errors.values())


def test_every_wrong_command_is_reported() -> None:
    _, errors = parse_commands([{"type": "x"}, activity(), activity(" ", queue="")])
    assert list(errors) == ["commands.0.type", "commands.2.activity_type", "commands.2.queue"]


def test_an_empty_batch_is_refused() -> None:
    assert parse_commands([]) == (None, {"commands": ["must contain at least one command"]})


@pytest.mark.parametrize("batch", [[finish(), activity()], [give_up(), finish()], [finish(), finish()]])
def test_a_terminal_command_must_come_last_and_alone(batch: list[Json]) -> None:
    _, errors = parse_commands(batch)
    assert list(errors) == ["commands.0.type"]


@pytest.mark.parametrize(
    "entry",
    [
        {"parallel_group_kind": []},
        {"parallel_group_kind": {}},
        {"parallel_group_kind": None},
        {"parallel_group_base_sequence": "1"},
        {"parallel_group_size": True},
        {"note": "a\0b"},
        {"note": {"deep": ["\0"]}},
    ],
    ids=repr,
)
def test_a_group_path_of_any_shape_is_refused_and_never_breaks(entry: Json) -> None:
    flat = {
        "parallel_group_id": "parallel-activities:1:1",
        "parallel_group_kind": "activity",
        "parallel_group_base_sequence": 1,
        "parallel_group_size": 1,
        "parallel_group_index": 0,
    } | entry
    parsed, errors = parse_commands([activity("a") | flat | {"parallel_group_path": [flat]}])
    assert (parsed, list(errors)) == (None, ["commands.0.parallel_group_path"])


def test_names_of_errors_that_are_not_retried_hold_no_nul() -> None:
    parsed, errors = parse_commands([activity("a", retry_policy=retrying(3, types=["a\0b"]))])
    assert (parsed, list(errors)) == (None, ["commands.0.retry_policy.non_retryable_error_types"])
