"""Durable selections: a group of calls of which the first to end wins (engine §3.5).

A member is one call or a nested group. The event that decides the first member is directly followed by
``SelectionResolved``. Members that lose stay open; each of their ends wakes the run, for its code may wait for them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from dw_core.engine.commands.groups import Path, is_selection
from dw_core.engine.rows import OpenWait, Run
from dw_core.engine.run_rows import Group, Selection
from dw_core.engine.timer_events import cancel, timeout_timer, wait_members
from dw_core.ids import event_id

if TYPE_CHECKING:
    from dw_core.engine.writer import Resume, RunWriter

FAILED = frozenset(
    {
        "ActivityFailed",
        "ActivityCancelled",
        "ActivityTimedOut",
        "ChildRunFailed",
        "ChildRunCancelled",
        "ChildRunTerminated",
    }
)
COMPLETED = frozenset(
    {"ActivityCompleted", "ChildRunCompleted", "TimerFired", "ConditionWaitSatisfied", "ConditionWaitTimedOut"}
)
_IDENTITIES = {
    "activity": "activity_execution_id",
    "timer": "timer_id",
    "child": "child_workflow_run_id",
    "condition": "condition_wait_id",
}
ENDS_OF_MEMBERS = FAILED | COMPLETED
_MARK = b'"parallel_group_mode":"select"'


def selection_path(payload: dict[str, Any] | msgspec.Raw) -> Path | None:
    """The group path of an event that belongs to a selection; None for every other event."""
    if not isinstance(payload, dict):
        text = bytes(payload)
        payload = msgspec.json.decode(text) if _MARK in text else {}
    path: Path | None = payload.get("parallel_group_path")
    return path if is_selection(path) else None


def add_leaf(group: Group, path: Path) -> None:
    """Count a leaf that has just been opened; the leaves of a member follow each other."""
    outer = path[0]
    assert group.selection is not None, "the group is a selection"
    is_first = (
        outer["parallel_group_base_sequence"] + outer["parallel_group_index"] == outer["selection_member_base_sequence"]
    )
    if is_first:
        group.selection.open.append(outer["selection_member_size"])


def settle(
    writer: RunWriter, path: Path, event_type: str, payload: dict[str, Any] | msgspec.Raw, resume: Resume
) -> None:
    """Count the end of a leaf that has just been appended, and record the winner if this decides the first member."""
    outer = path[0]
    group = _known(writer, outer["parallel_group_base_sequence"])
    selection = group.selection
    assert selection is not None, "the group is a selection"
    member = outer["selection_member_index"]
    group.open_count -= 1
    selection.open[member] -= 1
    is_failure = event_type in FAILED
    if member in selection.decided or not (is_failure or selection.open[member] == 0):
        return
    selection.decided.append(member)
    if selection.winner is not None:
        return
    selection.winner = member
    decoded: dict[str, Any] = payload if isinstance(payload, dict) else msgspec.json.decode(bytes(payload))
    resolution = {
        "selection_group_id": outer["parallel_group_id"],
        "selection_group_base_sequence": outer["parallel_group_base_sequence"],
        "selection_group_size": outer["parallel_group_size"],
        "member_key": outer["selection_member_key"],
        "member_index": member,
        "member_base_sequence": outer["selection_member_base_sequence"],
        "member_size": outer["selection_member_size"],
        "operation_kind": outer["selection_member_kind"],
        "operation_identity": _identity(outer, decoded),
        "outcome": "failed" if is_failure else "completed",
        "resolution_event_id": event_id(writer.run.run_id, writer.run.last_history_sequence),
        "resolution_event_type": event_type,
    }
    writer.append("SelectionResolved", resolution, wake=resume)


def _identity(outer: dict[str, Any], payload: dict[str, Any]) -> str:
    kind = outer["selection_member_kind"]
    if kind == "group":
        return f"group:{outer['selection_member_base_sequence']}:{outer['selection_member_size']}"
    return str(payload[_IDENTITIES[kind]])


def _known(writer: RunWriter, base: int) -> Group:
    """The group as this decision may change it."""
    changed = writer.transition.groups.get(base)
    if changed is None:
        changed = copy.copy(writer.snapshot.groups[base])
        if changed.selection is not None:
            changed.selection = copy.deepcopy(changed.selection)
        writer.transition.groups[base] = changed
    return changed


def selection_of(writer: RunWriter, base: int) -> Group | None:
    """The selection group with this base, for a decision that may change it; None when there is none."""
    if base not in writer.transition.groups and base not in writer.snapshot.groups:
        return None
    group = _known(writer, base)
    return group if group.selection is not None else None


def close_leaf(writer: RunWriter, path: Path) -> None:
    """Count a leaf that has been closed because its member is cancelled."""
    group = _known(writer, path[0]["parallel_group_base_sequence"])
    group.open_count -= 1


def cancelled(group: Group, member: int) -> bool:
    """Mark an open member as cancelled; False when it has ended, or was cancelled, before."""
    selection = group.selection
    assert selection is not None, "the group is a selection"
    if member in selection.decided:
        return False
    selection.decided.append(member)
    selection.open[member] = 0
    return True


def new_selection(path: Path) -> Selection | None:
    """The state of a group that is about to be opened; None for an ordinary group."""
    return Selection() if is_selection(path) else None


def remove_wait(run: Run, wait: OpenWait) -> None:
    """A condition wait has ended."""
    if wait.path is None:
        run.open_wait = None
    else:
        run.selected_waits = [other for other in run.selected_waits if other.sequence != wait.sequence]


def satisfy(writer: RunWriter, wait: OpenWait, resume: Resume) -> None:
    """A signal or update has come while this selected condition is the first that is open: it is taken as met."""
    timer = timeout_timer(writer.run, wait)
    members = wait_members(writer.run.run_id, wait)
    writer.append("ConditionWaitSatisfied", members, wake=resume)
    if wait.path is not None:
        settle(writer, wait.path, "ConditionWaitSatisfied", members, resume)
    if timer is not None:
        cancel(writer, timer)
    remove_wait(writer.run, wait)
