"""Service calls in the transactions of the pump: what decisions read of them, and what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dw_core.engine.inputs import CompleteWorkflowTask, Input, StartActivity, StartWorkflow, UpdateWorkflow
from dw_core.engine.service_calls import called_operation
from dw_core.engine.snapshot import Snapshot
from dw_core.services.rows import Operation, OperationKey, ServiceCall, ServiceChanges
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call, Rows, Transaction

END_SERVICE_CALLS = "end_service_calls"

_decode_operations = msgspec.json.Decoder(list[Operation]).decode
_decode_calls = msgspec.json.Decoder(list[ServiceCall]).decode
_decode_ids = msgspec.json.Decoder(list[str]).decode


async def load_services(
    transaction: Transaction,
    batch: Sequence[Input],
    by_run: Mapping[str, Snapshot],
    by_instance: Mapping[tuple[str, str], Snapshot],
) -> None:
    """Give the runs of a batch the operations that they call, and the calls that their decisions depend on.

    Calls are locked behind the runs; a batch that touches none costs nothing.
    """
    wanted: list[tuple[Snapshot, OperationKey]] = []
    keys: list[dict[str, Any]] = []
    answered: list[tuple[Snapshot, str]] = []
    for change in batch:
        if isinstance(change, StartWorkflow | StartActivity | UpdateWorkflow) and change.service_call_id is not None:
            answered.append((by_instance[change.namespace, change.workflow_id], change.service_call_id))
        if not isinstance(change, CompleteWorkflowTask) or change.parsed is None:
            continue
        snapshot = by_run[change.run_id]
        for command in change.parsed.service_operations if snapshot.run is not None else ():
            assert snapshot.run is not None
            operation = called_operation(snapshot.run, command)
            wanted.append((snapshot, operation))
            # A key that stands for the workflow sequence is new with the sequence.
            if command.idempotency_key is not None:
                named = {"caller_namespace": snapshot.run.namespace, "idempotency_key": command.idempotency_key}
                keys.append(msgspec.structs.asdict(operation) | named)
    if not wanted and not answered:
        return
    operations = {operation for _, operation in wanted}
    ids = [{"service_call_id": call_id} for _, call_id in answered]
    call = ("read_services", encode_rows(operations), encode_rows(keys), encode_rows(ids))
    ((found, calls),) = (await transaction.ask([call]))[0]
    by_key = {operation.key: operation for operation in (_decode_operations(found) if found else ())}
    known = {known.service_call_id: known for known in (_decode_calls(calls) if calls else ())}
    for snapshot, operation in wanted:
        if operation in by_key:
            snapshot.operations[operation] = by_key[operation]
        snapshot.service_calls.update(known)
    for snapshot, call_id in answered:
        if call_id in known:
            snapshot.service_calls[call_id] = known[call_id]


def service_writes(changes: ServiceChanges) -> list[Call]:
    """The statements that write what has changed about service calls, in the order in which they depend."""
    named = (
        ("open_service_calls", changes.calls),
        ("add_service_waiters", changes.waiters),
        ("link_service_calls", changes.links),
        ("move_service_calls", changes.moves),
        (END_SERVICE_CALLS, changes.ends),
    )
    return [(name, encode_rows(rows)) for name, rows in named if rows]


def told_runs(calls: Sequence[Call], results: Sequence[Rows]) -> set[str]:
    """The runs that were left the end of a service call, from the results of a batch's statements."""
    told: set[str] = set()
    for call, rows in zip(calls, results, strict=False):
        if call[0] == END_SERVICE_CALLS:
            told.update(*(_decode_ids(runs) for runs, _ in rows if runs))
    return told
