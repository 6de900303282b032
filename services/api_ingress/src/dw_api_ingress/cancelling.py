"""``POST …/request-cancellation`` for the current run and for a named one (control-plane §13.6)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context, requester
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import RequestCancellation
from dw_core.ids import NewId
from dw_core.limits import CLEANUP_SECONDS_DEFAULT
from dw_core.protocol.requests_control import WorkflowRequestCancellation
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class CancellationHandlers:
    """Turns a cancellation request into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def request(self, call: Call) -> Reply:
        """202 for the first request of a run, 200 for every later one; raises ``Problem`` otherwise."""
        body: WorkflowRequestCancellation = call.body
        command = RequestCancellation(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            reason=body.reason,
            cleanup_seconds=body.cleanup_timeout_seconds or CLEANUP_SECONDS_DEFAULT,
            requester=requester(call),
            **scope(call),
        )
        answer = await settle_command(self._pump, self._runs, command)
        return Reply(answer, status=200 if answer["duplicate"] else 202)
