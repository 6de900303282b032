"""Updates: accepting one and recording it in history (engine §6.9, control-plane §13.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.contracts.declared import needs_validation
from dw_core.engine.declared import fit
from dw_core.engine.inputs import UpdateWorkflow
from dw_core.engine.intake import accept, begin, over_limit, reject
from dw_core.engine.rows import STANDALONE_ACTIVITY
from dw_core.engine.service_calls import link_update, refuse_start
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.update_rows import Update
from dw_core.engine.update_tasks import UPDATE_ACCEPTED, accepted_members
from dw_core.engine.writer import RunWriter
from dw_core.ids import update_id
from dw_core.limits import Limits
from dw_core.payloads.fingerprint import blob_fingerprint
from dw_core.protocol.timestamps import wire_time

COMMAND_TYPE: Final = "update"
VALIDATION_REQUIRED = "update_validation_required"
"""The update has a declared validator that has not been asked; the handler asks a worker and submits it again."""


def decide_update(snapshot: Snapshot, command: UpdateWorkflow, now: datetime, limits: Limits) -> Outcome:
    """Accept an update for the current run, repeat an earlier answer, or say why not.

    An accepted update is applied by a workflow task of its own, after every signal that was accepted before it. One
    with a declared validator is accepted only with its approval; a validator's refusal is recorded as a rejected
    command and never enters history.
    """
    refused = refuse_start(snapshot, command.service_call_id)
    if refused is not None:
        return refused
    intent = {
        "update_name": command.update_name,
        "arguments_sha256": blob_fingerprint(command.arguments),
        "run_id": command.named_run_id,
    }
    members = {"update_name": command.update_name, "update_status": "rejected"}
    writer = begin(snapshot, command, COMMAND_TYPE, intent, members, now)
    if not isinstance(writer, RunWriter):
        return writer
    if writer.run.workflow_type == STANDALONE_ACTIVITY:
        nobody = Rejection("unknown_update", "A standalone activity takes no updates: no code would apply them.")
        return reject(writer, command, COMMAND_TYPE, intent, members, nobody)
    arguments = fit(snapshot.contract, command, COMMAND_TYPE, command.update_name)
    if isinstance(arguments, Rejection):
        return reject(writer, command, COMMAND_TYPE, intent, members, arguments)
    unvalidated = _unvalidated(snapshot, command, arguments)
    if isinstance(unvalidated, Rejection):
        is_final = unvalidated.reason == "update_validator_rejected"
        return reject(writer, command, COMMAND_TYPE, intent, members, unvalidated) if is_final else unvalidated
    refused = over_limit(
        command, "pending_update_count", writer.run.open_update_count, limits.pending_update_count, members
    )
    return refused or _accept(writer, command, arguments, intent)


def _unvalidated(snapshot: Snapshot, command: UpdateWorkflow, arguments: str) -> Rejection | None:
    """Why an update that its run wants validated is not accepted yet, or not at all (control-plane §13.4)."""
    run = snapshot.run
    assert run is not None, "an update without a run is refused earlier"
    named = {"workflow_id": run.workflow_id, "run_id": run.run_id, "update_name": command.update_name}
    verdict = command.verdict
    if not needs_validation(snapshot.contract, command.update_name):
        return None
    if command.request_id is None:
        message = "An update with a validator needs a request_id."
        return Rejection("update_validation_request_id_required", message, named)
    if verdict is None:
        members = named | {"run": run, "arguments": arguments}
        return Rejection(VALIDATION_REQUIRED, "The update's validator has not been asked.", members)
    if verdict.is_approved:
        return None
    errors = {"errors": verdict.errors, "validation_errors": verdict.errors}
    return Rejection("update_validator_rejected", verdict.message, errors)


def _accept(writer: RunWriter, command: UpdateWorkflow, arguments: str, intent: dict[str, Any]) -> Outcome:
    run = writer.run
    named = update_id(command.command_id)
    behind = run.newest_signal if run.pending_signal_count else None
    update = Update(
        update_id=named,
        command_id=command.command_id,
        run_id=run.run_id,
        update_name=command.update_name,
        target_scope=command.target_scope,
        command_sequence=run.next_command_sequence,
        arguments=arguments,
        queued_behind=None if behind is None else behind.command_id,
        caller=command.caller,
        service_call_id=command.service_call_id,
        accepted_at=writer.now,
    )
    members = {
        "update_id": named,
        "update_name": command.update_name,
        "update_status": "accepted",
        "accepted_at": wire_time(writer.now),
    }
    reply = accept(writer, command, COMMAND_TYPE, intent, members, None, is_applied=False)
    run.open_update_count += 1
    writer.put_update(update, is_new=True)
    link_update(writer, command.service_call_id, named)
    payload = accepted_members(run, update)
    if behind is not None:
        payload["queued_behind_command_sequence"] = behind.command_sequence
    writer.record(UPDATE_ACCEPTED, payload, workflow_command_id=command.command_id)
    return writer.finish(reply)


def release_updates(writer: RunWriter) -> None:
    """A plain task has closed: every signal that did not arrive during its lease has been seen (engine §6.9)."""
    unseen = set(writer.buffered_signals)
    for update in writer.open_updates():
        if update.queued_behind is not None and update.queued_behind not in unseen:
            writer.put_update(msgspec.structs.replace(update, queued_behind=None))
