"""``…/message-streams``: repeated, ordered input for a workflow (control-plane §14.1)."""

from __future__ import annotations

import re
from typing import Any

from dw_api_ingress.caller import command_context
from dw_core.engine.inputs import AppendMessage
from dw_core.engine.stream_rows import MessageStream
from dw_core.engine.transition import Rejection
from dw_core.ids import NewId
from dw_core.payloads.envelope import read_input
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.requests_control import MessageAppend
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.streams import InstanceStreams, StreamReads
from dw_runtime.telemetry.metrics import Metrics

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)


class MessageStreamHandlers:
    """Appends messages and tells where streams stand."""

    def __init__(self, pump: Pump, streams: StreamReads, metrics: Metrics, new_id: NewId) -> None:
        self._pump = pump
        self._streams = streams
        self._metrics = metrics
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "message_stream_append": self.append,
            "message_stream_list": self.list_streams,
            "message_stream_describe": self.describe,
        }

    async def append(self, call: Call) -> Reply:
        """202 for a new message, 200 for one that was there already; raises ``Problem`` otherwise."""
        body: MessageAppend = call.body
        try:
            arguments = read_input(body.input)
        except PayloadError as error:
            raise error.at("input") from error
        command = AppendMessage(
            namespace=call.namespace,
            workflow_id=call.params["workflow_id"],
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            stream_name=_name(call),
            message_id=body.message_id,
            arguments=arguments,
        )
        answer = await self._pump.submit(command)
        if isinstance(answer, Rejection):
            self._metrics.stream_messages["refused"].inc()
            if answer.reason == "structural_limit_exceeded":
                raise Problem(answer.reason, answer.message, as_status=409, **answer.fields)
        members = settle(answer)
        outcome = "duplicate" if members["duplicate"] else "accepted"
        self._metrics.stream_messages[outcome].inc()
        return Reply(members, 200 if members["duplicate"] else 202)

    async def list_streams(self, call: Call) -> Reply:
        """Every stream of the workflow id; raises ``Problem`` ``instance_not_found``."""
        workflow_id = call.params["workflow_id"]
        found = await self._streams.of_instance(call.namespace, workflow_id)
        documents = [_document(found, stream) for stream in found.streams]
        return Reply({"workflow_id": workflow_id, "run_id": found.run_id, "streams": documents})

    async def describe(self, call: Call) -> Reply:
        """One stream; raises ``Problem`` ``instance_not_found`` or ``stream_not_found``."""
        workflow_id, name = call.params["workflow_id"], _name(call)
        found = await self._streams.of_instance(call.namespace, workflow_id, name)
        if not found.streams:
            raise Problem(
                "stream_not_found",
                f"Workflow {workflow_id} has no message stream {name}.",
                workflow_id=workflow_id,
                stream_name=name,
            )
        members = {"workflow_id": workflow_id, "run_id": found.run_id}
        return Reply(members | _document(found, found.streams[0]))


def _name(call: Call) -> str:
    name = call.params["stream_name"]
    if not _NAME.fullmatch(name):
        raise Invalid({"stream_name": ["must have 1 to 128 letters, digits and . _ : -"]})
    return name


def _document(found: InstanceStreams, stream: MessageStream) -> dict[str, Any]:
    """A stream without its payloads; a wait counts while its run is the current one and open."""
    wait = stream.pending_wait
    is_waiting = wait is not None and found.is_open and wait.run_id == found.run_id
    return {
        "stream_name": stream.stream_name,
        "last_position": stream.last_position,
        "cursor_position": stream.cursor_position,
        "pending_count": stream.last_position - stream.cursor_position,
        "pending_wait": {
            "run_id": wait.run_id,
            "after_position": wait.after_position,
            "since": wire_time(wait.since),
        }
        if wait is not None and is_waiting
        else None,
        "duplicate_count": stream.duplicate_count,
        "malformed_count": 0,
        "last_input_outcome": stream.last_input_outcome,
        "last_input_message_id": stream.last_input_message_id,
        "last_input_at": wire_time(stream.last_input_at),
    }
