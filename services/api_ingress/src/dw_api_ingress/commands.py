"""Commands for the current run or for a named one: what every such handler does (control-plane §13)."""

from __future__ import annotations

from typing import Any

from dw_core.engine.inputs import CommandInput
from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Problem
from dw_runtime.http.call import Call
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.runs import RunReads, run_not_found


def scope(call: Call) -> dict[str, Any]:
    """Which run a request names: the fields ``workflow_id``, ``run_id`` and ``target_scope`` of its input."""
    run_id = call.params.get("run_id")
    return {
        "workflow_id": call.params["workflow_id"],
        "run_id": run_id,
        "target_scope": "instance" if run_id is None else "run",
    }


_NOT_CURRENT = ("historical_run_command_rejected", "selected_run_not_current")


async def settle_command(pump: Pump, runs: RunReads, command: CommandInput) -> dict[str, Any]:
    """Submit a command and return the members of its answer; raises ``Problem`` for a refusal."""
    return settle(await submit_command(pump, runs, command))


async def submit_command(pump: Pump, runs: RunReads, command: CommandInput) -> dict[str, Any] | Rejection:
    """Submit a command and return its answer; raises ``Problem`` ``run_not_found``.

    The engine sees only the current run, so which refusal another run id deserves is read here. A limit of the run is
    a conflict for the sender of a command (control-plane §5.1), and not a malformed request.
    """
    answer = await pump.submit(command)
    if (
        isinstance(answer, Rejection)
        and answer.reason in _NOT_CURRENT
        and command.run_id is not None
        and not await runs.exists(command.namespace, command.workflow_id, command.run_id)
    ):
        raise run_not_found(command.workflow_id, command.run_id)
    if isinstance(answer, Rejection) and answer.reason == "structural_limit_exceeded":
        raise Problem(answer.reason, answer.message, as_status=409, **answer.fields)
    return answer
