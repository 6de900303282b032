"""The terminal event of an activity, whatever has brought it about (engine §3.5, §5)."""

from __future__ import annotations

import copy
from typing import Any

from dw_core.engine.closing import close_host
from dw_core.engine.commands.groups import group_members
from dw_core.engine.rows import STANDALONE_ACTIVITY, Task
from dw_core.engine.run_rows import Activity
from dw_core.engine.writer import RunWriter
from dw_core.ids import attempt_id, execution_id


def resolve(
    writer: RunWriter, activity: Activity, task: Task, status: str, event_type: str, payload: dict[str, Any]
) -> None:
    """The one terminal event of an execution; it wakes the run when its whole group is done (engine §3.5)."""
    writer.close_task(task)
    closed = copy.copy(activity)
    closed.status, closed.closed_at, closed.attempt_count = status, writer.now, task.attempt
    writer.put_activity(closed)
    writer.run.open_activity_count -= 1
    identity: dict[str, Any] = {
        "sequence": activity.sequence,
        "activity_type": activity.activity_type,
        "activity_execution_id": execution_id(activity.run_id, activity.sequence),
    }
    if task.attempt:
        identity["activity_attempt_id"] = attempt_id(activity.run_id, activity.sequence, task.attempt)
        identity["attempt_number"] = task.attempt
    if writer.run.workflow_type == STANDALONE_ACTIVITY:
        writer.record(event_type, identity | payload)
        close_host(writer, activity, event_type, payload)
        return
    ends_group = writer.ends_group(activity.group_base, activity.parallel_group_path)
    wake = _resume(activity, identity, event_type) if ends_group or task.is_cancel_requested else None
    writer.record(event_type, identity | payload | group_members(activity.parallel_group_path), wake=wake)


def _resume(activity: Activity, identity: dict[str, Any], event_type: str) -> dict[str, Any]:
    execution = identity["activity_execution_id"]
    return {
        "workflow_wait_kind": "activity",
        "open_wait_id": f"activity:{execution}",
        "resume_source_kind": "activity_execution",
        "resume_source_id": execution,
        "activity_execution_id": execution,
        "activity_attempt_id": identity.get("activity_attempt_id"),
        "activity_type": activity.activity_type,
        "workflow_sequence": activity.sequence,
        "workflow_event_type": event_type,
    }
