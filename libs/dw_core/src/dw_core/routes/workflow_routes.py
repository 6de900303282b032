"""Routes under ``/api/workflows`` and ``/api/activities``, all bootstrap-gated (topology §8 item 10)."""

from __future__ import annotations

import msgspec

from dw_core.protocol.requests_control import (
    ActivityStart,
    MessageAppend,
    OutputAppend,
    OutputClose,
    WorkflowArchive,
    WorkflowCancel,
    WorkflowQuery,
    WorkflowRedrive,
    WorkflowRepair,
    WorkflowRequestCancellation,
    WorkflowSignal,
    WorkflowStart,
    WorkflowTerminate,
    WorkflowUpdate,
)
from dw_core.routes.control import control
from dw_core.routes.route import Route

_WORKFLOWS = "/api/workflows"
_ONE = f"{_WORKFLOWS}/{{workflow_id}}"
_RUN = f"{_ONE}/runs/{{run_id}}"
_OUTPUT = f"{_RUN}/streams"


def _gated(
    method: str,
    path: str,
    name: str,
    summary: str,
    *,
    operation: str | None = None,
    is_poll: bool = False,
    request: type[msgspec.Struct] | None = None,
) -> Route:
    return control(
        method,
        path,
        name,
        summary,
        operation=operation,
        bootstrap=True,
        is_poll=is_poll,
        request=request,
    )


def _command(
    verb: str,
    name: str,
    operation: str | None,
    request: type[msgspec.Struct] | None = None,
    *,
    is_poll: bool = False,
) -> tuple[Route, ...]:
    """The instance route and the run route of one command (control-plane §13)."""
    return (
        _gated(
            "POST",
            f"{_ONE}/{verb}",
            f"workflow_{name}",
            f"{name.replace('_', ' ').capitalize()}: current run",
            operation=operation,
            request=request,
            is_poll=is_poll,
        ),
        _gated(
            "POST",
            f"{_RUN}/{verb}",
            f"workflow_run_{name}",
            f"{name.replace('_', ' ').capitalize()}: named run",
            operation=operation,
            request=request,
            is_poll=is_poll,
        ),
    )


READS = (
    _gated("GET", _WORKFLOWS, "workflow_list", "List workflows", operation="list"),
    _gated("POST", _WORKFLOWS, "workflow_start", "Start a workflow", operation="start", request=WorkflowStart),
    _gated("GET", _ONE, "workflow_describe", "Describe the current run", operation="describe"),
    _gated("GET", f"{_ONE}/debug", "workflow_debug", "Diagnose the current run", operation="debug_workflow"),
    _gated("GET", f"{_ONE}/observation", "workflow_observe", "Observe the current run", operation="observe"),
    _gated("GET", f"{_ONE}/nexus-operations", "workflow_nexus_operations", "List its service calls"),
    _gated("GET", f"{_ONE}/runs", "workflow_runs", "List the runs of a workflow", operation="list_runs"),
    _gated("GET", _RUN, "workflow_run_describe", "Describe a run", operation="describe_run"),
    _gated("GET", f"{_RUN}/debug", "workflow_run_debug", "Diagnose a run", operation="debug_workflow"),
    _gated("GET", f"{_RUN}/observation", "workflow_run_observe", "Observe a run", operation="observe"),
    _gated("GET", f"{_RUN}/nexus-operations", "workflow_run_nexus_operations", "List the service calls of a run"),
    _gated("GET", f"{_RUN}/history", "workflow_history", "Read history by page", operation="history", is_poll=False),
    _gated("GET", f"{_RUN}/history/export", "workflow_history_export", "Export a history bundle"),
)

COMMANDS = (
    *_command("signal/{signal_name}", "signal", "signal", WorkflowSignal),
    *_command("query/{query_name}", "query", "query", WorkflowQuery, is_poll=True),
    *_command("update/{update_name}", "update", "update", WorkflowUpdate, is_poll=True),
    *_command("cancel", "cancel", "cancel", WorkflowCancel),
    *_command("terminate", "terminate", "terminate", WorkflowTerminate),
    *_command("repair", "repair", "repair", WorkflowRepair),
    *_command("archive", "archive", "archive", WorkflowArchive),
    _gated(
        "POST",
        f"{_RUN}/redrive",
        "workflow_run_redrive",
        "Redrive: named run",
        operation="redrive",
        request=WorkflowRedrive,
    ),
    *_command("request-cancellation", "request_cancellation", None, WorkflowRequestCancellation),
)

STREAMS = (
    _gated("GET", f"{_ONE}/message-streams", "message_stream_list", "List message streams"),
    _gated("GET", f"{_ONE}/message-streams/{{stream_name}}", "message_stream_describe", "Describe a message stream"),
    _gated(
        "POST",
        f"{_ONE}/message-streams/{{stream_name}}/messages",
        "message_stream_append",
        "Append a message",
        request=MessageAppend,
    ),
    _gated("GET", _OUTPUT, "output_stream_list", "List output streams"),
    _gated("GET", f"{_OUTPUT}/{{stream_name}}", "output_stream_describe", "Describe an output stream"),
    _gated("GET", f"{_OUTPUT}/{{stream_name}}/items", "output_stream_read", "Read items, wait for more", is_poll=True),
    _gated(
        "POST",
        f"{_OUTPUT}/{{stream_name}}/items",
        "output_stream_append",
        "Append items",
        request=OutputAppend,
    ),
    _gated(
        "POST",
        f"{_OUTPUT}/{{stream_name}}/close",
        "output_stream_close",
        "Close an output stream",
        request=OutputClose,
    ),
)

ACTIVITIES = (
    _gated("POST", "/api/activities", "activity_start", "Start a standalone activity", request=ActivityStart),
    _gated("GET", "/api/activities", "activity_list", "List standalone activities"),
    _gated("GET", "/api/activities/{activity_id}", "activity_describe", "Describe a standalone activity"),
)

WORKFLOW_ROUTES: tuple[Route, ...] = (*READS, *COMMANDS, *STREAMS, *ACTIVITIES)
