"""Starting a run, and what happens when its workflow id is already taken (control-plane §12)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.inputs import StartWorkflow
from dw_core.engine.intake import SOURCE, record_command
from dw_core.engine.opening import deadline, identity, started
from dw_core.engine.rows import Run
from dw_core.engine.service_calls import answer_call, answers_already, refuse_start
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter


def decide_start(snapshot: Snapshot, start: StartWorkflow, now: datetime) -> Outcome:
    """Create the run, or answer from the one that holds the workflow id.

    A closed instance refuses a new start like an open one does. Under ``use-existing`` an open run of the same type is
    returned and gets a ``StartAccepted`` event; a refusal is recorded as a ``StartRejected`` event of an open run.
    """
    refused = refuse_start(snapshot, start.service_call_id)
    if refused is not None:
        return refused
    kept = snapshot.kept.get(start.request_id or "")
    if kept is not None and kept.reply is not None and snapshot.run is not None:
        return Transition(run=snapshot.run, reply=kept.reply | {"retained": True})
    if snapshot.run is None:
        routes = snapshot.routes.get(start.queue)
        pin = start.compatibility or (None if routes is None else routes.selected_build)
        refused = None if routes is None else routes.refuse(pin)
        return refused or _start_new(start, pin, _contract(snapshot, start), now)
    if answers_already(snapshot, start.service_call_id):
        return Transition(run=snapshot.run, reply=_reply(snapshot.run, start, "started_new"))
    if start.duplicate_policy == "use-existing" and not snapshot.run.is_terminal:
        if snapshot.run.workflow_type != start.workflow_type:
            return Rejection(
                "validation_failed",
                "The request is invalid.",
                {"errors": {"workflow_type": ["does not match the workflow that holds this workflow_id"]}},
            )
        return _answer_existing(snapshot, start, now)
    return _reject_duplicate(snapshot, start, now)


def _contract(snapshot: Snapshot, start: StartWorkflow) -> dict[str, Any] | None:
    return snapshot.offered_contract(start.queue, start.workflow_type, start.compatibility)


def _start_new(start: StartWorkflow, pin: str | None, contract: dict[str, Any] | None, now: datetime) -> Transition:
    details = msgspec.structs.replace(start.details, command_contract=contract)
    run = Run(
        run_id=start.new_run_id,
        namespace=start.namespace,
        workflow_id=start.workflow_id,
        workflow_type=start.workflow_type,
        queue=start.queue,
        compatibility=pin,
        priority=start.priority,
        fairness_key=start.fairness_key,
        fairness_weight=start.fairness_weight,
        trace_context=start.trace_context,
        started_at=now,
        last_progress_at=now,
        execution_deadline_at=deadline(now, details.execution_timeout_seconds),
        run_deadline_at=deadline(now, details.run_timeout_seconds),
    )
    writer = RunWriter(Snapshot(run=run), now)
    writer.transition.details = details
    writer.transition.is_new_run = True
    reply = _reply(writer.run, start, "started_new")
    record_command(writer, start, "start", "started_new", request_id=start.request_id, reply=reply)
    common = _common(writer.run, start)
    writer.append("StartAccepted", common | {"outcome": "started_new"}, workflow_command_id=start.command_id)
    writer.append(
        "WorkflowStarted",
        common | started(writer.run, details),
        workflow_command_id=start.command_id,
        wake={"workflow_command_id": start.command_id},
    )
    if start.scheduled is not None:
        writer.append("ScheduleTriggered", start.scheduled, workflow_command_id=start.command_id)
    answer_call(writer, start.service_call_id)
    return writer.finish(reply)


def _common(run: Run, start: StartWorkflow) -> dict[str, Any]:
    return {"workflow_command_id": start.command_id} | identity(run, start.details)


def _answer_existing(snapshot: Snapshot, start: StartWorkflow, now: datetime) -> Transition:
    writer = RunWriter(snapshot, now)
    record_command(writer, start, "start", "returned_existing_active")
    writer.append(
        "StartAccepted",
        _common(writer.run, start) | {"outcome": "returned_existing_active"},
        workflow_command_id=start.command_id,
    )
    answer_call(writer, start.service_call_id)
    return writer.finish(_reply(writer.run, start, "returned_existing_active"))


def _reject_duplicate(snapshot: Snapshot, start: StartWorkflow, now: datetime) -> Transition:
    reason = "instance_already_started"
    writer = RunWriter(snapshot, now)
    run = writer.run
    record_command(writer, start, "start", "rejected_duplicate", rejection_reason=reason)
    if not run.is_terminal:
        writer.append(
            "StartRejected",
            _common(run, start) | {"outcome": "rejected_duplicate", "rejection_reason": reason},
            workflow_command_id=start.command_id,
        )
    message = f"Workflow {run.workflow_id} has already been started."
    members = _reply(run, start, "rejected_duplicate") | {
        "command_status": "rejected",
        "rejection_reason": reason,
        "workflow_type": run.workflow_type,
    }
    members.pop("reason")
    members.pop("message")
    return writer.finish(Rejection(reason, message, members))


def _reply(run: Run, start: StartWorkflow, outcome: str) -> dict[str, Any]:
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "workflow_type": run.workflow_type,
        "namespace": run.namespace,
        "task_queue": run.queue,
        "status": run.status,
        "business_key": start.details.business_key,
        "payload_codec": "avro",
        "outcome": outcome,
        "command_id": start.command_id,
        "command_status": "accepted",
        "command_source": SOURCE,
        "reason": None,
        "rejection_reason": None,
        "message": None,
    }
