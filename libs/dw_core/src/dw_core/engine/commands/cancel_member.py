"""``cancel_selection_operation``: giving up a member of a selection that is still open (engine §3.5)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from dw_core.engine.children import ABANDON, ask_to_cancel
from dw_core.engine.closing import cancel_activity
from dw_core.engine.commands.apply_update import invalid_commands
from dw_core.engine.commands.parsed import CancelSelectionOperation, Parsed
from dw_core.engine.rows import TaskKind
from dw_core.engine.selections import cancelled, close_leaf, remove_wait, selection_of
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.timer_events import CONDITION_TIMEOUT, cancel, timeout_timer
from dw_core.engine.transition import Rejection
from dw_core.engine.writer import Resume, RunWriter

_MESSAGE = "Activity cancelled because the workflow has given up this member of a selection."


def unknown_members(snapshot: Snapshot, batch: Parsed) -> Rejection | None:
    """The refusal of a batch that cancels what is no member of a recorded selection."""
    errors: dict[str, list[str]] = {}
    for index, command in enumerate(batch.commands):
        if not isinstance(command, CancelSelectionOperation):
            continue
        group = snapshot.groups.get(command.base_sequence)
        if (
            group is None
            or group.selection is None
            or group.first_path[0]["parallel_group_id"] != command.selection_group_id
        ):
            errors[f"commands.{index}.selection_group_id"] = ["names no selection of this run"]
        elif command.member_index >= len(group.selection.open):
            errors[f"commands.{index}.member_index"] = ["names no member of the selection"]
    return invalid_commands(errors) if errors else None


def cancel_member(writer: RunWriter, command: CancelSelectionOperation, source: str, resume: Resume) -> None:
    """Close what the member still has open and record that it was cancelled; nothing when it has already ended.

    The event wakes the run: its code may be waiting for the member it has just cancelled.
    """
    group = selection_of(writer, command.base_sequence)
    if group is None or not cancelled(group, command.member_index):
        return
    leaves = range(command.member_base_sequence, command.member_base_sequence + command.member_size)
    _close_activities(writer, leaves)
    _close_timers(writer, leaves)
    _give_up_children(writer, leaves)
    for wait in [wait for wait in writer.run.selected_waits if wait.sequence in leaves]:
        timer = timeout_timer(writer.run, wait)
        if timer is not None:
            cancel(writer, timer)
        remove_wait(writer.run, wait)
        close_leaf(writer, wait.path or [])
    members: dict[str, Any] = msgspec.structs.asdict(command)
    writer.append("SelectionOperationCancelled", members, workflow_task_id=source, wake=resume)


def _close_activities(writer: RunWriter, leaves: range) -> None:
    tasks = {task.activity_sequence: task for task in writer.open_tasks() if task.kind is TaskKind.ACTIVITY}
    known = writer.snapshot.activities | writer.transition.activities
    for sequence in sorted(tasks.keys() & set(leaves)):
        cancel_activity(writer, known[sequence], tasks[sequence], None, _MESSAGE)
        writer.run.open_activity_count -= 1
        close_leaf(writer, known[sequence].parallel_group_path or [])


def _close_timers(writer: RunWriter, leaves: range) -> None:
    for timer in writer.pending_timers():
        if timer.sequence in leaves and timer.kind != CONDITION_TIMEOUT:
            cancel(writer, timer)
            close_leaf(writer, timer.parallel_group_path or [])


def _give_up_children(writer: RunWriter, leaves: range) -> None:
    """A child runs on unless its cancellation policy has it asked to cancel; nobody waits for it in either case."""
    for call in writer.open_children():
        if call.sequence in leaves:
            closed = copy.copy(call)
            closed.status, closed.closed_at = "abandoned", writer.now
            if (call.cancellation_policy or ABANDON) != ABANDON:
                ask_to_cancel(writer, call, "The parent workflow has given up this member of a selection.")
            writer.put_child(closed)
            writer.run.open_child_count -= 1
            close_leaf(writer, call.parallel_group_path or [])
