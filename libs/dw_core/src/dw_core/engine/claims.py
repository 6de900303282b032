"""Claiming a task for a poll: the lease, and for activities the start of an attempt (engine §4.2, §5)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta

import msgspec

from dw_core.engine.commands.groups import group_members
from dw_core.engine.inputs import ClaimTask
from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.leases.durations import activity_lease_seconds, expires_at
from dw_core.protocol.timestamps import wire_time


class Claimant(msgspec.Struct, frozen=True, kw_only=True):
    """The poll a task is leased to. ``lease_owner`` is the worker id.

    ``is_cooperative`` says that the worker understands cancellation requests; it holds for the whole claim.
    """

    lease_owner: str
    poll_request_id: str | None
    lease_seconds: int
    is_cooperative: bool = False


def decide_claim(snapshot: Snapshot, task: Task, claimant: Claimant, now: datetime) -> Transition:
    """Lease a ready, due task that the store has locked together with its open run.

    A workflow task remembers how much history its worker will see; an activity starts its next attempt. A claim wakes
    nobody and so opens no follow-up; ``snapshot`` need not hold the run's other tasks, except a leased workflow task.
    """
    assert task.state is TaskState.READY, f"task {task.run_id}.t{task.task_number} is not ready"
    writer = RunWriter(snapshot, now)
    leased = copy.copy(task)
    leased.state = TaskState.LEASED
    leased.attempt += 1
    leased.lease_owner = claimant.lease_owner
    leased.poll_request_id = claimant.poll_request_id
    leased.leased_at = now
    leased.lease_expires_at = expires_at(now, claimant.lease_seconds)
    if task.kind is TaskKind.WORKFLOW:
        leased.claimed_history_sequence = writer.run.last_history_sequence
        leased.is_cooperative = claimant.is_cooperative
    else:
        _start_attempt(writer, snapshot.activities[task.activity_sequence], leased, claimant.lease_seconds)
    writer.put_task(leased)
    return writer.transition


def decide_claim_by_id(snapshot: Snapshot, claim: ClaimTask, now: datetime) -> Outcome:
    """Lease the named task if it is ready and due; the refusals are those of topology §5.5."""
    named = {"task_id": task_id(claim.run_id, claim.task_number)}
    run, task = snapshot.run, snapshot.tasks.get(claim.task_number)
    if run is None or run.namespace != claim.namespace or not 0 < claim.task_number < run.next_task_number:
        return Rejection("task_not_found", "There is no such task.", named)
    if run.is_terminal:
        return Rejection("run_closed", "The run of this task is closed.", named | {"run_status": run.status})
    if task is None or task.state is not TaskState.READY:
        return Rejection("task_not_claimable", "The task is not ready.", named)
    if task.needs_cooperation:
        return Rejection("task_not_claimable", "The run is to be cancelled; a poll that can do that takes it.", named)
    if task.session_id is not None:
        return Rejection("task_not_claimable", "The task belongs to a worker session; a poll takes it.", named)
    if task.sweep_at is not None and task.sweep_at <= now:
        return Rejection("task_not_claimable", "A deadline of the task has passed.", named)
    if task.available_at > now:
        seconds = (task.available_at - now).total_seconds()
        return Rejection("task_not_due", "The task is not due yet.", named | {"retry_after_seconds": seconds})
    claimant = Claimant(lease_owner=claim.lease_owner, poll_request_id=None, lease_seconds=claim.lease_seconds)
    transition = decide_claim(snapshot, task, claimant, now)
    leased = transition.tasks[claim.task_number]
    assert leased is not None and leased.lease_expires_at is not None
    transition.reply = named | {
        "claimed": True,
        "attempt": leased.attempt,
        "lease_owner": leased.lease_owner,
        "lease_expires_at": wire_time(leased.lease_expires_at),
    }
    return transition


def _start_attempt(writer: RunWriter, activity: Activity, task: Task, lease_seconds: int) -> None:
    """Deadlines are fixed here; an activity that may run longer than a lease gets a longer one (worker-plane §12.8)."""
    timeouts = activity.timeouts
    task.schedule_to_start_at = None
    task.lease_expires_at = expires_at(
        writer.now, activity_lease_seconds(lease_seconds, timeouts.start_to_close_timeout)
    )
    if timeouts.start_to_close_timeout is not None:
        task.start_to_close_at = writer.now + timedelta(seconds=timeouts.start_to_close_timeout)
    if timeouts.heartbeat_timeout is not None:
        task.heartbeat_at = writer.now + timedelta(seconds=timeouts.heartbeat_timeout)
    writer.record(
        "ActivityStarted",
        {
            "sequence": activity.sequence,
            "activity_type": activity.activity_type,
            "activity_execution_id": execution_id(task.run_id, activity.sequence),
            "activity_attempt_id": attempt_id(task.run_id, activity.sequence, task.attempt),
            "attempt_number": task.attempt,
            "lease_owner": task.lease_owner,
            "lease_expires_at": wire_time(task.lease_expires_at),
        }
        | group_members(activity.parallel_group_path),
    )
