"""What is recorded of timers, and of the condition waits that some of them bound (engine §2.5, §2.6)."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dw_core.engine.commands.groups import Path, group_members
from dw_core.engine.rows import OpenWait, Run
from dw_core.engine.run_rows import Timer
from dw_core.ids import timer_id, wait_id
from dw_core.protocol.timestamps import wire_time

if TYPE_CHECKING:
    from dw_core.engine.writer import RunWriter

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
    writer.append("TimerScheduled", timer_members(writer.run, timer), workflow_task_id=source)
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
    known = {key: value for key, value in members.items() if value is not None}
    return known | group_members(wait.path)


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
        parallel_group_path=wait.path,
        group_base=wait.path[0]["parallel_group_base_sequence"] if wait.path else None,
    )


def timer_members(run: Run, timer: Timer) -> dict[str, Any]:
    """The members that every event of a timer carries; the delay is the authored one (engine §2.5, §6.1)."""
    members: dict[str, Any] = {
        "timer_id": timer_id(timer.run_id, timer.sequence),
        "sequence": timer.sequence,
        "delay_seconds": timer.delay_seconds,
        "fire_at": wire_time(timer.fire_at),
    }
    wait = run.wait(timer.sequence) if timer.kind == CONDITION_TIMEOUT else None
    if wait is not None:
        return members | {"timer_kind": CONDITION_TIMEOUT} | wait_members(run.run_id, wait)
    return members | group_members(timer.parallel_group_path)


def cancel(writer: RunWriter, timer: Timer) -> None:
    """Cancel one pending timer."""
    cancelled = copy.copy(timer)
    cancelled.status, cancelled.cancelled_at = "cancelled", writer.now
    writer.put_timer(cancelled)
    writer.run.open_timer_count -= 1
    writer.append("TimerCancelled", timer_members(writer.run, cancelled) | {"cancelled_at": wire_time(writer.now)})
