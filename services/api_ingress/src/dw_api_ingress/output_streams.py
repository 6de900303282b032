"""``…/runs/{run_id}/streams``: what runs leave for readers (control-plane §14.2)."""

from __future__ import annotations

import time
from typing import Any

from dw_api_ingress.queries import whole_number
from dw_core.engine.commands.stream_fields import OUTPUT_NAME, OutputDirective, read_items
from dw_core.engine.inputs import ChangeOutputStream
from dw_core.engine.output_streams import describe_stream
from dw_core.engine.stream_rows import OPEN, OutputItem, OutputStream
from dw_core.engine.transition import Rejection
from dw_core.limits import (
    OUTPUT_ITEMS_DEFAULT,
    OUTPUT_PAGE_ITEMS_DEFAULT,
    OUTPUT_PAGE_ITEMS_MAX,
    OUTPUT_RETENTION_SECONDS_DEFAULT,
    OUTPUT_WAIT_SECONDS_MAX,
)
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.requests_control import OutputAppend, OutputClose
from dw_core.protocol.timestamps import wire_time
from dw_runtime.asking.watching import Watching, wait_for
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.streams import End, StreamReads
from dw_runtime.telemetry.metrics import Metrics

_OFFSET_MAX = 2**53 - 1


class OutputStreamHandlers:
    """Reads, follows, appends to and ends output streams; a reader that waits costs no statement of its own."""

    def __init__(self, pump: Pump, streams: StreamReads, ends: Watching[None], metrics: Metrics) -> None:
        self._pump = pump
        self._streams = streams
        self._ends = ends
        self._metrics = metrics

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "output_stream_list": self.list_streams,
            "output_stream_describe": self.describe,
            "output_stream_read": self.read,
            "output_stream_append": self.append,
            "output_stream_close": self.close,
        }

    async def list_streams(self, call: Call) -> Reply:
        """The streams of a run by name; raises ``Problem`` ``instance_not_found`` or ``run_not_found``."""
        params = call.params
        found = await self._streams.of_run(call.namespace, params["workflow_id"], params["run_id"])
        return Reply(_named(call) | {"count": len(found), "streams": [describe_stream(stream) for stream in found]})

    async def describe(self, call: Call) -> Reply:
        """One stream; raises ``Problem`` as the list does, and ``stream_not_found``."""
        return Reply(_named(call) | {"stream": describe_stream(await self._one(call))})

    async def read(self, call: Call) -> Reply:
        """A page of items from an offset; with ``wait_seconds`` a reader at the end is held until there is one more."""
        first = whole_number(call.query, "from", default=0, maximum=_OFFSET_MAX)
        most = OUTPUT_PAGE_ITEMS_MAX
        size = whole_number(call.query, "max_items", default=OUTPUT_PAGE_ITEMS_DEFAULT, minimum=1, maximum=most)
        seconds = whole_number(call.query, "wait_seconds", default=0, maximum=OUTPUT_WAIT_SECONDS_MAX)
        heard = self._ends.heard
        stream = await self._one(call)
        if seconds and stream.status == OPEN and stream.total_items <= first:
            began = time.monotonic()
            await self._wait(call, End(stream.run_id, stream.stream_name, first), heard, seconds)
            self._metrics.stream_read_wait_seconds.observe(time.monotonic() - began)
            stream = await self._one(call)
        items = await self._streams.items(stream.run_id, stream.stream_name, first, size)
        following = items[-1].item_offset + 1 if items else first
        is_terminal = stream.status != OPEN and (following >= stream.total_items or not items)
        page = {"items": [_item(item) for item in items], "next_offset": following, "terminal": is_terminal}
        return Reply(_named(call) | {"stream": describe_stream(stream)} | page)

    async def append(self, call: Call) -> Reply:
        """Append items; those whose identity is known are counted and not stored again. Raises ``Problem``."""
        body: OutputAppend = call.body
        errors: dict[str, list[str]] = {}
        items = read_items(body.items, errors, "items")
        if errors:
            raise Invalid(errors)
        directive = OutputDirective(
            operation="append",
            stream_name=_name(call),
            items=items,
            max_pending_items=body.max_pending_items or OUTPUT_ITEMS_DEFAULT,
        )
        return Reply(await self._change(call, directive))

    async def close(self, call: Call) -> Reply:
        """Close a stream, or mark it as failed; raises ``Problem``."""
        body: OutputClose = call.body
        directive = OutputDirective(
            operation="close" if body.error_reason is None else "error",
            stream_name=_name(call),
            error_reason=body.error_reason,
            retention_seconds=body.retention_seconds or OUTPUT_RETENTION_SECONDS_DEFAULT,
        )
        return Reply(await self._change(call, directive))

    async def _change(self, call: Call, directive: OutputDirective) -> dict[str, Any]:
        params = call.params
        change = ChangeOutputStream(
            namespace=call.namespace,
            workflow_id=params["workflow_id"],
            run_id=params["run_id"],
            directive=directive,
        )
        answer = await self._pump.submit(change)
        if isinstance(answer, Rejection) and answer.reason == "run_not_found":
            # Whether the workflow id is known makes the difference between two refusals.
            await self._streams.of_run(call.namespace, params["workflow_id"], params["run_id"])
        if isinstance(answer, Rejection) and answer.reason == "structural_limit_exceeded":
            raise Problem(answer.reason, answer.message, as_status=409, **answer.fields)
        return settle(answer)

    async def _one(self, call: Call) -> OutputStream:
        params, name = call.params, _name(call)
        found = await self._streams.of_run(call.namespace, params["workflow_id"], params["run_id"], name)
        if not found:
            raise Problem(
                "stream_not_found",
                f"The run has no stream {name}.",
                workflow_id=params["workflow_id"],
                run_id=params["run_id"],
                stream_name=name,
            )
        return found[0]

    async def _wait(self, call: Call, end: End, heard: int, seconds: int) -> None:
        future = self._ends.expect(end.key, heard)
        if call.hangup is not None:
            call.hangup.notify(lambda: _abandon(future))
        try:
            await wait_for(future, seconds, call.draining)
        finally:
            self._ends.forget(end.key, future)


def _abandon(future: Any) -> None:
    future.cancel()


def _name(call: Call) -> str:
    name = call.params["stream_name"]
    if not OUTPUT_NAME.fullmatch(name):
        message = (
            "The name of an output stream has up to 191 letters, digits and . _ : - and begins with one of the first."
        )
        raise Problem("invalid_stream_name", message, stream_name=name)
    return name


def _named(call: Call) -> dict[str, Any]:
    return {"workflow_id": call.params["workflow_id"], "workflow_run_id": call.params["run_id"]}


def _item(item: OutputItem) -> dict[str, Any]:
    return {
        "offset": item.item_offset,
        "idempotency_key": item.idempotency_key,
        "origin": item.origin,
        "origin_reference": item.origin_reference,
        "item_type": item.item_type,
        "content_type": item.content_type,
        "payload": None if item.payload is None else envelope(item.payload),
        "payload_reference": item.payload_reference,
        "payload_codec": CODEC,
        "emitted_at": wire_time(item.emitted_at),
    }
