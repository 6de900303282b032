"""``POST …/terminate`` for the current run and for a named one (control-plane §13.5)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context
from dw_core.engine.inputs import TerminateWorkflow
from dw_core.engine.transition import Rejection
from dw_core.ids import NewId
from dw_core.protocol.requests_control import WorkflowTerminate
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.runs import RunReads, run_not_found


class TerminateHandlers:
    """Turns a terminate request into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    async def current(self, call: Call) -> Reply:
        """Terminate the current run of the workflow id."""
        return Reply(settle(await self._pump.submit(self._input(call, None))))

    async def named_run(self, call: Call) -> Reply:
        """Terminate the named run, which must be the current one; raises ``Problem`` otherwise."""
        workflow_id, run_id = call.params["workflow_id"], call.params["run_id"]
        answer = await self._pump.submit(self._input(call, run_id))
        # The engine sees only the current run, so which refusal another run id deserves is read here.
        if (
            isinstance(answer, Rejection)
            and answer.reason == "historical_run_command_rejected"
            and not await self._runs.exists(call.namespace, workflow_id, run_id)
        ):
            raise run_not_found(workflow_id, run_id)
        return Reply(settle(answer))

    def _input(self, call: Call, run_id: str | None) -> TerminateWorkflow:
        body: WorkflowTerminate = call.body
        return TerminateWorkflow(
            namespace=call.namespace,
            workflow_id=call.params["workflow_id"],
            run_id=run_id,
            command_id=self._new_id(),
            context=command_context(call),
            reason=body.reason,
            request_id=body.request_id,
            target_scope="instance" if run_id is None else "run",
        )
