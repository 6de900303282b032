"""Redriving: a failed run goes on as a new run that takes over what its activities completed (control-plane §13.9).

The new run starts from the beginning, with the arguments of the failed one, and follows it: an activity that it
schedules at the same workflow sequence, of the same type and with the same arguments, ends at once with the result that
the failed run has recorded, and runs if there is none. The first activity that differs, or that only one of the two
runs has at its place, ends the following: whatever comes behind it runs.
"""

from __future__ import annotations

from datetime import datetime

from dw_core.engine.activity_ends import resolve
from dw_core.engine.inputs import RedriveWorkflow
from dw_core.engine.intake import accept, answer_again, refuse, reject
from dw_core.engine.rows import STANDALONE_ACTIVITY, TaskKind
from dw_core.engine.run_rows import Activity, RecordedActivity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.successors import redrive, successor_id
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import RunWriter

_FAILED = ("failed", "timed_out")


def decide_redrive(snapshot: Snapshot, command: RedriveWorkflow, now: datetime) -> Outcome:
    """Open the run that goes on from the failed one, which has to be the current run of its workflow.

    A run that has not failed, or hosts a standalone activity, refuses, and the command is recorded as rejected.
    """
    intent = {"run_id": command.run_id}
    again = answer_again(snapshot, "redrive", command.request_id, intent)
    if again is not None:
        return again
    run = snapshot.run
    if run is not None and command.run_id != run.run_id:
        return Rejection(
            "selected_run_not_current",
            f"Workflow {run.workflow_id} has a newer run than {command.run_id}.",
            {"workflow_id": run.workflow_id, "run_id": command.run_id, "resolved_run_id": run.run_id},
        )
    refused = refuse(run, command, {})
    if refused is not None:
        return refused
    writer = RunWriter(snapshot, now)
    run = writer.run
    if run.closed_reason not in _FAILED or run.workflow_type == STANDALONE_ACTIVITY:
        not_failed = Rejection("run_not_failed", f"Run {run.run_id} is no failed run of a workflow.")
        return reject(writer, command, "redrive", intent, {}, not_failed)
    reply = accept(writer, command, "redrive", intent, {"run_id": successor_id(writer)}, "redriven")
    redrive(writer)
    return writer.finish(reply)


def take_over_results(writer: RunWriter) -> None:
    """End the activities that this decision has scheduled and that the followed run had completed."""
    assert writer.snapshot.run is not None
    for sequence in range(writer.snapshot.run.next_workflow_sequence, writer.run.next_workflow_sequence):
        recorded = writer.snapshot.redriven.get(sequence)
        activity = writer.transition.activities.get(sequence)
        if recorded is None and activity is None:
            continue
        if recorded is None or activity is None or not _is_same_call(recorded, activity):
            writer.run.redrive_of = None
            return
        if recorded.is_completed and activity.closed_at is None:
            _take_over(writer, activity, recorded)


def _is_same_call(recorded: RecordedActivity, activity: Activity) -> bool:
    return (recorded.activity_type, recorded.arguments) == (activity.activity_type, activity.arguments)


def _take_over(writer: RunWriter, activity: Activity, recorded: RecordedActivity) -> None:
    (task,) = (
        task
        for task in writer.transition.tasks.values()
        if task is not None and task.kind is TaskKind.ACTIVITY and task.activity_sequence == activity.sequence
    )
    payload = {
        "result": recorded.result,
        "payload_codec": "avro",
        "redriven_from_run_id": writer.run.redrive_of,
    }
    resolve(writer, activity, task, "completed", "ActivityCompleted", payload)
