"""Commands from outside: recording them, and answering one that has been sent before (control-plane §13)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.inputs import InstanceInput
from dw_core.engine.rows import Command
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection, Transition
from dw_core.engine.writer import RunWriter

SOURCE = "control_plane"


def record_command(
    writer: RunWriter,
    change: InstanceInput,
    command_type: str,
    outcome: str,
    *,
    target_scope: str = "instance",
    rejection_reason: str | None = None,
    request_id: str | None = None,
    payload: dict[str, Any] | None = None,
    reply: dict[str, Any] | None = None,
) -> None:
    """Record an intake command with the run's next command sequence; it is rejected when there is a reason for it.

    ``reply`` are the members its caller was told; a command with a ``request_id`` keeps them for repetitions.
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
            applied_at=now if accepted else None,
            rejected_at=None if accepted else now,
            reply=reply if request_id is not None else None,
        )
    )
    run.next_command_sequence += 1


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
