"""Request structs: what they take, what they refuse."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dw_core.protocol.problems import Invalid
from dw_core.protocol.requests_control import UNSUPPORTED_START_FIELDS, WorkflowStart, WorkflowTerminate
from dw_core.protocol.requests_worker import (
    ActivityTaskFail,
    WorkerRegister,
    WorkflowTaskComplete,
    WorkflowTaskPoll,
)


def decode(kind: type[msgspec.Struct], body: dict[str, Any]) -> Any:
    return msgspec.json.decode(json.dumps(body), type=kind)


def test_unknown_fields_are_ignored_and_null_means_absent() -> None:
    body = decode(WorkerRegister, {"task_queue": "q", "runtime": "python", "build_id": None, "later": 1})
    assert (body.task_queue, body.build_id, body.capabilities) == ("q", None, None)


def test_a_registration_keeps_unknown_capabilities_and_process_metrics() -> None:
    body = decode(
        WorkerRegister,
        {
            "task_queue": "q",
            "runtime": "python",
            "capabilities": ["new_thing"],
            "process_metrics": {"host": "h", "x": 1},
        },
    )
    assert body.capabilities == ["new_thing"]
    assert body.process_metrics == {"host": "h", "x": 1}


@pytest.mark.parametrize("missing", ["task_queue", "runtime"])
def test_a_registration_needs_queue_and_runtime(missing: str) -> None:
    body = {"task_queue": "q", "runtime": "python"}
    del body[missing]
    with pytest.raises(msgspec.ValidationError, match=missing):
        decode(WorkerRegister, body)


def test_a_poll_window_may_be_a_fraction_but_not_a_text() -> None:
    assert (
        decode(WorkflowTaskPoll, {"worker_id": "w", "task_queue": "q", "timeout_seconds": 1.5}).timeout_seconds == 1.5
    )
    with pytest.raises(msgspec.ValidationError, match="timeout_seconds"):
        decode(WorkflowTaskPoll, {"worker_id": "w", "task_queue": "q", "timeout_seconds": "30"})


def test_a_completion_needs_at_least_one_command() -> None:
    base: dict[str, Any] = {"lease_owner": "w", "workflow_task_attempt": 1}
    assert decode(WorkflowTaskComplete, {**base, "commands": [{"type": "x"}]}).commands == [{"type": "x"}]
    with pytest.raises(msgspec.ValidationError, match="commands"):
        decode(WorkflowTaskComplete, {**base, "commands": []})


def test_a_stream_cursor_refuses_unknown_fields() -> None:
    cursor = {"stream_name": "s", "through_position": 1, "more": 1}
    body = {"lease_owner": "w", "workflow_task_attempt": 1, "commands": [{}], "message_stream_cursors": [cursor]}
    with pytest.raises(msgspec.ValidationError, match="message_stream_cursors"):
        decode(WorkflowTaskComplete, body)


def test_the_class_of_a_failure_is_read_from_its_wire_name() -> None:
    failure = {"message": "boom", "class": "builtins.ValueError", "type": "ValueError"}
    body = decode(ActivityTaskFail, {"activity_attempt_id": "a", "lease_owner": "w", "failure": failure})
    assert body.failure.class_name == "builtins.ValueError"


@pytest.mark.parametrize("field", UNSUPPORTED_START_FIELDS)
def test_a_start_refuses_fields_of_other_products_by_name(field: str) -> None:
    with pytest.raises(Invalid) as refused:
        decode(WorkflowStart, {"workflow_type": "t", field: 1})
    assert list(refused.value.errors) == [field]
    assert decode(WorkflowStart, {"workflow_type": "t", field: None}).workflow_type == "t"


@pytest.mark.parametrize("policy", ["use_existing", "allow", "terminate_existing"])
def test_a_start_refuses_other_spellings_of_the_duplicate_policy(policy: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="duplicate_policy"):
        decode(WorkflowStart, {"workflow_type": "t", "duplicate_policy": policy})


def test_reject_is_an_alias_of_fail() -> None:
    assert not decode(WorkflowStart, {"workflow_type": "t", "duplicate_policy": "reject"}).use_existing_open_run
    assert decode(WorkflowStart, {"workflow_type": "t", "duplicate_policy": "use-existing"}).use_existing_open_run


@pytest.mark.parametrize("workflow_id", ["", "a b", "ä", "x" * 129])
def test_a_workflow_id_has_a_bounded_alphabet(workflow_id: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="workflow_id"):
        decode(WorkflowStart, {"workflow_type": "t", "workflow_id": workflow_id})


def test_a_terminate_may_have_no_body_at_all() -> None:
    assert decode(WorkflowTerminate, {}).reason is None


@pytest.mark.parametrize("field", ["workflow_id", "fairness_key"])
def test_a_name_does_not_end_in_a_line_break(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(WorkflowStart, {"workflow_type": "t", field: "name\n"})


def test_a_stream_name_does_not_end_in_a_line_break() -> None:
    body = {"lease_owner": "w", "workflow_task_attempt": 1, "commands": [{"type": "complete_workflow"}]}
    cursor = {"stream_name": "s\n", "through_position": 0}
    with pytest.raises(msgspec.ValidationError):
        decode(WorkflowTaskComplete, body | {"message_stream_cursors": [cursor]})
