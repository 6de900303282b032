"""Applying a validated batch inside the completion's decision (engine §3.4-§3.6)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dw_core.engine.children import start_child
from dw_core.engine.closing import complete, continue_as_new, fail
from dw_core.engine.commands.apply_update import invalid_commands, misplaced_update
from dw_core.engine.commands.cancel_member import cancel_member, unknown_members
from dw_core.engine.commands.groups import Path, group_members, is_selection, rebase
from dw_core.engine.commands.parsed import (
    CancelSelectionOperation,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    OpenConditionWait,
    Parsed,
    RecordLocalActivity,
    RecordSideEffect,
    RecordVersionMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartServiceOperation,
    StartTimer,
    UpsertMemo,
    UpsertSearchAttributes,
)
from dw_core.engine.history_limits import exceeded
from dw_core.engine.local_activities import record_local_activity
from dw_core.engine.message_streams import advance_streams
from dw_core.engine.metadata_updates import refuse_metadata, update_memo, update_search_attributes
from dw_core.engine.output_streams import recorded, write_outputs
from dw_core.engine.rows import Run, Task, TaskKind
from dw_core.engine.run_rows import Activity, Group, VersionMarker
from dw_core.engine.selections import add_leaf, new_selection
from dw_core.engine.service_calls import refuse_second_wait, start_service_operation
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.timer_events import open_timer
from dw_core.engine.transition import Rejection
from dw_core.engine.waits import close_wait, is_spurious, open_wait
from dw_core.engine.writer import RunWriter
from dw_core.ids import execution_id, task_id
from dw_core.limits import Limits, pending_activities_max, pending_children_max
from dw_core.payloads.envelope import bare


def apply_commands(writer: RunWriter, task: Task, batch: Parsed, limits: Limits) -> Rejection | None:
    """Append the batch's events and open its rows, or say why the whole batch is refused.

    A re-sent parallel group is recognised by its recorded path and changes nothing (engine §0.1 rule 4), and so does a
    condition wait that is asked for again without news (engine §3.4). Any other batch consumes the open wait.
    """
    misplaced = misplaced_update(task, batch)
    if misplaced:
        return invalid_commands(misplaced)
    if _is_resent_group(writer.snapshot, batch) or is_spurious(writer.run, task, batch):
        return None
    source = task_id(task.run_id, task.task_number)
    refused = (
        _over_limit(writer, batch, limits)
        or _conflicting_marker(writer.snapshot, batch)
        or refuse_metadata(writer.snapshot, batch, limits)
        or unknown_members(writer.snapshot, batch)
        or refuse_second_wait(writer.run, any(not c.is_answered_at_once for c in batch.service_operations))
        or write_outputs(writer, batch, source)
    )
    if refused is not None:
        return refused
    close_wait(writer)
    advance_streams(writer, batch)
    newest: int | None = None
    for command in batch.commands:
        match command:
            case ScheduleActivity():
                schedule_activity(writer, command, source)
            case StartTimer():
                _start_timer(writer, command, source)
            case StartChildWorkflow():
                _start_child(writer, command, source)
            case OpenConditionWait():
                _open_wait(writer, command, source)
            case CancelSelectionOperation():
                cancel_member(writer, command, source, task.resume or {})
            case RecordSideEffect():
                newest = _record_side_effect(writer, command, source)
            case RecordVersionMarker():
                newest = _record_version_marker(writer, command, source) or newest
            case UpsertSearchAttributes():
                newest = update_search_attributes(writer, _next_sequence(writer), command, source)
            case UpsertMemo():
                newest = update_memo(writer, _next_sequence(writer), command, source)
            case RecordLocalActivity():
                newest = record_local_activity(writer, task, _next_sequence(writer), command)
            case StartServiceOperation():
                start_service_operation(writer, _next_sequence(writer), command, source)
            case CompleteWorkflow():
                complete(writer, task, command)
            case FailWorkflow():
                fail(writer, task, command)
            case ContinueAsNew():
                continue_as_new(writer, task, command)
    if newest is not None and not batch.is_terminal and not writer.run.is_waiting:
        writer.wake_for_recorded(newest, task.resume or {})
    return None


def _is_resent_group(snapshot: Snapshot, batch: Parsed) -> bool:
    path = batch.first_path
    if path is None:
        return False
    group = snapshot.groups.get(path[0]["parallel_group_base_sequence"])
    return group is not None and len(batch.commands) == group.size and group.first_path == path


def _over_limit(writer: RunWriter, batch: Parsed, limits: Limits) -> Rejection | None:
    checks = (
        ("payload_size_bytes", batch.largest_payload, limits.payload_size_bytes),
        ("command_batch_size", len(batch.commands), limits.command_batch_size),
        (
            "pending_activity_count",
            writer.run.open_activity_count + batch.scheduled_activities,
            pending_activities_max(limits),
        ),
        (
            "pending_child_count",
            writer.run.open_child_count + batch.started_children,
            pending_children_max(limits),
        ),
        ("pending_timer_count", _timers_left(writer.run) + batch.started_timers, limits.pending_timer_count),
    )
    for kind, value, limit in checks:
        if limit and value > limit:
            return exceeded(kind, value, limit)
    return None


def _timers_left(run: Run) -> int:
    """The pending timers of a run when its open condition wait has been consumed."""
    return run.open_timer_count - (run.open_wait is not None and run.open_wait.fire_at is not None)


def _conflicting_marker(snapshot: Snapshot, batch: Parsed) -> Rejection | None:
    """A second marker of one change id must repeat the recorded version."""
    versions = {change_id: marker.version for change_id, marker in snapshot.markers.items()}
    for index, command in enumerate(batch.commands):
        if not isinstance(command, RecordVersionMarker):
            continue
        if versions.setdefault(command.change_id, command.version) != command.version:
            return invalid_commands(
                {f"commands.{index}.version": ["differs from the version recorded for this change_id"]}
            )
    return None


def _next_sequence(writer: RunWriter) -> int:
    sequence = writer.run.next_workflow_sequence
    writer.run.next_workflow_sequence += 1
    return sequence


def _after(now: datetime, seconds: int | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def schedule_activity(writer: RunWriter, command: ScheduleActivity, source: str | None) -> None:
    """Open an activity with its task; ``source`` is the workflow task that scheduled it, if any."""
    run = writer.run
    sequence = _next_sequence(writer)
    path = rebase(command.path, sequence) if command.path else None
    session = command.worker_session
    queue = command.queue or (session.queue if session is not None else None) or run.queue
    activity = Activity(
        run_id=run.run_id,
        sequence=sequence,
        activity_type=command.activity_type,
        queue=queue,
        arguments=command.arguments,
        has_retry_policy=command.has_retry_policy,
        retry_policy=command.retry_policy,
        timeouts=command.timeouts,
        cancellation_policy=command.cancellation_policy,
        parallel_group_path=path,
        group_base=path[0]["parallel_group_base_sequence"] if path else None,
        scheduled_at=writer.now,
    )
    writer.put_activity(activity, is_new=True)
    if path is not None:
        _open_group(writer, path)
    run.open_activity_count += 1
    writer.append("ActivityScheduled", _scheduled_payload(activity), workflow_task_id=source)
    writer.open_task(
        Task(
            run_id=run.run_id,
            task_number=writer.next_task_number(),
            kind=TaskKind.ACTIVITY,
            namespace=run.namespace,
            queue=queue,
            task_type=activity.activity_type,
            compatibility=run.compatibility,
            priority=run.priority,
            fairness_key=run.fairness_key,
            fairness_weight=run.fairness_weight,
            available_at=writer.now,
            created_at=writer.now,
            activity_sequence=sequence,
            schedule_to_start_at=_after(writer.now, command.timeouts.schedule_to_start_timeout),
            schedule_to_close_at=_after(writer.now, command.timeouts.schedule_to_close_timeout),
            session_id=None if session is None else session.session_id,
            worker_session=session,
        )
    )


def _scheduled_payload(activity: Activity) -> dict[str, Any]:
    policy = activity.cancellation_policy
    authored = {} if policy is None else {"cancellation_policy": policy}
    return (
        authored
        | {
            "sequence": activity.sequence,
            "activity_type": activity.activity_type,
            "activity_class": activity.activity_type,
            "activity_execution_id": execution_id(activity.run_id, activity.sequence),
            "queue": activity.queue,
        }
        | group_members(activity.parallel_group_path)
    )


def _open_group(writer: RunWriter, path: Path) -> None:
    """The first leaf opens its outermost group with every leaf pending; the batch is known to be complete."""
    outer = path[0]
    if outer["parallel_group_index"] == 0:
        base, size = outer["parallel_group_base_sequence"], outer["parallel_group_size"]
        writer.transition.groups[base] = Group(
            run_id=writer.run.run_id,
            base_sequence=base,
            size=size,
            open_count=size,
            first_path=path,
            selection=new_selection(path),
        )
        writer.transition.created_groups.add(base)
    if is_selection(path):
        add_leaf(writer.transition.groups[outer["parallel_group_base_sequence"]], path)


def _start_timer(writer: RunWriter, command: StartTimer, source: str) -> None:
    sequence = _next_sequence(writer)
    path = rebase(command.path, sequence) if command.path else None
    if path is not None:
        _open_group(writer, path)
    open_timer(writer, sequence, command.delay_seconds, path, source)


def _start_child(writer: RunWriter, command: StartChildWorkflow, source: str) -> None:
    sequence = _next_sequence(writer)
    path = rebase(command.path, sequence) if command.path else None
    if path is not None:
        _open_group(writer, path)
    start_child(writer, sequence, path, command, source)


def _open_wait(writer: RunWriter, command: OpenConditionWait, source: str) -> None:
    sequence = _next_sequence(writer)
    path = rebase(command.path, sequence) if command.path else None
    if path is not None:
        _open_group(writer, path)
    open_wait(writer, sequence, command, source, path)


def _record_side_effect(writer: RunWriter, command: RecordSideEffect, source: str) -> int:
    payload: dict[str, Any] = {
        "sequence": _next_sequence(writer),
        "result": bare(command.result),
        "payload_codec": "avro",
    }
    if command.output is not None:
        payload["workflow_stream"] = recorded(command.output)
    return writer.append("SideEffectRecorded", payload, workflow_task_id=source)


def _record_version_marker(writer: RunWriter, command: RecordVersionMarker, source: str) -> int | None:
    """Record the decision once; a repeat of the recorded version is a no-op."""
    known = writer.snapshot.markers.get(command.change_id) is not None or any(
        marker.change_id == command.change_id for marker in writer.transition.markers
    )
    if known:
        return None
    writer.transition.markers.append(
        VersionMarker(run_id=writer.run.run_id, change_id=command.change_id, version=command.version)
    )
    return writer.append(
        "VersionMarkerRecorded",
        {
            "sequence": _next_sequence(writer),
            "change_id": command.change_id,
            "version": command.version,
            "min_supported": command.min_supported,
            "max_supported": command.max_supported,
        },
        workflow_task_id=source,
    )
