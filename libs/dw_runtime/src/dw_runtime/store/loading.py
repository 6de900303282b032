"""Snapshots for a batch: one locked read, one read of what the decisions need beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from dw_core.engine.claims import Claimant
from dw_core.engine.inputs import (
    ActivityInput,
    CheckActivity,
    ClaimTask,
    CommandInput,
    CompleteWorkflowTask,
    FireTimer,
    HeartbeatActivity,
    Input,
    InstanceInput,
    Need,
    ReleaseClaim,
    RunInput,
    StartWorkflow,
    SweepTask,
    TimeOutRun,
    WorkflowTaskInput,
)
from dw_core.engine.rows import Run, Task, TaskState
from dw_core.engine.run_rows import (
    Attempt,
    Command,
    Receipt,
    RecordedActivity,
)
from dw_core.engine.selections import selection_path
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Transition
from dw_core.limits import COMMAND_CONTRACT_SILENCE_SECONDS
from dw_core.sessions.session import Session
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.filling import InstanceKey, fill, fill_contracts, fill_metadata, fill_routes
from dw_runtime.store.link import Call, Transaction
from dw_runtime.store.loading_streams import fill_streams, stream_calls
from dw_runtime.store.services import load_services

_NAMES_A_TASK = (ActivityInput, SweepTask, ReleaseClaim, ClaimTask)

_decode_runs = msgspec.json.Decoder(list[Run]).decode
_decode_time = msgspec.json.Decoder(datetime).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_decode_tasks = msgspec.json.Decoder(list[Task]).decode
_decode_commands = msgspec.json.Decoder(list[Command]).decode
_decode_receipts = msgspec.json.Decoder(list[Receipt]).decode
_decode_attempts = msgspec.json.Decoder(list[Attempt]).decode
_decode_recorded = msgspec.json.Decoder(RecordedActivity).decode
_decode_session = msgspec.json.Decoder(Session).decode


class Loaded(msgspec.Struct):
    """The locked state of a batch: ``now`` is the database time after the locks were taken; ``repeated`` are the poll
    request ids asked about that hold a lease already."""

    now: datetime
    by_run: dict[str, Snapshot]
    by_instance: dict[InstanceKey, Snapshot]
    repeated: list[str]

    def snapshot(self, change: Input) -> Snapshot:
        """The snapshot an input is decided on."""
        if isinstance(change, InstanceInput):
            return self.by_instance[change.namespace, change.workflow_id]
        return self.by_run[change.run_id]

    def take_over(self, change: Input, outcome: Transition) -> dict[str, Snapshot]:
        """Fold what was decided on ``change``, for the inputs behind it; the snapshots of the runs it has touched."""
        snapshot = self.snapshot(change)
        snapshot.fold(outcome)
        touched = {outcome.run.run_id: snapshot}
        for spawned in outcome.spawned:
            run = spawned.run
            opened = self.by_run.setdefault(run.run_id, Snapshot(kept=snapshot.kept))
            if run.workflow_id == outcome.run.workflow_id:
                opened.streams, opened.messages = dict(snapshot.streams), dict(snapshot.messages)
            opened.fold(spawned)
            touched[run.run_id] = opened
            if run.run_number > 1:
                self.by_instance[run.namespace, run.workflow_id] = opened
        return touched


async def load(transaction: Transaction, batch: Sequence[Input], polls: Sequence[Claimant] = ()) -> Loaded:
    """Lock the runs of a batch in instance, then run order, and read what its decisions need, in one round trip.

    ``polls`` are claimants of held polls; the answer tells which of them were granted a lease before.
    """
    keys = sorted({(i.namespace, i.workflow_id) for i in batch if isinstance(i, InstanceInput)})
    named = encode_rows(_named(batch))
    calls: list[Call] = []
    succeeded = [{"run_id": change.run_id} for change in batch if _may_be_succeeded(change)]
    if keys or succeeded:
        instances = [{"namespace": namespace, "workflow_id": workflow_id} for namespace, workflow_id in keys]
        calls.append(("lock_instances", encode_rows([*instances, *succeeded])))
    calls += [
        ("lock_runs", named),
        (
            "read_related",
            named,
            *_related(batch),
            encode_rows(polls),
            encode_rows(_requests(batch)),
            encode_rows(_timers(batch)),
            encode_rows(_updates(batch)),
            encode_rows(_starts(batch)),
            str(COMMAND_CONTRACT_SILENCE_SECONDS),
        ),
    ]
    rare = _rare_calls(batch)
    streams = stream_calls(batch)
    found = await transaction.ask([*calls, *rare, *streams])
    found, in_rare, in_streams = found[: len(calls)], found[len(calls) :], found[len(calls) + len(rare) :]
    rare_rows = {name: rows for (name, *_), rows in zip(rare, in_rare, strict=False)}
    *_, ((runs,),), ((now, *parts, contracts, offered, kept, repeated),) = found
    by_run = {change.run_id: Snapshot() for change in batch if isinstance(change, RunInput)}
    by_instance: dict[InstanceKey, Snapshot] = {}
    for run in sorted(_decode_runs(runs or b"[]"), key=lambda run: run.run_number):
        snapshot = by_run.setdefault(run.run_id, Snapshot())
        snapshot.run = run
        by_instance[run.namespace, run.workflow_id] = snapshot
    for key in keys:
        by_instance.setdefault(key, Snapshot())
    fill(by_run, parts)
    fill_metadata(by_run, rare_rows.get("read_metadata", ()))
    fill_streams([*by_instance.values(), *by_run.values()], streams, in_streams)
    for run_id, session in rare_rows.get("read_attempt_sessions", ()):
        known = _decode_session(session or b"")
        by_run[(run_id or b"").decode()].sessions[known.session_id] = known
    fill_contracts(by_run, by_instance, contracts, offered)
    fill_routes(by_instance, rare_rows.get("read_routes", ()))
    for command in _decode_commands(kept or b"[]"):
        snapshot = by_instance[command.namespace, command.workflow_id]
        if snapshot.run is not None:
            snapshot.kept[command.request_id or ""] = command
    await _load_settled(transaction, batch, by_run)
    await _load_members(transaction, batch, by_run)
    await _load_redriven(transaction, batch, by_run)
    await load_services(transaction, batch, by_run, by_instance)
    assert now is not None, "read_related always tells the time"
    return Loaded(_decode_time(now), by_run, by_instance, _decode_texts(repeated or b"[]"))


def _rare_calls(batch: Sequence[Input]) -> list[Call]:
    """The statements that only batches with certain inputs need."""
    calls: list[Call] = []
    updates = [i for i in batch if isinstance(i, CompleteWorkflowTask) and i.parsed and i.parsed.updates_metadata]
    if updates:
        calls.append(_metadata_call(updates))
    queues = {(change.namespace, change.queue) for change in batch if isinstance(change, StartWorkflow)}
    if queues:
        named_queues = encode_rows({"namespace": namespace, "queue": queue} for namespace, queue in queues)
        calls.append(("read_routes", named_queues, str(COMMAND_CONTRACT_SILENCE_SECONDS)))
    reports = [i for i in batch if isinstance(i, HeartbeatActivity | CheckActivity)]
    if reports:
        named_tasks = encode_rows({"run_id": i.run_id, "task_number": i.task_number} for i in reports)
        calls.append(("read_attempt_sessions", named_tasks))
    return calls


def _may_be_succeeded(change: Input) -> bool:
    """Whether the decision may move the instance to another run; the instance is locked before its runs."""
    if isinstance(change, CompleteWorkflowTask):
        return change.parsed is not None and change.parsed.may_be_succeeded
    return isinstance(change, TimeOutRun)


def _named(batch: Sequence[Input]) -> list[dict[str, object]]:
    """The runs a batch names, with what their decisions read beside them."""
    named: list[dict[str, object]] = []
    for change in batch:
        needs = change.needs
        row: dict[str, object] = {
            "inbox": Need.INBOX in needs,
            "closing": Need.OPEN_WORK in needs,
            "contract": Need.CONTRACT in needs,
            "deliveries": Need.DELIVERIES in needs,
            "details": Need.DETAILS in needs,
        }
        if isinstance(change, InstanceInput):
            row |= {"namespace": change.namespace, "workflow_id": change.workflow_id}
        else:
            row["run_id"] = change.run_id
        named.append(row)
    return named


def _requests(batch: Sequence[Input]) -> list[dict[str, object]]:
    """The request ids that commands carry; a repeated one is answered from what was kept."""
    return [
        {"namespace": change.namespace, "workflow_id": change.workflow_id, "request_id": change.request_id}
        for change in batch
        if isinstance(change, CommandInput | StartWorkflow) and change.request_id is not None
    ]


def _timers(batch: Sequence[Input]) -> list[dict[str, object]]:
    """The timers that are due."""
    return [{"run_id": i.run_id, "sequence": i.sequence} for i in batch if isinstance(i, FireTimer)]


def _updates(batch: Sequence[Input]) -> list[dict[str, object]]:
    """The updates that reports name; recording one as applied repeats its arguments."""
    return [
        {"run_id": change.run_id, "update_id": update_id}
        for change in batch
        if isinstance(change, CompleteWorkflowTask) and change.parsed is not None
        for update_id in change.parsed.update_ids
    ]


def _starts(batch: Sequence[Input]) -> list[dict[str, object]]:
    """The kinds of runs that may be started, each once."""
    asked: dict[tuple[str | None, ...], None] = {}
    for change in batch:
        if isinstance(change, StartWorkflow):
            asked[change.namespace, change.queue, change.workflow_type, change.compatibility] = None
        elif isinstance(change, CompleteWorkflowTask) and change.parsed is not None:
            asked.update(((change.namespace, *started, None), None) for started in change.parsed.started_types)
    names = ("namespace", "queue", "workflow_type", "build_id")
    return [dict(zip(names, key, strict=True)) for key in asked]


def _related(batch: Sequence[Input]) -> tuple[str, str, str]:
    """The tasks, groups and version markers that inputs point at."""
    points = [_point(change) for change in batch if isinstance(change, _NAMES_A_TASK)]
    groups: list[dict[str, object]] = []
    markers: list[dict[str, object]] = []
    for change in batch:
        if not isinstance(change, CompleteWorkflowTask) or change.parsed is None:
            continue
        path = change.parsed.first_path
        if path is not None:
            groups.append({"run_id": change.run_id, "base_sequence": path[0]["parallel_group_base_sequence"]})
        markers += [{"run_id": change.run_id, "change_id": change_id} for change_id in change.parsed.change_ids]
    return encode_rows(points), encode_rows(groups), encode_rows(markers)


def _point(change: ActivityInput | SweepTask | ReleaseClaim | ClaimTask) -> dict[str, object]:
    """Where to find an activity's rows; an input that does not know the sequence finds it through the task."""
    if isinstance(change, ActivityInput):
        sequence = change.sequence
    else:
        sequence = 0 if isinstance(change, ClaimTask) else change.activity_sequence
    return {"run_id": change.run_id, "task_number": change.task_number, "sequence": sequence}


