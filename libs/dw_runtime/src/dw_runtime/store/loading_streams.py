"""The streams that decisions read: message streams of workflow ids, output streams of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from dw_core.engine.commands.stream_fields import OutputDirective
from dw_core.engine.inputs import (
    AppendMessage,
    ChangeOutputStream,
    CompleteWorkflowTask,
    Input,
    InstanceInput,
    Need,
    TimeOutRun,
)
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.stream_rows import KnownItem, MessageStream, OutputStream, StreamMessage
from dw_core.limits import COMMAND_CONTRACT_SILENCE_SECONDS
from dw_runtime.store.link import Call, Rows

_decode_texts = msgspec.json.Decoder(list[str]).decode
_decode_streams = msgspec.json.Decoder(list[MessageStream]).decode
_decode_messages = msgspec.json.Decoder(list[StreamMessage]).decode
_decode_outputs = msgspec.json.Decoder(list[OutputStream]).decode
_decode_items = msgspec.json.Decoder(list[KnownItem]).decode
_encode = msgspec.json.Encoder().encode


def stream_calls(batch: Sequence[Input]) -> list[Call]:
    """The statements that read what the batch needs of streams; none for a batch that has nothing to do with any."""
    calls: list[Call] = []
    asked = [_asked(change) for change in batch if Need.STREAMS in change.needs]
    if asked:
        calls.append(("read_streams", _encode(asked).decode(), str(COMMAND_CONTRACT_SILENCE_SECONDS)))
    directives = [(change.run_id, directive) for change in batch for directive in _directives(change)]
    if directives:
        runs = list(dict.fromkeys(run_id for run_id, _ in directives))
        keys = [
            {"run_id": run_id, "stream_name": directive.stream_name, "idempotency_key": item.idempotency_key}
            for run_id, directive in directives
            for item in directive.items
            if item.idempotency_key is not None
        ]
        calls.append(("read_outputs", _encode(runs).decode(), _encode(keys).decode()))
    return calls


def _asked(change: Input) -> dict[str, object]:
    """Whose streams; a run that another may follow hands on what is unconsumed."""
    if isinstance(change, InstanceInput):
        named: dict[str, object] = {"namespace": change.namespace, "workflow_id": change.workflow_id}
        if isinstance(change, AppendMessage):
            named |= {"stream_name": change.stream_name, "message_id": change.message_id}
        return named | {"unconsumed": False}
    is_succeeded = isinstance(change, TimeOutRun) or (
        isinstance(change, CompleteWorkflowTask) and change.parsed is not None and change.parsed.may_be_succeeded
    )
    return {"run_id": change.run_id, "unconsumed": is_succeeded}


def _directives(change: Input) -> Collection[OutputDirective]:
    """What an input does to output streams, all of one run."""
    if isinstance(change, ChangeOutputStream):
        return [change.directive]
    if isinstance(change, CompleteWorkflowTask) and change.parsed is not None:
        return change.parsed.outputs
    return ()


def fill_streams(snapshots: Iterable[Snapshot], calls: Sequence[Call], found: Sequence[Rows]) -> None:
    """Give each snapshot what its run or its workflow id has, a copy of its own."""
    held = [snapshot for snapshot in snapshots if snapshot.run is not None]
    for (name, *_), (row,) in zip(calls, found, strict=True):
        if name == "read_streams":
            _fill_messages(held, *row)
        else:
            _fill_outputs(held, *row)


def _fill_messages(
    held: list[Snapshot], streams: bytes | None, messages: bytes | None, without_readers: bytes | None
) -> None:
    found = _decode_streams(streams or b"[]")
    kept = _decode_messages(messages or b"[]")
    unread = _decode_texts(without_readers or b"[]")
    for snapshot in held if found or unread else ():
        assert snapshot.run is not None
        snapshot.has_no_reader = snapshot.run.run_id in unread
        owner = (snapshot.run.namespace, snapshot.run.workflow_id)
        snapshot.streams = {s.stream_name: s for s in found if (s.namespace, s.workflow_id) == owner}
        snapshot.messages = {m.key: m for m in kept if (m.namespace, m.workflow_id) == owner}


def _fill_outputs(held: list[Snapshot], outputs: bytes | None, items: bytes | None) -> None:
    found, known = _decode_outputs(outputs or b"[]"), _decode_items(items or b"[]")
    for snapshot in held if found else ():
        assert snapshot.run is not None
        run_id = snapshot.run.run_id
        snapshot.outputs = {output.stream_name: output for output in found if output.run_id == run_id}
        snapshot.output_items = {item.key: item.item_offset for item in known if item.run_id == run_id}
