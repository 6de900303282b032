"""``POST …/signal/{signal_name}`` for the current run and for a named one (control-plane §13.1)."""

from __future__ import annotations

from dw_api_ingress.caller import command_context
from dw_api_ingress.command_arguments import read_arguments
from dw_api_ingress.commands import scope, settle_command
from dw_api_ingress.operation_names import check_operation_name
from dw_core.engine.inputs import SignalWorkflow
from dw_core.engine.message_streams import MESSAGE_SIGNAL
from dw_core.ids import NewId
from dw_core.limits import Limits
from dw_core.protocol.problems import Invalid
from dw_core.protocol.requests_control import WorkflowSignal
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.runs import RunReads


class SignalHandlers:
    """Turns a signal request into an input and its answer into a response."""

    def __init__(self, pump: Pump, runs: RunReads, limits: Limits, new_id: NewId) -> None:
        self._pump = pump
        self._runs = runs
        self._limits = limits
        self._new_id = new_id

    async def send(self, call: Call) -> Reply:
        """202 when the signal is stored; raises ``Problem`` otherwise."""
        body: WorkflowSignal = call.body
        name = call.params["signal_name"]
        check_operation_name("signal_name", name, self._limits.max_operation_name_length)
        if name == MESSAGE_SIGNAL:
            raise Invalid({"signal_name": ["is reserved; append to a message stream instead"]})
        arguments, named = read_arguments(body.input)
        command = SignalWorkflow(
            namespace=call.namespace,
            command_id=self._new_id(),
            context=command_context(call),
            request_id=body.request_id,
            signal_name=name,
            arguments=arguments,
            named=named,
            **scope(call),
        )
        return Reply(await settle_command(self._pump, self._runs, command), status=202)
