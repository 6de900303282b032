"""``POST …/cancel`` and ``…/terminate`` for the current run and for a named one (control-plane §13.5)."""

from __future__ import annotations

from typing import Any

from dw_api_ingress.caller import command_context
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import CancelWorkflow, TerminateWorkflow
from dw_core.ids import NewId
from dw_core.protocol.requests_control import WorkflowTerminate
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class EndHandlers:
    """Turns a request to end a run at once into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def terminate(self, call: Call) -> Reply:
        """200 when the run is closed as terminated; raises ``Problem`` otherwise."""
        return Reply(await settle_command(self._pump, self._runs, TerminateWorkflow(**self._fields(call))))

    async def cancel(self, call: Call) -> Reply:
        """200 when the run is closed as cancelled; raises ``Problem`` otherwise."""
        return Reply(await settle_command(self._pump, self._runs, CancelWorkflow(**self._fields(call))))

    def _fields(self, call: Call) -> dict[str, Any]:
        body: WorkflowTerminate = call.body
        return {
            "namespace": call.namespace,
            "command_id": self._new_id(),
            "context": command_context(call),
            "reason": body.reason,
            "request_id": body.request_id,
            **scope(call),
        }