def _metadata_call(updates: Sequence[CompleteWorkflowTask]) -> Call:
    """The statement that reads memo and search attributes for batches that update them."""
    namespaces = {change.namespace for change in updates}
    return ("read_metadata", encode_rows({"run_id": change.run_id} for change in updates), encode_rows(namespaces))


async def _load_members(transaction: Transaction, batch: Sequence[Input], by_run: dict[str, Snapshot]) -> None:
    """Selections whose members may end in this batch without being named by it, and members that it cancels.

    A signal satisfies a selected condition, a timeout ends one, and events of members may wait in the inbox.
    """
    groups: list[dict[str, object]] = []
    for run_id, snapshot in by_run.items():
        paths = [] if snapshot.run is None else [wait.path for wait in snapshot.run.selected_waits]
        paths += [selection_path(event.payload) for event in snapshot.inbox]
        bases = {path[0]["parallel_group_base_sequence"] for path in paths if path}
        groups += [{"run_id": run_id, "base_sequence": base} for base in bases - snapshot.groups.keys()]
    spans: list[dict[str, object]] = []
    for change in batch:
        if isinstance(change, CompleteWorkflowTask) and change.parsed is not None:
            for member in change.parsed.cancelled_members:
                first, size = member.member_base_sequence, member.member_size
                spans.append({"run_id": change.run_id, "first": first, "last": first + size - 1})
                groups.append({"run_id": change.run_id, "base_sequence": member.base_sequence})
    if not groups and not spans:
        return
    parts = (await transaction.ask([("read_members", encode_rows(groups), encode_rows(spans))]))[0][0]
    found, tasks, activities, timers, children = parts
    fill(by_run, (tasks, activities, timers, children, None, None, found, None, None, None))


