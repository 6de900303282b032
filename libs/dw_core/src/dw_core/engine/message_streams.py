"""Message streams: appending, delivery, cursors, and what a run hands to its successor (engine §6.15).

A message enters history as a signal with a reserved name. Its position is given when it is accepted, under the lock of
the workflow's current run, so that positions have no gaps and history has them in order.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.commands.parsed import Parsed
from dw_core.engine.inputs import AppendMessage
from dw_core.engine.intake import accept, begin, over_limit
from dw_core.engine.rows import Run
from dw_core.engine.run_rows import InboxEvent
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stream_rows import MessageStream, StreamMessage, StreamWait, message_key
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.update_rows import SignalMark
from dw_core.engine.writer import SIGNAL_RECEIVED, RunWriter
from dw_core.history.event import encode_payload
from dw_core.ids import signal_id
from dw_core.limits import MESSAGE_BACKLOG_MAX, MESSAGE_STREAMS_MAX, Limits
from dw_core.payloads.codec import CODEC, encode_blob
from dw_core.payloads.envelope import envelope
from dw_core.payloads.fingerprint import blob_fingerprint

MESSAGE_SIGNAL = "__durable_workflow_message_stream"
"""The name of the signals that carry messages; no client may send one of its own."""
MESSAGE_SCHEMA = "durable-workflow.v2.message-stream.message"
CURSOR_SCHEMA = "durable-workflow.v2.message-stream.cursor"


def decide_append(snapshot: Snapshot, command: AppendMessage, now: datetime, limits: Limits) -> Outcome:
    """Give a message the next position of its stream, or say what became of it when it was sent before.

    The id of a message names it for the life of the workflow id: with the same arguments it is a repetition, with
    others a conflict, both also when the run has closed.
    """
    known = snapshot.messages.get(message_key(command.stream_name, command.message_id))
    if known is not None:
        return _again(snapshot, command, known, now)
    members = {"stream_name": command.stream_name, "message_id": command.message_id}
    intent = members | {"arguments_sha256": blob_fingerprint(command.arguments)}
    writer = begin(snapshot, command, "message", intent, members, now)
    if not isinstance(writer, RunWriter):
        return writer
    refused = _without_reader(snapshot, command, members) or _over_limits(
        snapshot, command, writer.run, members, limits
    )
    if refused is not None:
        return refused
    return _accept(writer, command, intent)


def _again(snapshot: Snapshot, command: AppendMessage, known: StreamMessage, now: datetime) -> Outcome:
    """The answer to a message id that is taken; the stream counts it."""
    writer = RunWriter(snapshot, now)
    is_same = known.fingerprint == blob_fingerprint(command.arguments)
    stream = msgspec.structs.replace(
        snapshot.streams[command.stream_name],
        last_input_outcome="duplicate" if is_same else "rejected",
        last_input_message_id=command.message_id,
        last_input_at=writer.now,
    )
    stream.duplicate_count += is_same
    writer.transition.streams[stream.stream_name] = stream
    reply = _reply(stream, known.run_id, known) | {"duplicate": is_same}
    if is_same:
        return writer.finish(reply)
    refusal = {"accepted": False, "outcome": "rejected"}
    message = f"The message id {command.message_id} was already used for other arguments."
    del reply["reason"]
    return writer.finish(Rejection("message_identity_conflict", message, reply | refusal))


def _without_reader(snapshot: Snapshot, command: AppendMessage, members: dict[str, Any]) -> Rejection | None:
    """A message that no worker of today could consume is refused; without any worker it waits for one."""
    if not snapshot.has_no_reader:
        return None
    detail = "Live workers serve the workflow, and none of them declares the capability message_streams."
    remedy = "Run workers whose SDK has message streams, or send a signal instead."
    fields = {"workflow_id": command.workflow_id, "outcome": None, "detail": detail, "remediation": remedy}
    return Rejection("message_stream_not_supported", detail, fields | members)


def _over_limits(
    snapshot: Snapshot, command: AppendMessage, run: Run, members: dict[str, Any], limits: Limits
) -> Rejection | None:
    streams = snapshot.streams
    count = 0 if command.stream_name in streams else len(streams)
    backlog = sum(stream.last_position - stream.cursor_position for stream in streams.values())
    checks = (
        ("message_stream_count", count, MESSAGE_STREAMS_MAX),
        ("message_backlog", backlog, MESSAGE_BACKLOG_MAX),
        ("pending_signal_count", run.pending_signal_count, limits.pending_signal_count),
    )
    found = (over_limit(command, kind, value, limit, members) for kind, value, limit in checks)
    return next((refused for refused in found if refused is not None), None)


def _accept(writer: RunWriter, command: AppendMessage, intent: dict[str, Any]) -> Outcome:
    run = writer.run
    stream = _opened(writer, command.stream_name)
    stream.last_position += 1
    stream.last_input_outcome, stream.last_input_message_id = "accepted", command.message_id
    stream.last_input_at = writer.now
    message = StreamMessage(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        stream_name=command.stream_name,
        position=stream.last_position,
        message_id=command.message_id,
        fingerprint=blob_fingerprint(command.arguments),
        arguments=command.arguments,
        run_id=run.run_id,
        command_id=command.command_id,
        command_sequence=run.next_command_sequence,
        accepted_at=writer.now,
    )
    writer.transition.messages.append(message)
    run.newest_signal = SignalMark(command_id=command.command_id, command_sequence=run.next_command_sequence)
    run.pending_signal_count += 1
    reply = accept(writer, command, "message", intent, _reply(stream, run.run_id, message), "accepted")
    writer.record(
        SIGNAL_RECEIVED,
        _delivery(run, message),
        workflow_command_id=command.command_id,
        wake=_resume(message),
    )
    return writer.finish(reply)


def _reply(stream: MessageStream, run_id: str, message: StreamMessage) -> dict[str, Any]:
    return {
        "accepted": True,
        "duplicate": False,
        "workflow_id": stream.workflow_id,
        "run_id": run_id,
        "stream_name": stream.stream_name,
        "message_id": message.message_id,
        "command_id": message.command_id,
        "position": message.position,
        "cursor_position": stream.cursor_position,
        "outcome": "accepted",
        "reason": None,
    }


def _opened(writer: RunWriter, name: str) -> MessageStream:
    """The after image of a stream, to be changed; a new stream where there was none."""
    run = writer.run
    changed = writer.transition.streams.get(name)
    if changed is None:
        known = writer.snapshot.streams.get(name)
        changed = (
            MessageStream(namespace=run.namespace, workflow_id=run.workflow_id, stream_name=name)
            if known is None
            else msgspec.structs.replace(known)
        )
        writer.transition.streams[name] = changed
    return changed


# -- delivery ----------------------------------------------------------------------------------------------------------


def _delivery(run: Run, message: StreamMessage) -> dict[str, Any]:
    """The event that brings a message to the workflow's code; its payload stays the blob that was sent."""
    assert message.arguments is not None, f"message {message.key} of run {run.run_id} is delivered with its arguments"
    carried = {
        "schema": MESSAGE_SCHEMA,
        "stream_name": message.stream_name,
        "message_id": message.message_id,
        "position": message.position,
        "payload_envelope": envelope(message.arguments),
    }
    return _signal(run, signal_id(message.command_id), carried) | {"workflow_command_id": message.command_id}


