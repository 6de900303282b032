"""Commands from outside: recording them, and answering one that has been sent before (control-plane §13)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.inputs import CommandInput, InstanceInput
from dw_core.engine.rows import Run
from dw_core.engine.run_rows import Command
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter

SOURCE = "control_plane"


def record_command(
    writer: RunWriter,
    change: InstanceInput,
    command_type: str,
    outcome: str | None,
    *,
    is_applied: bool = True,
    target_scope: str = "instance",
    rejection_reason: str | None = None,
    request_id: str | None = None,
    payload: dict[str, Any] | None = None,
    reply: dict[str, Any] | None = None,
) -> None:
    """Record an intake command with the run's next command sequence; it is rejected when there is a reason for it.

    An accepted command is applied at once unless ``is_applied`` is false. ``reply`` are the members its caller was
    told; a command with a ``request_id`` keeps them for repetitions.
    """
    run, now = writer.run, writer.now
    accepted = rejection_reason is None
    writer.transition.commands.append(
        Command(
            command_id=change.command_id,
            namespace=run.namespace,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            command_sequence=run.next_command_sequence,
            command_type=command_type,
            target_scope=target_scope,
            status="accepted" if accepted else "rejected",
            outcome=outcome,
            rejection_reason=rejection_reason,
            request_id=request_id,
            payload=payload,
            source=SOURCE,
            context=change.context,
            accepted_at=now if accepted else None,
            applied_at=now if accepted and is_applied else None,
            rejected_at=None if accepted else now,
            reply=reply if request_id is not None else None,
        )
    )
    run.next_command_sequence += 1


def begin(
    snapshot: Snapshot,
    command: CommandInput,
    command_type: str,
    intent: dict[str, Any],
    members: dict[str, Any],
    now: datetime,
) -> RunWriter | Outcome:
    """The writer of a command's run, or the answer when there is nothing to do (control-plane §13).

    ``intent`` is what a repetition must equal, ``members`` are the members that this type of command adds to its
    answers. A command for a closed run is recorded as rejected.
    """
    again = answer_again(snapshot, command_type, command.request_id, intent)
    if again is not None:
        return again
    refused = refuse(snapshot.run, command, members)
    if refused is not None:
        return refused
    writer = RunWriter(snapshot, now)
    run = writer.run
    if not run.is_terminal:
        return writer
    closed = Rejection("run_not_active", f"Workflow {run.workflow_id} is already closed.")
    return reject(writer, command, command_type, intent, members, closed)


_OUTCOMES = {
    "run_not_active": "rejected_not_active",
    "run_not_closed": "rejected_run_not_closed",
    "run_not_failed": "rejected_run_not_failed",
    "unknown_signal": "rejected_unknown_signal",
    "unknown_update": "rejected_unknown_update",
    "invalid_signal_arguments": "rejected_invalid_arguments",
    "invalid_update_arguments": "rejected_invalid_arguments",
    "update_validator_rejected": "rejected_invalid_arguments",
}
"""Outcomes of rejected commands by the reason (control-plane §8.2)."""


def reject(
    writer: RunWriter,
    command: CommandInput,
    command_type: str,
    intent: dict[str, Any],
    members: dict[str, Any],
    refused: Rejection,
) -> Transition:
    """Record a command that its run does not take; the answer has the members of ``refused`` beside the common ones."""
    outcome = _OUTCOMES[refused.reason]
    answered = {"command_status": "rejected", "outcome": outcome, "rejection_reason": refused.reason}
    reply = _identity(writer.run, command) | members | answered | refused.fields
    record_command(
        writer,
        command,
        command_type,
        outcome,
        rejection_reason=refused.reason,
        target_scope=command.target_scope,
        request_id=command.request_id,
        payload=intent,
        reply=reply | {"message": refused.message},
    )
    return writer.finish(Rejection(refused.reason, refused.message, reply))


def over_limit(command: CommandInput, kind: str, value: int, limit: int, members: dict[str, Any]) -> Rejection | None:
    """The refusal of a command of which its run has too many open; a limit of 0 is none (engine §6.20)."""
    if not limit or value < limit:
        return None
    numbers = {"limit_kind": kind, "current_value": value, "configured_limit": limit}
    return Rejection(
        "structural_limit_exceeded",
        f"Workflow {command.workflow_id} has reached the limit {kind}.",
        {"workflow_id": command.workflow_id, "outcome": None} | numbers | members,
    )


def accept(
    writer: RunWriter,
    command: CommandInput,
    command_type: str,
    intent: dict[str, Any],
    members: dict[str, Any],
    outcome: str | None,
    *,
    is_applied: bool = True,
) -> dict[str, Any]:
    """Record an accepted command; returns the members of its answer (control-plane §8.3)."""
    reply = (
        _identity(writer.run, command)
        | members
        | {
            "command_status": "accepted",
            "outcome": outcome,
            "reason": None,
            "rejection_reason": None,
            "message": None,
        }
    )
    record_command(
        writer,
        command,
        command_type,
        outcome,
        is_applied=is_applied,
        target_scope=command.target_scope,
        request_id=command.request_id,
        payload=intent,
        reply=reply,
    )
    return reply


def refuse(run: Run | None, command: CommandInput, members: dict[str, Any]) -> Rejection | None:
    """Why a command has no run to act on: there is none, or the named one is not the current one."""
    if run is None:
        return Rejection(
            "instance_not_found",
            f"Workflow {command.workflow_id} does not exist.",
            {"workflow_id": command.workflow_id} | members,
        )
    if command.target_scope == "run" and command.run_id != run.run_id:
        return Rejection(
            "historical_run_command_rejected",
            f"Run {command.run_id} is not the current run of workflow {command.workflow_id}.",
            {"workflow_id": command.workflow_id, "run_id": command.run_id, "target_scope": "run"} | members,
        )
    return None


def _identity(run: Run, command: CommandInput) -> dict[str, Any]:
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "requested_run_id": command.named_run_id,
        "resolved_run_id": run.run_id,
        "target_scope": command.target_scope,
        "workflow_type": run.workflow_type,
        "command_id": command.command_id,
        "command_sequence": run.next_command_sequence,
        "command_source": SOURCE,
        "request_id": command.request_id,
        "retained": False,
        "intent_verified": command.request_id is not None,
        "validation_errors": {},
    }


def answer_again(
    snapshot: Snapshot, command_type: str, request_id: str | None, payload: dict[str, Any]
) -> Outcome | None:
    """The receipt kept for a request id, or ``request_id_conflict`` when it was used for something else.

    None when there is no request id or it is new. The intent of a command is its type and its payload.
    """
    kept = snapshot.kept.get(request_id) if request_id is not None else None
    if kept is None:
        return None
    assert snapshot.run is not None, "a kept command belongs to a run"
    if kept.command_type != command_type or kept.payload != payload:
        return Rejection(
            "request_id_conflict",
            f"The request id was already used for a {kept.command_type} command of another intent.",
            {
                "workflow_id": kept.workflow_id,
                "request_id": request_id,
                "retained": True,
                "intent_verified": False,
                "retained_command_type": kept.command_type,
                "retained_command_id": kept.command_id,
            },
        )
    reply = (kept.reply or {}) | {"retained": True, "intent_verified": True}
    if kept.rejection_reason is None:
        return Transition(run=snapshot.run, reply=reply)
    message = reply.pop("message", "The command was rejected.")
    return Rejection(kept.rejection_reason, message, reply)