async def _load_redriven(transaction: Transaction, batch: Sequence[Input], by_run: dict[str, Snapshot]) -> None:
    """The activities that followed runs have where redriven ones go on now."""
    spans: list[dict[str, object]] = []
    for change in batch:
        if not isinstance(change, CompleteWorkflowTask) or change.parsed is None:
            continue
        run, commands = by_run[change.run_id].run, change.parsed.commands
        if run is None or run.redrive_of is None:
            continue
        first = run.next_workflow_sequence
        named = {"run_id": run.run_id, "source": run.redrive_of}
        spans.append(named | {"first": first, "last": first + len(commands) - 1})
    if not spans:
        return
    for run_id, sequence, recorded in (await transaction.ask([("read_redriven", encode_rows(spans))]))[0]:
        assert run_id is not None and sequence is not None and recorded is not None
        by_run[run_id.decode()].redriven[int(sequence)] = _decode_recorded(recorded)


async def _load_settled(transaction: Transaction, batch: Sequence[Input], by_run: dict[str, Snapshot]) -> None:
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
    ((receipts, attempts, tasks),) = (await transaction.ask([("read_settled", encode_rows(points))]))[0]
    for task in _decode_tasks(tasks) if tasks else ():
        by_run[task.run_id].tasks[task.task_number] = task
    for receipt in _decode_receipts(receipts) if receipts else ():
        by_run[receipt.run_id].receipts[receipt.task_number] = receipt
    for attempt in _decode_attempts(attempts) if attempts else ():
        by_run[attempt.run_id].attempts[attempt.sequence, attempt.attempt] = attempt
