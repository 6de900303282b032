"""Condition waits: opening one, and closing the one a run was blocked on (engine §3.4, §6.3)."""

from __future__ import annotations

from datetime import timedelta

from dw_core.engine.commands.groups import Path
from dw_core.engine.commands.parsed import OpenConditionWait, Parsed
from dw_core.engine.rows import OpenWait, Run, Task
from dw_core.engine.timer_events import CONDITION_TIMEOUT, cancel, open_timer, timeout_timer, wait_members
from dw_core.engine.writer import RunWriter


def open_wait(
    writer: RunWriter, sequence: int, command: OpenConditionWait, source: str, path: Path | None = None
) -> None:
    """Block the run, or a member of a selection, on a condition; a timeout starts from this transaction's clock."""
    timeout = command.timeout_seconds
    wait = OpenWait(
        sequence=sequence,
        key=command.key,
        fingerprint=command.fingerprint,
        occurrence_id=command.occurrence_id,
        timeout_seconds=timeout,
        opened_at=writer.now,
        fire_at=None if timeout is None else writer.now + timedelta(seconds=timeout),
        path=path,
    )
    run = writer.run
    if path is None:
        run.open_wait = wait
    else:
        run.selected_waits = [*run.selected_waits, wait]
    writer.append("ConditionWaitOpened", wait_members(run.run_id, wait), workflow_task_id=source)
    if timeout is not None:
        open_timer(writer, sequence, timeout, path, source, CONDITION_TIMEOUT)


def close_wait(writer: RunWriter) -> None:
    """The workflow has gone on, or asks anew: this opening is consumed, whatever the worker found it to be."""
    run = writer.run
    wait = run.open_wait
    if wait is None:
        return
    timer = timeout_timer(run, wait)
    writer.append("ConditionWaitSatisfied", wait_members(run.run_id, wait))
    if timer is not None:
        cancel(writer, timer)
    run.open_wait = None


def is_spurious(run: Run, task: Task, batch: Parsed) -> bool:
    """Whether a worker asks again for the wait that is open although nothing it may depend on has come since."""
    wait = run.open_wait
    if wait is None or len(batch.commands) != 1:
        return False
    command = batch.commands[0]
    return (
        isinstance(command, OpenConditionWait)
        and (command.key, command.fingerprint) == (wait.key, wait.fingerprint)
        and not 0 < wait.notified_at <= task.claimed_history_sequence
    )
