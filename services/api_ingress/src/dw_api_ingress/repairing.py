"""``POST …/repair`` for the current run and for a named one (control-plane §13.7)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import RepairWorkflow
from dw_core.ids import NewId
from dw_core.protocol.requests_control import WorkflowRepair
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class RepairHandlers:
    """Turns a repair request into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def repair(self, call: Call) -> Reply:
        """200 whether or not there was something to repair; raises ``Problem`` otherwise."""
        body: WorkflowRepair = call.body
        command = RepairWorkflow(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            **scope(call),
        )
        return Reply(await settle_command(self._pump, self._runs, command))
