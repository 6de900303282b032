"""Cooperative cancellation: the request, and what workers are told of it (engine §6.12, control-plane §13.6).

A request is an event of the run. The worker that replays it chooses the durable call that is interrupted and reports
the delivery (:mod:`dw_core.engine.delivering`); until the deadline the workflow's code may clean up.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.inputs import RequestCancellation
from dw_core.engine.intake import SOURCE, record_command
from dw_core.engine.rows import Cancellation, Run, TaskState
from dw_core.engine.run_rows import InboxEvent
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import CANCELLATION_REQUESTED, RunWriter
from dw_core.history.event import encode_payload
from dw_core.history.paging import encode_page_token
from dw_core.ids import derived_ulid, task_id
from dw_core.limits import CLEANUP_SECONDS_DEFAULT
from dw_core.protocol.timestamps import wire_time

CAPABILITY = "cooperative_cancellation"
"""What a worker declares to be given runs that are to be cancelled."""

_ROOT = ("root_request_id", "root_workflow_instance_id", "root_workflow_run_id")
_CONTEXT_SCHEMA = "durable-workflow.cancellation-context/v1"


def observation(request: Cancellation | None) -> dict[str, Any] | None:
    """The ``cancellation_request`` of descriptions, claims and heartbeats: exactly these six members.

    The page token leads back to the first event: a worker reads the history anew once it has seen the request.
    """
    if request is None:
        return None
    return {
        "request_id": request.request_id,
        "requested_at": wire_time(request.requested_at),
        "cleanup_deadline_at": wire_time(request.cleanup_deadline_at),
        "delivery_sequence": None if request.delivery is None else request.delivery["sequence"],
        "delivered_at": wire_time(request.delivered_at),
        "history_refresh_page_token": encode_page_token(0),
    }


def is_undelivered(run: Run) -> bool:
    """Whether the code of the run has yet to be told."""
    return run.cancellation is not None and run.cancellation.delivery is None


def decide_request(snapshot: Snapshot, command: RequestCancellation, now: datetime) -> Outcome:
    """Record the first request of a run; every later one is answered with it, its deadline unchanged."""
    run = snapshot.run
    if run is None:
        return Rejection(
            "instance_not_found",
            f"Workflow {command.workflow_id} does not exist.",
            {"workflow_id": command.workflow_id},
        )
    named = {"workflow_id": run.workflow_id, "run_id": run.run_id}
    if command.target_scope == "run" and command.run_id != run.run_id:
        message = f"Run {command.run_id} is not the current run of workflow {command.workflow_id}."
        return Rejection("selected_run_not_current", message, named | {"run_id": command.run_id, "target_scope": "run"})
    if run.is_terminal:
        message = f"Workflow {run.workflow_id} is already closed."
        return Rejection("run_not_active", message, named | {"run_status": run.status})
    if run.cancellation is not None:
        return Transition(run=run, reply=_reply(run, run.cancellation, duplicate=True))
    task = snapshot.workflow_task
    if task is not None and task.state is TaskState.LEASED and not task.is_cooperative:
        return Rejection(
            "active_claim_cancellation_not_supported",
            "The worker that holds the run's workflow task has not declared cooperative cancellation.",
            named | {"task_id": task_id(task.run_id, task.task_number), "workflow_task_attempt": task.attempt},
        )
    writer = RunWriter(snapshot, now)
    request = _record(writer, command)
    return writer.finish(_reply(writer.run, request, duplicate=False))


def take_forwarded(writer: RunWriter, body: dict[str, Any]) -> bool:
    """Record the request that a parent has sent on; False while the run's task is held by a worker that cannot hear it.

    A run that has a request already keeps it.
    """
    task = writer.workflow_task
    if writer.run.cancellation is not None:
        return True
    if task is not None and task.state is TaskState.LEASED and not task.is_cooperative:
        return False
    run = writer.run
    deadline = datetime.fromisoformat(body["cleanup_deadline_at"])
    command = RequestCancellation(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        command_id=derived_ulid(writer.now, run.run_id, "cancellation"),
        reason=body["reason"],
        cleanup_seconds=max(0, int((deadline - writer.now).total_seconds())),
        requester=body["requester"],
        context={"source": "parent_workflow"} | body["parent"],
    )
    _record(writer, command, deadline, body["origin"])
    return True


def forwarded(run: Run, reason: str | None, now: datetime) -> dict[str, Any]:
    """What a child is sent when its parent is cancelled, or has closed: the same root, reason and deadline.

    A parent without a request of its own is the root itself.
    """
    request = run.cancellation
    deadline = now + timedelta(seconds=CLEANUP_SECONDS_DEFAULT)
    requester = {"type": "workflow", "id": run.run_id}
    return {
        "parent": {"parent_workflow_id": run.workflow_id, "parent_run_id": run.run_id},
        "reason": reason if request is None else request.reason,
        "requester": requester if request is None else request.context["requester"],
        "cleanup_deadline_at": wire_time(deadline if request is None else request.cleanup_deadline_at),
        "origin": None if request is None else request.context,
    }


def _record(
    writer: RunWriter,
    command: RequestCancellation,
    deadline: datetime | None = None,
    origin: dict[str, Any] | None = None,
) -> Cancellation:
    """``deadline`` and ``origin`` are those of the request that a parent was given and has sent on."""
    run = writer.run
    deadline = deadline or writer.now + timedelta(seconds=command.cleanup_seconds)
    context = _context(run, command.command_id, command.reason, command.requester, writer.now, deadline)
    if origin is not None:
        context |= {name: origin[name] for name in _ROOT} | {"parent_request_id": origin["request_id"]}
        context["lineage"] = [*origin["lineage"], *context["lineage"]]
    request = Cancellation(
        request_id=command.command_id,
        reason=command.reason,
        requested_at=writer.now,
        cleanup_deadline_at=deadline,
        context=context,
    )
    run.cancellation, run.cleanup_deadline_at = request, deadline
    record_command(
        writer,
        command,
        "request_cancellation",
        "cancellation_requested",
        target_scope=command.target_scope,
        payload={"reason": command.reason, "cleanup_timeout_seconds": command.cleanup_seconds},
    )
    task = writer.workflow_task
    if task is not None and task.state is TaskState.READY:
        kept = copy.copy(task)
        kept.needs_cooperation = True
        writer.put_task(kept)
    writer.record(CANCELLATION_REQUESTED, _event(run, request), workflow_command_id=request.request_id, wake={})
    return run.cancellation


def _event(run: Run, request: Cancellation) -> dict[str, Any]:
    members = {
        "workflow_command_id": request.request_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "cleanup_deadline_at": wire_time(request.cleanup_deadline_at),
        "cancellation": request.context,
    }
    return members if request.reason is None else members | {"reason": request.reason}


def carry_over(run: Run, follower: Run) -> list[InboxEvent]:
    """A request that a run has not seen before it continued as new goes on to its successor, deadline and all.

    Changes ``follower``; returns the event with which its history tells of the request, if there is one.
    """
    request = run.cancellation
    if request is None or request.delivery is not None:
        return []
    moved = copy.copy(request)
    moved.history_sequence = 0
    moved.context = _context(
        follower,
        request.request_id,
        request.reason,
        request.context["requester"],
        request.requested_at,
        request.cleanup_deadline_at,
    )
    follower.cancellation, follower.cleanup_deadline_at = moved, request.cleanup_deadline_at
    return [
        InboxEvent(
            run_id=follower.run_id,
            event_type=CANCELLATION_REQUESTED,
            payload=encode_payload(_event(follower, moved)),
            resume={},
            workflow_command_id=request.request_id,
        )
    ]


def _context(
    run: Run, request_id: str, reason: str | None, requester: dict[str, str], now: datetime, deadline: datetime
) -> dict[str, Any]:
    """Who asked for what, as the workflow's code will see it; this run is the root of its lineage."""
    address = {
        "request_id": request_id,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
    }
    return {
        "schema": _CONTEXT_SCHEMA,
        "request_id": request_id,
        "root_request_id": request_id,
        "root_workflow_instance_id": run.workflow_id,
        "root_workflow_run_id": run.run_id,
        "parent_request_id": None,
        "reason": reason,
        "requester": requester,
        "source": SOURCE,
        "requested_at": wire_time(now),
        "cleanup_deadline_at": wire_time(deadline),
        "lineage": [address],
    }


def _reply(run: Run, request: Cancellation, *, duplicate: bool) -> dict[str, Any]:
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "accepted": True,
        "duplicate": duplicate,
        "run_status": run.status,
        "cancellation_request": observation(request),
    }
