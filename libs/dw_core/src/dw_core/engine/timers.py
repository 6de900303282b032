"""Timers: opening, firing and cancelling them (engine §6.1)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.commands.groups import Path, group_members
from dw_core.engine.inputs import FireTimer
from dw_core.engine.rows import OpenWait, Run, Timer
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import Resume, RunWriter
from dw_core.ids import timer_id, wait_id
from dw_core.protocol.timestamps import wire_time

CONDITION_TIMEOUT = "condition_timeout"
"""The kind of a timer that bounds a condition wait."""


def open_timer(
    writer: RunWriter, sequence: int, delay_seconds: int, path: Path | None, source: str, kind: str = "timer"
) -> Timer:
    """Open a timer and record it; it is due ``delay_seconds`` after the clock of this transaction."""
    fire_at = writer.now + timedelta(seconds=delay_seconds)
    timer = Timer(
        run_id=writer.run.run_id,
        sequence=sequence,
        kind=kind,
        delay_seconds=delay_seconds,
        created_at=writer.now,
        fire_at=fire_at,
        due_at=fire_at,
        parallel_group_path=path,
        group_base=path[0]["parallel_group_base_sequence"] if path else None,
    )
    writer.put_timer(timer, is_new=True)
    writer.run.open_timer_count += 1
    writer.append("TimerScheduled", _payload(writer.run, timer), workflow_task_id=source)
    return timer


def wait_members(run_id: str, wait: OpenWait) -> dict[str, Any]:
    """The members that every event of a condition wait carries; what was not authored is left out (engine §2.6)."""
    members = {
        "condition_wait_id": wait_id(run_id, wait.sequence),
        "condition_key": wait.key,
        "condition_definition_fingerprint": wait.fingerprint,
        "sequence": wait.sequence,
        "timeout_seconds": wait.timeout_seconds,
        "condition_wait_occurrence_id": wait.occurrence_id,
    }
    return {key: value for key, value in members.items() if value is not None}


def timeout_timer(run: Run, wait: OpenWait) -> Timer | None:
    """The pending timer that bounds an open condition wait; it needs no reading, because the wait says it all."""
    if wait.fire_at is None or wait.timeout_seconds is None:
        return None
    return Timer(
        run_id=run.run_id,
        sequence=wait.sequence,
        kind=CONDITION_TIMEOUT,
        delay_seconds=wait.timeout_seconds,
        created_at=wait.opened_at,
        fire_at=wait.fire_at,
        due_at=wait.fire_at,
    )


def _payload(run: Run, timer: Timer) -> dict[str, Any]:
    """The members that every event of a timer carries; the delay is the authored one (engine §2.5, §6.1)."""
    members: dict[str, Any] = {
        "timer_id": timer_id(timer.run_id, timer.sequence),
        "sequence": timer.sequence,
        "delay_seconds": timer.delay_seconds,
        "fire_at": wire_time(timer.fire_at),
    }
    if timer.kind == CONDITION_TIMEOUT and run.open_wait is not None:
        return members | {"timer_kind": CONDITION_TIMEOUT} | wait_members(run.run_id, run.open_wait)
    return members | group_members(timer.parallel_group_path)


def fire(writer: RunWriter, timer: Timer) -> None:
    """Record the one end of a pending timer; it wakes the run when its whole group is done."""
    fired = copy.copy(timer)
    fired.status, fired.fired_at = "fired", writer.now
    writer.put_timer(fired)
    writer.run.open_timer_count -= 1
    payload = _payload(writer.run, fired) | {"fired_at": wire_time(writer.now)}
    if timer.kind == CONDITION_TIMEOUT:
        _time_out_wait(writer, payload)
        return
    wake = _resume(fired) if writer.completes_group(timer.group_base) else None
    writer.record("TimerFired", payload, wake=wake)


def _time_out_wait(writer: RunWriter, fired: dict[str, Any]) -> None:
    """Never during a lease: the completion may consume the wait (engine §4.4)."""
    wait = writer.run.open_wait
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
    writer.append("ConditionWaitTimedOut", members | {"timer_id": named}, wake=wake)
    writer.run.open_wait = None


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

    Those are the timers of no delay that this decision has opened, and the timeout of the open condition wait.
    """
    writer.end_lease()
    for timer in writer.pending_timers():
        if timer.sequence in writer.transition.created_timers and timer.fire_at <= writer.now:
            fire(writer, timer)
    wait = writer.run.open_wait
    timeout = None if wait is None else timeout_timer(writer.run, wait)
    if timeout is not None and timeout.fire_at <= writer.now:
        fire(writer, timeout)


def cancel_timers(writer: RunWriter) -> None:
    """Cancel every pending timer of a closing run."""
    for timer in writer.pending_timers():
        cancel(writer, timer)


def cancel(writer: RunWriter, timer: Timer) -> None:
    """Cancel one pending timer."""
    cancelled = copy.copy(timer)
    cancelled.status, cancelled.cancelled_at = "cancelled", writer.now
    writer.put_timer(cancelled)
    writer.run.open_timer_count -= 1
    writer.append("TimerCancelled", _payload(writer.run, cancelled) | {"cancelled_at": wire_time(writer.now)})


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
