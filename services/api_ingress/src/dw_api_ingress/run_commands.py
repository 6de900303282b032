"""Commands that carry next to no arguments, for the current run and for a named one (control-plane §13.5-§13.9)."""

from __future__ import annotations

from typing import Any

from dw_api_ingress.caller import command_context, requester
from dw_api_ingress.commands import scope, settle_command
from dw_core.engine.inputs import (
    ArchiveWorkflow,
    CancelWorkflow,
    CommandInput,
    RedriveWorkflow,
    RepairWorkflow,
    RequestCancellation,
    TerminateWorkflow,
)
from dw_core.ids import NewId
from dw_core.limits import CLEANUP_SECONDS_DEFAULT
from dw_core.protocol.requests_control import WorkflowRequestCancellation
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class RunCommandHandlers:
    """Turns each request into an input and its answer into a response; raises ``Problem`` for every refusal."""

    def __init__(self, pump: Pump, runs: RunReads, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        commands = {
            "terminate": self.terminate,
            "cancel": self.cancel,
            "request_cancellation": self.request_cancellation,
            "repair": self.repair,
            "archive": self.archive,
        }
        return {
            **{f"workflow_{name}": handler for name, handler in commands.items()},
            **{f"workflow_run_{name}": handler for name, handler in commands.items()},
            "workflow_run_redrive": self.redrive,
        }

    async def terminate(self, call: Call) -> Reply:
        """200 when the run is closed as terminated."""
        return Reply(await self._settled(TerminateWorkflow(reason=call.body.reason, **self._repeatable(call))))

    async def cancel(self, call: Call) -> Reply:
        """200 when the run is closed as cancelled."""
        return Reply(await self._settled(CancelWorkflow(reason=call.body.reason, **self._repeatable(call))))

    async def request_cancellation(self, call: Call) -> Reply:
        """202 for the first request of a run, 200 for every later one."""
        body: WorkflowRequestCancellation = call.body
        command = RequestCancellation(
            reason=body.reason,
            cleanup_seconds=body.cleanup_timeout_seconds or CLEANUP_SECONDS_DEFAULT,
            requester=requester(call),
            **self._fields(call),
        )
        answer = await self._settled(command)
        return Reply(answer, status=200 if answer["duplicate"] else 202)

    async def repair(self, call: Call) -> Reply:
        """200 whether or not there was something to repair."""
        return Reply(await self._settled(RepairWorkflow(**self._repeatable(call))))

    async def archive(self, call: Call) -> Reply:
        """200 for a closed run, archived before or not; ``run_not_closed`` for an open one."""
        return Reply(await self._settled(ArchiveWorkflow(reason=call.body.reason, **self._repeatable(call))))

    async def redrive(self, call: Call) -> Reply:
        """200 with the new run; ``run_not_failed`` or ``selected_run_not_current`` otherwise."""
        return Reply(await self._settled(RedriveWorkflow(**self._repeatable(call))))

    async def _settled(self, command: CommandInput) -> dict[str, Any]:
        return await settle_command(self._pump, self._runs, command)

    def _repeatable(self, call: Call) -> dict[str, Any]:
        """The fields of a command that its sender may repeat under a request id."""
        return {"request_id": call.body.request_id, **self._fields(call)}

    def _fields(self, call: Call) -> dict[str, Any]:
        return {
            "namespace": call.namespace,
            "command_id": self._new_id(),
            "context": command_context(call),
            **scope(call),
        }
