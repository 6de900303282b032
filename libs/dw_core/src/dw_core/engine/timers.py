"""Timers: opening, firing and cancelling them (engine §6.1)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.inputs import FireTimer
from dw_core.engine.run_rows import Timer
from dw_core.engine.selections import remove_wait, settle
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.timer_events import CONDITION_TIMEOUT, cancel, timeout_timer, timer_members, wait_members
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import Resume, RunWriter
from dw_core.ids import timer_id
from dw_core.protocol.timestamps import wire_time


def fire(writer: RunWriter, timer: Timer) -> None:
    """Record the one end of a pending timer; it wakes the run when its whole group is done."""
    fired = copy.copy(timer)
    fired.status, fired.fired_at = "fired", writer.now
    writer.put_timer(fired)
    writer.run.open_timer_count -= 1
    payload = timer_members(writer.run, fired) | {"fired_at": wire_time(writer.now)}
    if timer.kind == CONDITION_TIMEOUT:
        _time_out_wait(writer, timer, payload)
        return
    wake = _resume(fired) if writer.ends_group(timer.group_base, timer.parallel_group_path) else None
    writer.record("TimerFired", payload, wake=wake)


def _time_out_wait(writer: RunWriter, timer: Timer, fired: dict[str, Any]) -> None:
    """Never during a lease: the completion may consume the wait (engine §4.4)."""
    wait = writer.run.wait(timer.sequence)
    assert wait is not None and not writer.is_buffering, "a timeout fires while its wait is open and nobody decides"
    members = wait_members(writer.run.run_id, wait)
    named = fired["timer_id"]
    wake = {
        "workflow_wait_kind": "condition",
        "open_wait_id": members["condition_wait_id"],
        "resume_source_kind": "timer",
        "resume_source_id": named,
        "timer_id": named,
        "condition_wait_id": members["condition_wait_id"],
        "condition_key": wait.key,
        "condition_definition_fingerprint": wait.fingerprint,
        "workflow_sequence": wait.sequence,
        "workflow_event_type": "TimerFired",
    }
    writer.append("TimerFired", fired)
    timed_out = members | {"timer_id": named}
    writer.append("ConditionWaitTimedOut", timed_out, wake=wake)
    remove_wait(writer.run, wait)
    if wait.path is not None:
        settle(writer, wait.path, "ConditionWaitTimedOut", timed_out, wake)


def _resume(timer: Timer) -> Resume:
    named = timer_id(timer.run_id, timer.sequence)
    return {
        "workflow_wait_kind": "timer",
        "open_wait_id": f"timer:{named}",
        "resume_source_kind": "timer",
        "resume_source_id": named,
        "timer_id": named,
        "workflow_sequence": timer.sequence,
        "workflow_event_type": "TimerFired",
    }


def end_lease(writer: RunWriter) -> None:
    """The workflow task's lease has ended: append what arrived meanwhile, then fire what has elapsed meanwhile.

    Those are the timers of no delay that this decision has opened, and the timeouts of open condition waits.
    """
    writer.end_lease()
    for timer in writer.pending_timers():
        is_new = timer.sequence in writer.transition.created_timers and timer.kind != CONDITION_TIMEOUT
        if is_new and timer.fire_at <= writer.now:
            fire(writer, timer)
    ordinary = [] if writer.run.open_wait is None else [writer.run.open_wait]
    for wait in (*ordinary, *writer.run.selected_waits):
        timeout = timeout_timer(writer.run, wait)
        if timeout is not None and timeout.fire_at <= writer.now:
            fire(writer, timeout)


def cancel_timers(writer: RunWriter) -> None:
    """Cancel every pending timer of a closing run."""
    for timer in writer.pending_timers():
        cancel(writer, timer)


def decide_fire(snapshot: Snapshot, due: FireTimer, now: datetime) -> Outcome:
    """Re-check the clock's finding under the lock: a timer fires once, and never early by the database clock."""
    timer = snapshot.timers.get(due.sequence)
    if snapshot.run is None or snapshot.run.is_terminal or timer is None or timer.status != "pending":
        return Rejection("task_not_found", "The timer is no longer pending.")
    if timer.fire_at > now:
        return Rejection("task_not_due", "The timer is not due yet.")
    writer = RunWriter(snapshot, now)
    if timer.kind == CONDITION_TIMEOUT and writer.is_buffering:
        return _put_off(writer, timer)
    fire(writer, timer)
    return writer.finish({"outcome": "fired", "timer_id": timer_id(timer.run_id, timer.sequence)})


def _put_off(writer: RunWriter, timer: Timer) -> Outcome:
    """Whatever ends the lease also fires the timeout; the clock looks again when it should have ended."""
    task = writer.workflow_task
    assert task is not None and task.lease_expires_at is not None, "events wait only for a lease"
    waiting = copy.copy(timer)
    waiting.due_at = max(task.lease_expires_at, writer.now + timedelta(seconds=1))
    writer.put_timer(waiting)
    return writer.finish({"outcome": "put_off", "timer_id": timer_id(timer.run_id, timer.sequence)})
