"""Snapshots for a batch: one locked read, one read of what the decisions need beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from dw_core.engine.inputs import (
    ActivityInput,
    ClaimTask,
    CompleteWorkflowTask,
    Input,
    InstanceInput,
    Need,
    ReleaseClaim,
    RunInput,
    SweepTask,
    WorkflowTaskInput,
)
from dw_core.engine.rows import Activity, Attempt, Group, InboxEvent, Receipt, Run, Task, TaskState, VersionMarker
from dw_core.engine.snapshot import Snapshot
from dw_runtime.store.database import Session

InstanceKey = tuple[str, str]
_NAMES_A_TASK = (ActivityInput, SweepTask, ReleaseClaim, ClaimTask)

_decode_run = msgspec.json.Decoder(Run).decode
_decode_tasks = msgspec.json.Decoder(list[Task]).decode
_decode_activities = msgspec.json.Decoder(list[Activity]).decode
_decode_groups = msgspec.json.Decoder(list[Group]).decode
_decode_markers = msgspec.json.Decoder(list[VersionMarker]).decode
_decode_inbox = msgspec.json.Decoder(list[InboxEvent]).decode
_decode_receipts = msgspec.json.Decoder(list[Receipt]).decode
_decode_attempts = msgspec.json.Decoder(list[Attempt]).decode
_encoder = msgspec.json.Encoder()


def encode_rows(rows: Iterable[object]) -> str | None:
    """A JSON array parameter; None when there is nothing."""
    found = list(rows)
    return _encoder.encode(found).decode() if found else None


class Loaded(msgspec.Struct):
    """The locked state of a batch: ``now`` is the database time after the locks were taken."""

    now: datetime
    by_run: dict[str, Snapshot]
    by_instance: dict[InstanceKey, Snapshot]

    def snapshot(self, change: Input) -> Snapshot:
        """The snapshot an input is decided on."""
        if isinstance(change, InstanceInput):
            return self.by_instance[change.namespace, change.workflow_id]
        return self.by_run[change.run_id]


async def load(session: Session, batch: Sequence[Input]) -> Loaded:
    """Lock the runs of a batch in instance, then run order, and read what its decisions need."""
    keys = sorted({(i.namespace, i.workflow_id) for i in batch if isinstance(i, InstanceInput)})
    current: dict[InstanceKey, str] = {}
    if keys:
        named = encode_rows({"namespace": namespace, "workflow_id": workflow_id} for namespace, workflow_id in keys)
        rows = await session.rows("lock_instances", named)
        current = {(namespace, workflow_id): run_id for namespace, workflow_id, run_id in rows}
    run_ids = sorted({i.run_id for i in batch if isinstance(i, RunInput)} | set(current.values()))
    locked = await session.send("lock_runs", run_ids) if run_ids else None
    related = await session.send("read_related", *_related_parameters(batch, run_ids, current))
    by_run = {run_id: Snapshot() for run_id in run_ids}
    if locked is not None:
        for (text,) in await locked.fetchall():
            run = _decode_run(text)
            by_run[run.run_id].run = run
    row = await related.fetchone()
    assert row is not None, "read_related always returns one row"
    _fill(by_run, row[1:])
    await _load_settled(session, batch, by_run)
    return Loaded(row[0], by_run, {key: by_run[current[key]] if key in current else Snapshot() for key in keys})


def _related_parameters(
    batch: Sequence[Input], run_ids: list[str], current: dict[InstanceKey, str]
) -> tuple[object, ...]:
    inboxes: set[str] = set()
    closing: set[str] = set()
    for change in batch:
        run_id = (
            current.get((change.namespace, change.workflow_id)) if isinstance(change, InstanceInput) else change.run_id
        )
        if run_id is None:
            continue
        needs = change.needs
        if Need.INBOX in needs:
            inboxes.add(run_id)
        if Need.OPEN_ACTIVITIES in needs:
            closing.add(run_id)
    points = [_point(c) for c in batch if isinstance(c, _NAMES_A_TASK)]
    completions = [c for c in batch if isinstance(c, CompleteWorkflowTask) and c.parsed is not None]
    paths = [(c.run_id, c.parsed.first_path) for c in completions if c.parsed is not None]
    groups = [
        {"run_id": run_id, "base_sequence": path[0]["parallel_group_base_sequence"]} for run_id, path in paths if path
    ]
    markers = [
        {"run_id": c.run_id, "change_id": change_id}
        for c in completions
        if c.parsed is not None
        for change_id in c.parsed.change_ids
    ]
    return (
        run_ids,
        encode_rows(points),
        list(inboxes),
        list(closing),
        encode_rows(groups),
        encode_rows(markers),
    )


def _point(change: ActivityInput | SweepTask | ReleaseClaim | ClaimTask) -> dict[str, object]:
    """Where to find an activity's rows; an input that does not know the sequence finds it through the task."""
    if isinstance(change, ActivityInput):
        sequence = change.sequence
    else:
        sequence = 0 if isinstance(change, ClaimTask) else change.activity_sequence
    return {"run_id": change.run_id, "task_number": change.task_number, "sequence": sequence}


def _fill(by_run: dict[str, Snapshot], parts: Sequence[str | None]) -> None:
    tasks, activities, groups, markers, inbox = parts
    for task in _decode_tasks(tasks) if tasks else ():
        by_run[task.run_id].tasks[task.task_number] = task
    for activity in _decode_activities(activities) if activities else ():
        by_run[activity.run_id].activities[activity.sequence] = activity
    for group in _decode_groups(groups) if groups else ():
        by_run[group.run_id].groups[group.base_sequence] = group
    for marker in _decode_markers(markers) if markers else ():
        by_run[marker.run_id].markers[marker.change_id] = marker
    for event in _decode_inbox(inbox) if inbox else ():
        by_run[event.run_id].inbox.append(event)


async def _load_settled(session: Session, batch: Sequence[Input], by_run: dict[str, Snapshot]) -> None:
    """Reports on a lease that has ended are answered from the records of closed tasks and attempts.

    They also get to see where their activity stands now: its open task, which has another number after a retry.
    """
    points: list[dict[str, object]] = []
    for change in batch:
        if isinstance(change, WorkflowTaskInput | ActivityInput):
            snapshot = by_run[change.run_id]
            task = snapshot.tasks.get(change.task_number)
            is_held = task is not None and task.state is TaskState.LEASED and task.attempt == change.attempt
            if snapshot.run is not None and not is_held:
                sequence = change.sequence if isinstance(change, ActivityInput) else 0
                points.append(
                    {
                        "run_id": change.run_id,
                        "task_number": change.task_number,
                        "sequence": sequence,
                        "attempt": change.attempt,
                    }
                )
    if not points:
        return
    ((receipts, attempts, tasks),) = await session.rows("read_settled", encode_rows(points))
    for task in _decode_tasks(tasks) if tasks else ():
        by_run[task.run_id].tasks[task.task_number] = task
    for receipt in _decode_receipts(receipts) if receipts else ():
        by_run[receipt.run_id].receipts[receipt.task_number] = receipt
    for attempt in _decode_attempts(attempts) if attempts else ():
        by_run[attempt.run_id].attempts[attempt.sequence, attempt.attempt] = attempt
