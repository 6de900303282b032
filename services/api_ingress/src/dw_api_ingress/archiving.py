"""``POST …/archive`` for the current run and for a named one (control-plane §13.8)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import ArchiveWorkflow
from dw_core.ids import NewId
from dw_core.protocol.requests_control import WorkflowArchive
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class ArchiveHandlers:
    """Turns a request to archive into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def archive(self, call: Call) -> Reply:
        """200 for a closed run, archived before or not; raises ``Problem`` ``run_not_closed`` for an open one."""
        body: WorkflowArchive = call.body
        command = ArchiveWorkflow(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            reason=body.reason,
            **scope(call),
        )
        return Reply(await settle_command(self._pump, self._runs, command))
