"""The action of a schedule: which run it starts, and how a fire becomes an ordinary start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dw_core.engine.inputs import CancelWorkflow, StartWorkflow, TerminateWorkflow
from dw_core.engine.rows import STANDALONE_ACTIVITY, Details
from dw_core.payloads.envelope import read_input
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.fields import Name255, Seconds
from dw_core.protocol.problems import Invalid
from dw_core.schedules.firing import triggered
from dw_core.schedules.rows import Fire

DEFAULT_QUEUE = "default"
STOP_REASON = "Stopped by the overlap policy of its schedule."


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """``action`` of a schedule (control-plane §20.1); the two long names are older spellings of the timeouts."""

    workflow_type: Name255
    task_queue: Name255 | None = None
    input: Any = None
    execution_timeout_seconds: Seconds | None = None
    run_timeout_seconds: Seconds | None = None
    workflow_execution_timeout: Seconds | None = None
    workflow_run_timeout: Seconds | None = None
    build_id: Annotated[str, Meta(max_length=255)] | None = None


def read_action(raw: dict[str, Any]) -> Action:
    """The action in a request; members that it does not know are left alone. Raises ``Invalid``."""
    try:
        action = msgspec.convert(raw, Action)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        raise Invalid({f"action.{path.rstrip('`')}" if path else "action": [text]}) from error
    if action.workflow_type == STANDALONE_ACTIVITY:
        raise Invalid({"action.workflow_type": ["This type is reserved for standalone activities."]})
    try:
        read_input(action.input)
    except PayloadError as error:
        raise error.at("action.input") from error
    return action


def start_input(fire: Fire, command_id: str, types: Mapping[str, str]) -> StartWorkflow:
    """The start of the run that a fire orders; carried out again it answers with the run of the first time.

    ``types`` are those of the namespace's search attributes by name.
    """
    action = msgspec.convert(fire.action, Action)
    return StartWorkflow(
        namespace=fire.namespace,
        workflow_id=fire.workflow_id,
        command_id=command_id,
        request_id=fire.request_id,
        new_run_id=fire.run_id,
        workflow_type=action.workflow_type,
        queue=action.task_queue or DEFAULT_QUEUE,
        compatibility=action.build_id or None,
        scheduled=triggered(fire),
        details=Details(
            run_id=fire.run_id,
            arguments=read_input(action.input),
            business_key=None,
            memo=fire.memo,
            search_attributes=fire.search_attributes,
            search_attribute_types={name: types[name] for name in fire.search_attributes if name in types} or None,
            execution_timeout_seconds=action.execution_timeout_seconds or action.workflow_execution_timeout,
            run_timeout_seconds=action.run_timeout_seconds or action.workflow_run_timeout,
        ),
    )


def end_input(fire: Fire, command_id: str) -> CancelWorkflow | TerminateWorkflow | None:
    """What makes room for the run of a fire, None when nothing has to."""
    if fire.ends is None or fire.ends_workflow_id is None:
        return None
    kind = CancelWorkflow if fire.ends == "cancel" else TerminateWorkflow
    return kind(
        namespace=fire.namespace,
        workflow_id=fire.ends_workflow_id,
        command_id=command_id,
        request_id=f"{fire.request_id}:end",
        reason=STOP_REASON,
    )
