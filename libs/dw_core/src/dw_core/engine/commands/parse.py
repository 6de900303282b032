"""From a completion's JSON commands to validated values (worker-plane §9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dw_core.engine.commands.fields import INTEGER_MAX, Fields
from dw_core.engine.commands.groups import MEMBER_KEY_CHARS_MAX, read_path, validate_groups
from dw_core.engine.commands.local_fields import record_local_activity
from dw_core.engine.commands.metadata_fields import upsert_memo, upsert_search_attributes
from dw_core.engine.commands.parsed import (
    LAST,
    CancelSelectionOperation,
    CompleteUpdate,
    CompleteWorkflow,
    ContinueAsNew,
    FailUpdate,
    FailWorkflow,
    OpenConditionWait,
    Parsed,
    RecordSideEffect,
    RecordVersionMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartServiceOperation,
    StartTimer,
    WorkflowCommand,
    path_of,
)
from dw_core.engine.commands.policies import read_retry_policy, read_timeouts, read_worker_session
from dw_core.engine.commands.service_fields import start_service_operation
from dw_core.engine.commands.stream_fields import StreamPosition, read_directive
from dw_core.engine.rows import STANDALONE_ACTIVITY
from dw_core.limits import PARALLEL_GROUP_LEAVES_MAX, SECONDS_MAX
from dw_core.payloads.codec import EMPTY_LIST_BLOB, NULL_BLOB

_CANCELLATION_POLICIES = ("try_cancel", "wait_cancellation_completed", "abandon")
_ACTIVITY_LIKE = frozenset({"schedule_activity", "record_local_activity"})
_SCOPE: dict[str, frozenset[str]] = {
    "retry_policy": _ACTIVITY_LIKE | {"start_child_workflow"},
    "start_to_close_timeout": _ACTIVITY_LIKE,
    "schedule_to_close_timeout": _ACTIVITY_LIKE,
    "heartbeat_timeout": _ACTIVITY_LIKE,
    "schedule_to_start_timeout": frozenset({"schedule_activity"}),
    "worker_session": frozenset({"schedule_activity"}),
    "execution_timeout_seconds": frozenset({"start_child_workflow"}),
    "run_timeout_seconds": frozenset({"start_child_workflow"}),
    "parent_close_policy": frozenset({"start_child_workflow"}),
    "attribute_types": frozenset({"upsert_search_attributes"}),
    "workflow_stream": frozenset({"record_side_effect"}),
    "non_retryable": frozenset({"fail_workflow", "fail_update", "record_local_activity"}),
    "exception": frozenset({"fail_workflow"}),
    "delay_seconds": frozenset({"start_timer"}),
    "timeout_seconds": frozenset({"open_condition_wait", "open_signal_wait"}),
}
"""Fields that only some commands may carry (worker-plane §9.2)."""


CONDITION_KEY_MAX = 128
PARENT_CLOSE_POLICIES = ("abandon", "request_cancel", "request_cancellation", "terminate")
SHOWN_TYPE_CHARACTERS = 64
MESSAGE_MAX = 2**20
_SELECTION_ID = re.compile(r"select-calls:[1-9][0-9]{0,14}:[1-9][0-9]{0,3}", re.ASCII)
_CONDITION_KEY = re.compile(r"[A-Za-z0-9._:-]+", re.ASCII)


def parse_commands(
    commands: Sequence[Any], cursors: Sequence[StreamPosition] = (), waits: Sequence[StreamPosition] = ()
) -> tuple[Parsed | None, dict[str, list[str]]]:
    """Validate a batch. Returns ``(batch, {})``, or ``(None, errors)`` keyed ``commands.{i}.{field}``.

    ``cursors`` and ``waits`` are the positions of message streams that were reported beside it.
    """
    errors: dict[str, list[str]] = {}
    if not commands:
        return None, {"commands": ["must contain at least one command"]}
    parsed: list[WorkflowCommand] = []
    for index, command in enumerate(commands):
        if not isinstance(command, dict):
            errors[f"commands.{index}"] = ["must be an object"]
            continue
        value = _parse(Fields(index, command, errors), command)
        if value is not None:
            parsed.append(value)
    if not errors:
        _check_last(parsed, errors)
        validate_groups([path_of(command) for command in parsed], errors)
    if errors:
        return None, errors
    return Parsed(commands=tuple(parsed), cursors=tuple(cursors), waits=tuple(waits)), errors


def _shown(kind: object) -> str:
    return f": {kind[:SHOWN_TYPE_CHARACTERS]}" if isinstance(kind, str) and kind else ""


def _parse(fields: Fields, command: Mapping[str, Any]) -> WorkflowCommand | None:
    kind = command.get("type")
    parser = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parser is None:
        fields.error("type", f"is not a supported command type{_shown(kind)}")
        return None
    for field, allowed in _SCOPE.items():
        if command.get(field) is not None and kind not in allowed:
            fields.error(field, f"is not allowed on {kind}")
    return parser(fields)


def _check_last(parsed: Sequence[WorkflowCommand], errors: dict[str, list[str]]) -> None:
    for index, command in enumerate(parsed[:-1]):
        if _must_be_last(command):
            errors[f"commands.{index}.type"] = ["must be the last command, and there is at most one of its kind"]


def _must_be_last(command: WorkflowCommand) -> bool:
    """A command that ends the workflow, or that its code is blocked on."""
    if isinstance(command, StartServiceOperation):
        return not command.is_answered_at_once
    return isinstance(command, LAST) and path_of(command) is None


def _schedule_activity(fields: Fields) -> ScheduleActivity | None:
    activity_type = fields.name("activity_type", required=True)
    timeouts = read_timeouts(fields)
    policy = read_retry_policy(fields)
    cancellation_policy = fields.choice("cancellation_policy", _CANCELLATION_POLICIES)
    if cancellation_policy == "abandon" and timeouts.schedule_to_close_timeout is None:
        fields.error("cancellation_policy", "abandon needs a schedule_to_close_timeout")
    if fields.raw("cancellation_scope_id") not in (None, "root"):
        fields.error("cancellation_scope_id", "is not supported by this server")
    queue = fields.name("queue")
    session = read_worker_session(fields, queue)
    arguments = fields.payload("arguments")
    path = read_path(fields, "activity")
    if activity_type is None:
        return None
    return ScheduleActivity(
        activity_type=activity_type,
        queue=queue,
        arguments=arguments or EMPTY_LIST_BLOB,
        has_retry_policy=fields.has("retry_policy"),
        retry_policy=policy,
        timeouts=timeouts,
        cancellation_policy=cancellation_policy,
        path=path,
        worker_session=session,
    )


def _workflow_type(fields: Fields, *, required: bool = False) -> str | None:
    """The name of a workflow type; that of the hosts of activities is reserved."""
    workflow_type = fields.name("workflow_type", required=required)
    if workflow_type == STANDALONE_ACTIVITY:
        fields.error("workflow_type", "is reserved")
    return workflow_type


def _start_timer(fields: Fields) -> StartTimer | None:
    delay = fields.integer("delay_seconds", minimum=0, maximum=SECONDS_MAX, required=True)
    path = read_path(fields, "timer")
    return None if delay is None else StartTimer(delay_seconds=delay, path=path)


def _start_child_workflow(fields: Fields) -> StartChildWorkflow | None:
    workflow_type = _workflow_type(fields, required=True)
    policy = fields.choice("parent_close_policy", PARENT_CLOSE_POLICIES)
    cancellation = fields.choice("cancellation_policy", _CANCELLATION_POLICIES)
    execution = fields.integer("execution_timeout_seconds", minimum=1, maximum=SECONDS_MAX)
    single = fields.integer("run_timeout_seconds", minimum=1, maximum=SECONDS_MAX)
    if execution is not None and single is not None and single > execution:
        fields.error("run_timeout_seconds", "must not exceed execution_timeout_seconds")
    retry_policy = read_retry_policy(fields) if fields.has("retry_policy") else None
    queue = fields.name("queue")
    arguments = fields.payload("arguments")
    path = read_path(fields, "child")
    if workflow_type is None:
        return None
    return StartChildWorkflow(
        workflow_type=workflow_type,
        queue=queue,
        arguments=arguments or EMPTY_LIST_BLOB,
        parent_close_policy=policy,
        cancellation_policy=cancellation,
        retry_policy=retry_policy,
        execution_timeout_seconds=execution,
        run_timeout_seconds=single,
        path=path,
    )


def _continue_as_new(fields: Fields) -> ContinueAsNew:
    return ContinueAsNew(
        workflow_type=_workflow_type(fields), queue=fields.name("queue"), arguments=fields.payload("arguments")
    )


def _open_condition_wait(fields: Fields) -> OpenConditionWait:
    key = fields.text("condition_key", limit=CONDITION_KEY_MAX)
    if key is not None and not _CONDITION_KEY.fullmatch(key):
        fields.error("condition_key", "must have letters, digits and . _ : - only")
    path = read_path(fields, "condition")
    return OpenConditionWait(
        key=key,
        fingerprint=fields.name("condition_definition_fingerprint"),
        timeout_seconds=fields.integer("timeout_seconds", minimum=0, maximum=SECONDS_MAX),
        occurrence_id=fields.name("condition_wait_occurrence_id"),
        path=path,
    )


def _cancel_selection_operation(fields: Fields) -> CancelSelectionOperation | None:
    group = fields.text("selection_group_id", required=True)
    if group is not None and not _SELECTION_ID.fullmatch(group):
        fields.error("selection_group_id", "is not the id of a selection")
        return None
    key = fields.raw("member_key")
    if not (type(key) is int and 0 <= key <= INTEGER_MAX) and not (
        isinstance(key, str) and 0 < len(key) <= MEMBER_KEY_CHARS_MAX
    ):
        fields.error("member_key", "must be a non-empty string or an integer of at least 0")
    index = fields.integer("member_index", minimum=0, required=True)
    base = fields.integer("member_base_sequence", minimum=1, required=True)
    size = fields.integer("member_size", minimum=1, maximum=PARALLEL_GROUP_LEAVES_MAX, required=True)
    kind = fields.name("operation_kind", required=True)
    identity = fields.name("operation_identity", required=True)
    if group is None or index is None or base is None or size is None or kind is None or identity is None:
        return None
    return CancelSelectionOperation(
        selection_group_id=group,
        member_key=key,
        member_index=index,
        member_base_sequence=base,
        member_size=size,
        operation_kind=kind,
        operation_identity=identity,
    )


def _record_side_effect(fields: Fields) -> RecordSideEffect | None:
    result = fields.payload("result", required=True)
    output = read_directive(fields)
    return None if result is None else RecordSideEffect(result=result, output=output)


def _record_version_marker(fields: Fields) -> RecordVersionMarker | None:
    change_id = fields.name("change_id", required=True)
    version = fields.integer("version", required=True)
    low = fields.integer("min_supported", required=True)
    high = fields.integer("max_supported", required=True)
    if change_id is None or version is None or low is None or high is None:
        return None
    if not low <= version <= high:
        fields.error("version", "must lie between min_supported and max_supported")
        return None
    return RecordVersionMarker(change_id=change_id, version=version, min_supported=low, max_supported=high)


def _complete_update(fields: Fields) -> CompleteUpdate | None:
    named = fields.name("update_id", required=True)
    result = fields.payload("result")
    return None if named is None else CompleteUpdate(update_id=named, result=result or NULL_BLOB)


def _fail_update(fields: Fields) -> FailUpdate | None:
    named = fields.name("update_id", required=True)
    message = fields.text("message", required=True, limit=MESSAGE_MAX)
    exception_type = fields.text("exception_type", limit=1024)
    exception_class = fields.text("exception_class", limit=1024)
    non_retryable = fields.flag("non_retryable")
    if named is None or message is None:
        return None
    return FailUpdate(
        update_id=named,
        message=message.replace("\0", "\ufffd"),
        exception_type=exception_type,
        exception_class=exception_class,
        non_retryable=non_retryable,
    )


def _complete_workflow(fields: Fields) -> CompleteWorkflow:
    return CompleteWorkflow(result=fields.payload("result") or NULL_BLOB)


def _fail_workflow(fields: Fields) -> FailWorkflow | None:
    message = fields.text("message", required=True, limit=MESSAGE_MAX)
    step = fields.integer("failed_step_sequence", minimum=1)
    execution = fields.text("failed_activity_execution_id")
    if (step is None) != (execution is None):
        fields.error("failed_step_sequence", "must come together with failed_activity_execution_id")
    exception_type = fields.text("exception_type", limit=1024)
    exception_class = fields.text("exception_class", limit=1024)
    exception = fields.mapping("exception")
    non_retryable = fields.flag("non_retryable")
    if message is None:
        return None
    return FailWorkflow(
        message=message,
        exception_type=exception_type,
        exception_class=exception_class,
        exception=exception,
        non_retryable=non_retryable,
        failed_step_sequence=step,
        failed_activity_execution_id=execution,
    )


_PARSERS: dict[str, Callable[[Fields], WorkflowCommand | None]] = {
    "schedule_activity": _schedule_activity,
    "start_timer": _start_timer,
    "start_child_workflow": _start_child_workflow,
    "open_condition_wait": _open_condition_wait,
    "cancel_selection_operation": _cancel_selection_operation,
    "record_side_effect": _record_side_effect,
    "record_version_marker": _record_version_marker,
    "upsert_search_attributes": upsert_search_attributes,
    "upsert_memo": upsert_memo,
    "record_local_activity": record_local_activity,
    "start_service_operation": start_service_operation,
    "complete_update": _complete_update,
    "fail_update": _fail_update,
    "complete_workflow": _complete_workflow,
    "fail_workflow": _fail_workflow,
    "continue_as_new": _continue_as_new,
}

TERMINAL_COMMANDS = ("complete_workflow", "fail_workflow", "continue_as_new")
SUPPORTED_COMMANDS = tuple(_PARSERS)
"""What ``supported_workflow_task_commands`` advertises: the commands that are really implemented."""
