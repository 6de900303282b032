"""Output streams: ordered items that a run, or its operator, leaves for readers (engine §6.16, control-plane §14.2)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from dw_core.engine.commands.parsed import Parsed, RecordSideEffect
from dw_core.engine.commands.stream_fields import OutputDirective
from dw_core.engine.inputs import ChangeOutputStream
from dw_core.engine.rows import TaskKind
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stream_rows import CLOSED, ERRORED, OPEN, OutputItem, OutputStream, item_key
from dw_core.engine.transition import Outcome, Rejection, WakeKey
from dw_core.engine.writer import RunWriter
from dw_core.limits import OUTPUT_STREAMS_MAX
from dw_core.protocol.timestamps import wire_time

OUTPUT_NEWS = WakeKey("", TaskKind.WORKFLOW, "output-streams")
"""Wakes the readers that wait at the end of an output stream; no queue has the empty namespace."""

BY_WORKFLOW, BY_OPERATOR = "workflow", "control_plane"


class _Appended(msgspec.Struct):
    offsets: list[int] = []
    deduped: int = 0


def decide_output(snapshot: Snapshot, change: ChangeOutputStream, now: datetime) -> Outcome:
    """Append to or close a stream of a run from outside; also after the run has closed.

    Refused with ``run_not_found``, ``stream_not_found``, ``stream_closed``, ``stream_errored``,
    ``stream_full`` or ``structural_limit_exceeded``, and changes nothing.
    """
    run = snapshot.run
    directive = change.directive
    if run is None or (run.namespace, run.workflow_id) != (change.namespace, change.workflow_id):
        members = {"workflow_id": change.workflow_id, "run_id": change.run_id}
        return Rejection("run_not_found", f"Workflow {change.workflow_id} has no run {change.run_id}.", members)
    known = snapshot.outputs.get(directive.stream_name)
    if directive.operation != "append" and known is None:
        members = {"workflow_id": run.workflow_id, "run_id": run.run_id, "stream_name": directive.stream_name}
        return Rejection("stream_not_found", f"The run has no stream {directive.stream_name}.", members)
    writer = RunWriter(snapshot, now)
    done = _change(writer, directive, BY_OPERATOR, None)
    if isinstance(done, Rejection):
        return done
    stream = _stream(writer, directive.stream_name)
    assert stream is not None, "a changed stream is there"
    named = {"workflow_id": run.workflow_id, "workflow_run_id": run.run_id, "stream": describe_stream(stream)}
    if directive.operation != "append":
        return writer.finish(named)
    accepted = len(done.offsets) - done.deduped
    return writer.finish(named | {"accepted_offsets": done.offsets, "accepted": accepted, "deduped": done.deduped})


def describe_stream(stream: OutputStream) -> dict[str, Any]:
    """The document of a stream (control-plane §14.2)."""
    return {
        "stream_name": stream.stream_name,
        "status": stream.status,
        "last_offset": stream.total_items - 1 if stream.total_items else None,
        "total_items": stream.total_items,
        "pending_items": stream.pending_items,
        "opened_at": wire_time(stream.opened_at),
        "last_appended_at": wire_time(stream.last_appended_at),
        "closed_at": wire_time(stream.closed_at),
        "error_reason": stream.error_reason,
        "retention_seconds": stream.retention_seconds,
    }


def _write(writer: RunWriter, index: int, directive: OutputDirective, source: str) -> Rejection | None:
    """Do what the ``index``-th command of a batch says; ``source`` is its task."""
    done = _change(writer, directive, BY_WORKFLOW, directive.identity or source)
    if not isinstance(done, Rejection):
        return None
    if done.reason == "structural_limit_exceeded":
        return done
    errors = {f"commands.{index}.workflow_stream": [done.message]}
    return Rejection("validation_failed", "The request is invalid.", {"errors": errors, "validation_errors": errors})


def write_outputs(writer: RunWriter, batch: Parsed, source: str) -> Rejection | None:
    """Write to the output streams of a batch, or say why all of it is refused."""
    for index, command in enumerate(batch.commands):
        if isinstance(command, RecordSideEffect) and command.output is not None:
            refused = _write(writer, index, command.output, source)
            if refused is not None:
                return refused
    return None


def recorded(directive: OutputDirective) -> dict[str, Any]:
    """What history keeps of a directive: everything but the payloads, which are kept once, in the stream."""
    members: dict[str, Any] = {
        "operation": directive.operation,
        "stream_name": directive.stream_name,
        "command_identity": directive.identity,
        "command_ordinal": directive.ordinal,
    }
    if directive.operation == "append":
        members["items"] = [
            _known(
                {
                    "idempotency_key": item.idempotency_key,
                    "item_type": item.item_type,
                    "content_type": item.content_type,
                    "payload_reference": item.payload_reference,
                }
            )
            for item in directive.items
        ]
        members["max_pending_items"] = directive.max_pending_items
    else:
        members |= {"error_reason": directive.error_reason, "retention_seconds": directive.retention_seconds}
    return _known(members)


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _stream(writer: RunWriter, name: str) -> OutputStream | None:
    return writer.transition.outputs.get(name) or writer.snapshot.outputs.get(name)


def _change(writer: RunWriter, directive: OutputDirective, origin: str, reference: str | None) -> _Appended | Rejection:
    """Apply a directive to the after image of its stream; a refused one leaves no trace that is written."""
    name = directive.stream_name
    known = _stream(writer, name)
    count = len(writer.snapshot.outputs.keys() | writer.transition.outputs.keys())
    if known is None and count >= OUTPUT_STREAMS_MAX:
        numbers = {"current_value": count, "configured_limit": OUTPUT_STREAMS_MAX}
        message = "The run would have too many output streams."
        return Rejection(
            "structural_limit_exceeded", message, {"outcome": "rejected", "limit_kind": "output_stream_count"} | numbers
        )
    stream = (
        OutputStream(run_id=writer.run.run_id, stream_name=name, opened_at=writer.now)
        if known is None
        else msgspec.structs.replace(known)
    )
    if directive.operation != "append":
        return _end(writer, stream, directive)
    return _append(writer, stream, directive, origin, reference)


def _end(writer: RunWriter, stream: OutputStream, directive: OutputDirective) -> _Appended | Rejection:
    """Close a stream; to close it once more the same way changes nothing."""
    status = ERRORED if directive.operation == "error" else CLOSED
    if stream.status != OPEN:
        return _Appended() if stream.status == status else _ended(stream)
    stream.status, stream.error_reason = status, directive.error_reason
    stream.closed_at = writer.now
    stream.retention_seconds = directive.retention_seconds
    stream.expires_at = writer.now + timedelta(seconds=directive.retention_seconds)
    writer.transition.outputs[stream.stream_name] = stream
    return _Appended()


def _append(
    writer: RunWriter, stream: OutputStream, directive: OutputDirective, origin: str, reference: str | None
) -> _Appended | Rejection:
    """Items that are there already count as deduplicated, also in a stream that has ended meanwhile."""
    known = writer.snapshot.output_items | {
        item.key: item.item_offset for item in writer.transition.output_items if item.key is not None
    }
    done = _Appended()
    added: list[OutputItem] = []
    for item in directive.items:
        key = None if item.idempotency_key is None else item_key(stream.stream_name, item.idempotency_key)
        if key is not None and key in known:
            done.offsets.append(known[key])
            done.deduped += 1
            continue
        offset = stream.total_items + len(added)
        done.offsets.append(offset)
        if key is not None:
            known[key] = offset
        added.append(
            OutputItem(
                run_id=stream.run_id,
                stream_name=stream.stream_name,
                item_offset=offset,
                idempotency_key=item.idempotency_key,
                origin=origin,
                origin_reference=reference,
                item_type=item.item_type,
                content_type=item.content_type,
                payload=item.payload,
                payload_reference=item.payload_reference,
                emitted_at=writer.now,
            )
        )
    if not added:
        return done
    if stream.status != OPEN:
        return _ended(stream)
    if stream.pending_items + len(added) > directive.max_pending_items:
        numbers = {"pending_items": stream.pending_items, "max_pending_items": directive.max_pending_items}
        return Rejection("stream_full", f"The stream {stream.stream_name} is full.", _where(stream) | numbers)
    stream.total_items += len(added)
    stream.pending_items += len(added)
    stream.last_appended_at = writer.now
    writer.transition.outputs[stream.stream_name] = stream
    writer.transition.output_items.extend(added)
    return done


def _ended(stream: OutputStream) -> Rejection:
    reason = f"stream_{stream.status}"
    return Rejection(reason, f"The stream {stream.stream_name} is {stream.status}.", _where(stream))


def _where(stream: OutputStream) -> dict[str, Any]:
    return {"run_id": stream.run_id, "stream_name": stream.stream_name}
