"""Signals: accepting one and recording it in history (engine §6.2, control-plane §13.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.declared import fit
from dw_core.engine.inputs import SignalWorkflow
from dw_core.engine.intake import accept, begin, over_limit, reject
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.update_rows import SignalMark
from dw_core.engine.writer import SIGNAL_RECEIVED, RunWriter
from dw_core.ids import signal_id
from dw_core.limits import Limits
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope
from dw_core.payloads.fingerprint import blob_fingerprint


def decide_signal(snapshot: Snapshot, command: SignalWorkflow, now: datetime, limits: Limits) -> Outcome:
    """Record a signal of the current run, repeat an earlier answer, or say why not.

    A signal wakes its run only when a condition wait is open; otherwise workers find it at the next wake.
    """
    intent = {
        "signal_name": command.signal_name,
        "arguments_sha256": blob_fingerprint(command.arguments),
        "run_id": command.named_run_id,
    }
    members = {"signal_name": command.signal_name}
    writer = begin(snapshot, command, "signal", intent, members, now)
    if not isinstance(writer, RunWriter):
        return writer
    arguments = fit(snapshot.contract, command, "signal", command.signal_name)
    if isinstance(arguments, Rejection):
        return reject(writer, command, "signal", intent, members, arguments)
    run = writer.run
    refused = over_limit(
        command, "pending_signal_count", run.pending_signal_count, limits.pending_signal_count, members
    )
    if refused is not None:
        return refused
    mark = SignalMark(command_id=command.command_id, command_sequence=run.next_command_sequence)
    reply = accept(writer, command, "signal", intent, members, "signal_received")
    run.pending_signal_count += 1
    run.newest_signal = mark
    _record(writer, command, arguments)
    return writer.finish(reply)


def _record(writer: RunWriter, command: SignalWorkflow, arguments: str) -> None:
    named = signal_id(command.command_id)
    payload: dict[str, Any] = {
        "signal_name": command.signal_name,
        "signal_id": named,
        "workflow_command_id": command.command_id,
        "workflow_instance_id": writer.run.workflow_id,
        "workflow_run_id": writer.run.run_id,
        "arguments": envelope(arguments),
        "payload_codec": CODEC,
    }
    wake = {
        "workflow_wait_kind": "signal",
        "open_wait_id": f"signal-application:{named}",
        "resume_source_kind": "workflow_signal",
        "resume_source_id": named,
        "workflow_signal_id": named,
        "signal_name": command.signal_name,
        "workflow_command_id": command.command_id,
        "workflow_event_type": SIGNAL_RECEIVED,
    }
    writer.record(SIGNAL_RECEIVED, payload, workflow_command_id=command.command_id, wake=wake)
