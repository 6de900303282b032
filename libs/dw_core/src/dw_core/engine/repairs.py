"""Repair: offering a run's workflow task again, and setting a blocked run free (control-plane §13.7, engine §4.6)."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from dw_core.engine.inputs import RepairWorkflow, UnblockRun
from dw_core.engine.intake import accept, begin
from dw_core.engine.rows import Run, Task, TaskState
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.workflow_tasks import return_to_ready
from dw_core.engine.writer import RunWriter
from dw_core.ids import task_id
from dw_core.leases.durations import is_expired


def decide_repair(snapshot: Snapshot, command: RepairWorkflow, now: datetime) -> Outcome:
    """Make the workflow task claimable at once when a back-off, a block or a lost lease keeps it back.

    A task that a worker holds or could take now is left alone: ``repair_not_needed``. The request is an event of the
    run either way.
    """
    intent = {"run_id": command.named_run_id}
    writer = begin(snapshot, command, "repair", intent, {}, now)
    if not isinstance(writer, RunWriter):
        return writer
    state, task = liveness(writer.run, writer.workflow_task, writer.now), writer.workflow_task
    is_needed = state in _REPAIRED
    outcome = "repair_dispatched" if is_needed else "repair_not_needed"
    reply = accept(writer, command, "repair", intent, {}, outcome)
    if is_needed and task is not None:
        _offer(writer, task)
    writer.record(
        "RepairRequested",
        _requested(writer, command.command_id, outcome, state, task),
        workflow_command_id=command.command_id,
    )
    return writer.finish(reply)


_REPAIRED = frozenset({"workflow_replay_blocked", "workflow_task_backing_off", "workflow_task_lease_expired"})


def liveness(run: Run, task: Task | None, now: datetime) -> str:
    """What keeps the run from going on, or that nothing does."""
    if run.replay_blocked:
        return "workflow_replay_blocked"
    if task is None:
        return "waiting"
    if task.state is TaskState.LEASED:
        return "workflow_task_lease_expired" if is_expired(task.lease_expires_at, now) else "workflow_task_leased"
    return "workflow_task_backing_off" if task.available_at > now else "workflow_task_ready"


def _offer(writer: RunWriter, task: Task) -> None:
    run = writer.run
    run.replay_blocked, run.blocked_build_id, run.task_failure_count = False, None, 0
    if task.state is TaskState.LEASED:
        return_to_ready(writer, task)
        return
    offered = copy.copy(task)
    offered.available_at = writer.now
    offered.repair_count += 1
    writer.put_task(offered)


def _requested(writer: RunWriter, command_id: str, outcome: str, state: str, task: Task | None) -> dict[str, Any]:
    return {
        "workflow_command_id": command_id,
        "workflow_instance_id": writer.run.workflow_id,
        "workflow_run_id": writer.run.run_id,
        "command_type": "repair",
        "outcome": outcome,
        "liveness_state": state,
        "wait_kind": None if task is None else "workflow_task",
        "task_id": None if task is None else task_id(task.run_id, task.task_number),
        "task_type": None if task is None else "workflow",
    }


def decide_unblock(snapshot: Snapshot, change: UnblockRun, now: datetime) -> Outcome:
    """Set a blocked run free for a worker of another build; it starts with a clean slate."""
    run, task = snapshot.run, snapshot.workflow_task
    is_ready = task is not None and task.state is TaskState.READY
    if run is None or task is None or not is_ready or not run.replay_blocked or run.is_terminal:
        return Rejection("task_not_found", "The run is not blocked.")
    fits = change.build_id != run.blocked_build_id and run.compatibility in (None, change.build_id)
    if not fits:
        return Rejection("task_not_claimable", "The worker is of the build that could not replay the run.")
    writer = RunWriter(snapshot, now)
    _offer(writer, task)
    return writer.finish({"run_id": run.run_id, "outcome": "unblocked"})
