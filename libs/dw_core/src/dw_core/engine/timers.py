"""Timers: opening, firing and cancelling them (engine §6.1)."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.commands.groups import Path, group_members
from dw_core.engine.inputs import FireTimer
from dw_core.engine.rows import Timer
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import Resume, RunWriter
from dw_core.ids import timer_id
from dw_core.protocol.timestamps import wire_time


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
    writer.append("TimerScheduled", _payload(timer), workflow_task_id=source)
    return timer


def _payload(timer: Timer) -> dict[str, Any]:
    """The members that every event of a timer carries; the delay is the authored one (engine §6.1)."""
    return {
        "timer_id": timer_id(timer.run_id, timer.sequence),
        "sequence": timer.sequence,
        "delay_seconds": timer.delay_seconds,
        "fire_at": wire_time(timer.fire_at),
    } | group_members(timer.parallel_group_path)


def fire(writer: RunWriter, timer: Timer) -> None:
    """Record the one end of a pending timer; it wakes the run when its whole group is done."""
    fired = copy.copy(timer)
    fired.status, fired.fired_at = "fired", writer.now
    writer.put_timer(fired)
    writer.run.open_timer_count -= 1
    wake = _resume(fired) if writer.completes_group(timer.group_base) else None
    writer.record("TimerFired", _payload(fired) | {"fired_at": wire_time(writer.now)}, wake=wake)


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


def fire_elapsed(writer: RunWriter) -> None:
    """Fire the timers of no delay that this decision has opened, after all of its own events."""
    for timer in writer.pending_timers():
        if timer.sequence in writer.transition.created_timers and timer.fire_at <= writer.now:
            fire(writer, timer)


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
    writer.append("TimerCancelled", _payload(cancelled) | {"cancelled_at": wire_time(writer.now)})


def decide_fire(snapshot: Snapshot, due: FireTimer, now: datetime) -> Outcome:
    """Re-check the clock's finding under the lock: a timer fires once, and never early by the database clock."""
    timer = snapshot.timers.get(due.sequence)
    if snapshot.run is None or snapshot.run.is_terminal or timer is None or timer.status != "pending":
        return Rejection("task_not_found", "The timer is no longer pending.")
    if timer.fire_at > now:
        return Rejection("task_not_due", "The timer is not due yet.")
    writer = RunWriter(snapshot, now)
    fire(writer, timer)
    return writer.finish({"outcome": "fired", "timer_id": timer_id(timer.run_id, timer.sequence)})
