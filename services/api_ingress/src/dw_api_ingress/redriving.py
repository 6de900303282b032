"""``POST …/runs/{run_id}/redrive`` (control-plane §13.9)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import RedriveWorkflow
from dw_core.ids import NewId
from dw_core.protocol.requests_control import WorkflowRedrive
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class RedriveHandlers:
    """Turns a request to redrive into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def redrive(self, call: Call) -> Reply:
        """200 with the new run; raises ``Problem`` ``run_not_failed`` or ``selected_run_not_current``."""
        body: WorkflowRedrive = call.body
        command = RedriveWorkflow(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            **scope(call),
        )
        return Reply(await settle_command(self._pump, self._runs, command))