def _signal(run: Run, named: str, carried: dict[str, Any]) -> dict[str, Any]:
    return {
        "signal_name": MESSAGE_SIGNAL,
        "signal_id": named,
        "workflow_instance_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "arguments": envelope(encode_blob([carried])),
        "payload_codec": CODEC,
    }


def _resume(message: StreamMessage) -> dict[str, Any]:
    named = signal_id(message.command_id)
    return {
        "workflow_wait_kind": "signal",
        "open_wait_id": f"signal-application:{named}",
        "resume_source_kind": "workflow_signal",
        "resume_source_id": named,
        "workflow_signal_id": named,
        "signal_name": MESSAGE_SIGNAL,
        "workflow_command_id": message.command_id,
        "workflow_event_type": SIGNAL_RECEIVED,
    }


# -- consumption -------------------------------------------------------------------------------------------------------


def refuse_positions(snapshot: Snapshot, batch: Parsed) -> Rejection | None:
    """Why the reported positions cannot be: nobody consumes, or has waited behind, what was never appended."""
    streams = snapshot.streams
    errors: dict[str, list[str]] = {}
    for field, member, reported in (
        ("message_stream_cursors", "through_position", batch.cursors),
        ("message_stream_waits", "after_position", batch.waits),
    ):
        for index, one in enumerate(reported):
            last = streams[one.stream_name].last_position if one.stream_name in streams else 0
            if one.position > last:
                errors[f"{field}.{index}.{member}"] = [f"is beyond the last position {last}"]
    if errors:
        return Rejection(
            "validation_failed", "The request is invalid.", {"errors": errors, "validation_errors": errors}
        )
    count = len(streams.keys() | {wait.stream_name for wait in batch.waits})
    if batch.waits and count > MESSAGE_STREAMS_MAX:
        numbers = {"current_value": count, "configured_limit": MESSAGE_STREAMS_MAX}
        return Rejection(
            "structural_limit_exceeded",
            "The workflow would have too many message streams.",
            {"outcome": "rejected", "limit_kind": "message_stream_count"} | numbers,
        )
    return None


