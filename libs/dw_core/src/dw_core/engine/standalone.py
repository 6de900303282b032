"""Standalone activities: a host run of a reserved type that holds one activity and no workflow task (engine §5)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.commands.apply import schedule_activity
from dw_core.engine.commands.parsed import ScheduleActivity
from dw_core.engine.inputs import StartActivity
from dw_core.engine.intake import SOURCE, record_command
from dw_core.engine.opening import identity, started
from dw_core.engine.rows import STANDALONE_ACTIVITY, Run, Task
from dw_core.engine.service_calls import answer_call, answers_already, refuse_start
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter
from dw_core.ids import execution_id
from dw_core.protocol.timestamps import wire_time

SEQUENCE = 1
"""The workflow sequence of the one activity."""


def decide_start_activity(snapshot: Snapshot, start: StartActivity, now: datetime) -> Outcome:
    """Create the host run with its activity; an id that any workflow or activity has used is refused (§15.1)."""
    refused = refuse_start(snapshot, start.service_call_id)
    if refused is not None:
        return refused
    if snapshot.run is not None and answers_already(snapshot, start.service_call_id):
        return Transition(run=snapshot.run, reply={})
    if snapshot.run is not None:
        return Rejection(
            "validation_failed",
            "The request is invalid.",
            {"errors": {"activity_id": ["has already been used in this namespace"]}},
        )
    run = Run(
        run_id=start.new_run_id,
        namespace=start.namespace,
        workflow_id=start.workflow_id,
        workflow_type=STANDALONE_ACTIVITY,
        queue=start.queue,
        status="running",
        trace_context=start.trace_context,
        started_at=now,
        last_progress_at=now,
    )
    writer = RunWriter(Snapshot(run=run), now)
    writer.transition.details = start.details
    writer.transition.is_new_run = True
    record_command(writer, start, "start", "started_new", payload={"activity_class": start.activity_class})
    common = {"workflow_command_id": start.command_id} | identity(writer.run, start.details)
    writer.append("StartAccepted", common | {"outcome": "started_new"}, workflow_command_id=start.command_id)
    payload = common | started(writer.run, start.details)
    writer.append("WorkflowStarted", payload, workflow_command_id=start.command_id)
    answer_call(writer, start.service_call_id)
    schedule_activity(writer, _command(start), None)
    (task,) = writer.open_tasks()
    return writer.finish(_reply(writer.run, start, task))


def _command(start: StartActivity) -> ScheduleActivity:
    return ScheduleActivity(
        activity_type=start.activity_type,
        queue=start.queue,
        arguments=start.details.arguments,
        has_retry_policy=start.has_retry_policy,
        retry_policy=start.retry_policy,
        timeouts=start.timeouts,
    )


def _reply(run: Run, start: StartActivity, task: Task) -> dict[str, Any]:
    return {
        "activity_id": run.workflow_id,
        "activity_execution_id": execution_id(run.run_id, SEQUENCE),
        "workflow_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "workflow_type": run.workflow_type,
        "activity_type": start.activity_type,
        "activity_class": start.activity_class,
        "task_queue": run.queue,
        "namespace": run.namespace,
        "status": run.status,
        "payload_codec": "avro",
        "started_at": wire_time(run.started_at),
        "schedule_to_start_deadline_at": wire_time(task.schedule_to_start_at),
        "schedule_to_close_deadline_at": wire_time(task.schedule_to_close_at),
        "command_status": "accepted",
        "command_source": SOURCE,
    }
