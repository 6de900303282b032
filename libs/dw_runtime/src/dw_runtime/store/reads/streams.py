"""Message streams and output streams as operators see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dw_core.engine.stream_rows import MessageStream, OutputItem, OutputStream
from dw_runtime.store.database import Database
from dw_runtime.store.reads.runs import instance_not_found, run_not_found

_decode_stream = msgspec.json.Decoder(MessageStream).decode
_decode_output = msgspec.json.Decoder(OutputStream).decode
_decode_item = msgspec.json.Decoder(OutputItem).decode
_encode = msgspec.json.Encoder().encode


class InstanceStreams(NamedTuple):
    """The message streams of a workflow id by name, with its current run and whether that is still open."""

    run_id: str
    is_open: bool
    streams: list[MessageStream]


class End(NamedTuple):
    """The place behind the last item that a reader has seen of an output stream."""

    run_id: str
    stream_name: str
    offset: int

    @property
    def key(self) -> str:
        """What waiters at the same place share; a run id and an offset have no slash in them."""
        return "/".join((self.run_id, self.stream_name, str(self.offset)))

    @classmethod
    def from_key(cls, key: str) -> End:
        """The place that :attr:`key` names."""
        run_id, stream_name, offset = key.split("/")
        return cls(run_id, stream_name, int(offset))


class StreamReads:
    """Reads streams. Always from the primary: a sender asks for what it has just written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_instance(self, namespace: str, workflow_id: str, name: str | None = None) -> InstanceStreams:
        """All message streams of a workflow id, or the named one; raises ``Problem`` ``instance_not_found``."""
        rows = await self._database.rows("describe_streams", namespace, workflow_id, name)
        if not rows:
            raise instance_not_found(workflow_id)
        run_id, is_open, _ = rows[0]
        return InstanceStreams(run_id, is_open, [_decode_stream(text) for *_, text in rows if text is not None])

    async def of_run(
        self, namespace: str, workflow_id: str, run_id: str, name: str | None = None
    ) -> list[OutputStream]:
        """The output streams of a run, or the named one.

        Raises ``Problem`` ``instance_not_found`` or ``run_not_found``.
        """
        rows = await self._database.rows("describe_outputs", namespace, workflow_id, run_id, name)
        if not rows:
            raise instance_not_found(workflow_id)
        if rows[0][0] is None:
            raise run_not_found(workflow_id, run_id)
        return [_decode_output(text) for _, text in rows if text is not None]

    async def items(self, run_id: str, name: str, first: int, size: int) -> list[OutputItem]:
        """At most ``size`` items of an output stream from an offset on."""
        rows = await self._database.rows("read_output_items", run_id, name, first, size)
        return [_decode_item(text) for (text,) in rows]

    async def news(self, keys: Sequence[str]) -> list[tuple[str, None]]:
        """The keys of those :class:`End` places behind which something has come, or nothing will come any more."""
        places = [(key, End.from_key(key)) for key in keys]
        asked = [
            {"key": key, "run_id": end.run_id, "stream_name": end.stream_name, "from": end.offset}
            for key, end in places
        ]
        rows = await self._database.rows("find_output_news", _encode(asked).decode())
        return [(key, None) for (key,) in rows]