def advance_streams(writer: RunWriter, batch: Parsed) -> None:
    """Move cursors, never back, and note which streams the run waits for now."""
    for cursor in batch.cursors:
        known = writer.snapshot.streams.get(cursor.stream_name)
        if known is None or cursor.position <= known.cursor_position:
            continue
        _opened(writer, cursor.stream_name).cursor_position = cursor.position
        advanced = {"previous_position": known.cursor_position, "new_position": cursor.position}
        writer.append("MessageCursorAdvanced", {"stream_key": cursor.stream_name} | advanced)
    if batch.reports_streams:
        _note_waits(writer, batch)


def _note_waits(writer: RunWriter, batch: Parsed) -> None:
    waits = {wait.stream_name: wait.position for wait in batch.waits}
    for name, known in writer.snapshot.streams.items():
        if known.pending_wait is not None and name not in waits:
            _opened(writer, name).pending_wait = None
    for name, position in waits.items():
        pending = StreamWait(run_id=writer.run.run_id, after_position=position, since=writer.now)
        before = writer.snapshot.streams.get(name)
        held = None if before is None else before.pending_wait
        if held is None or (held.run_id, held.after_position) != (pending.run_id, pending.after_position):
            _opened(writer, name).pending_wait = pending


# -- the next run ------------------------------------------------------------------------------------------------------


def carry_messages(writer: RunWriter, follower: Run, arrived: Collection[str | None] = ()) -> list[InboxEvent]:
    """What the next run of the workflow begins with: how far each stream is consumed, then what is still to be.

    ``arrived`` are the commands of messages that the follower is handed anyway, behind these.
    """
    names = sorted(writer.snapshot.streams.keys() | writer.transition.streams.keys())
    streams = [writer.transition.streams.get(name) or writer.snapshot.streams[name] for name in names]
    for stream in streams:
        if stream.pending_wait is not None:
            _opened(writer, stream.stream_name).pending_wait = None
    carried: list[InboxEvent] = []
    for stream in streams:
        if stream.cursor_position == 0:
            continue
        position = {"stream_name": stream.stream_name, "through_position": stream.cursor_position}
        named = f"{follower.run_id}.k{len(carried) + 1}"
        carried.append(_event(follower, _signal(follower, named, {"schema": CURSOR_SCHEMA} | position)))
    cursors = {stream.stream_name: stream.cursor_position for stream in streams}
    unconsumed = [m for m in writer.snapshot.messages.values() if m.position > cursors[m.stream_name]]
    for message in sorted(unconsumed, key=lambda message: message.command_sequence):
        if message.command_id not in arrived:
            carried.append(_event(follower, _delivery(follower, message), message.command_id))
    return carried


def consumed_commands(writer: RunWriter) -> set[str]:
    """The commands of messages that the cursors have passed: nobody is to be handed them once more."""
    streams = writer.snapshot.streams | writer.transition.streams
    cursors = {name: stream.cursor_position for name, stream in streams.items()}
    return {m.command_id for m in writer.snapshot.messages.values() if m.position <= cursors[m.stream_name]}


def _event(run: Run, payload: dict[str, Any], command_id: str | None = None) -> InboxEvent:
    return InboxEvent(
        run_id=run.run_id,
        event_type=SIGNAL_RECEIVED,
        payload=encode_payload(payload),
        workflow_command_id=command_id,
    )
