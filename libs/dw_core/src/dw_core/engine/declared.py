"""Signals and updates against the contract that their run declared at its start (control-plane §13.1, §13.3)."""

from __future__ import annotations

from typing import Any

from dw_core.contracts.arguments import Misfit, bind
from dw_core.contracts.declared import Kind, read_contract
from dw_core.engine.inputs import SignalWorkflow, UpdateWorkflow
from dw_core.engine.transition import Rejection
from dw_core.payloads.envelope import envelope
from dw_core.payloads.errors import PayloadError


def fit(
    recorded: dict[str, Any] | None, command: SignalWorkflow | UpdateWorkflow, kind: Kind, name: str
) -> str | Rejection:
    """The arguments as the handler takes them, or why the run does not take the command.

    Without a recorded contract every name is taken, with the arguments in the order in which they came.
    """
    contract = read_contract(recorded)
    names = None if contract is None else contract.names(kind)
    if contract is None or names is None:
        return command.arguments
    if name not in names:
        return Rejection(
            f"unknown_{kind}", f"The workflow does not declare the {kind} {name}.", _admission(kind, names)
        )
    parameters = contract.parameters(kind, name)
    if parameters is None:
        return command.arguments
    try:
        return bind(envelope(command.arguments) if command.named is None else command.named, parameters)
    except Misfit as misfit:
        errors = misfit.errors
    except PayloadError as wrong:
        errors = {wrong.field or "input": [wrong.message]}
    message = "The arguments do not fit the declared parameters."
    return Rejection(f"invalid_{kind}_arguments", message, {"errors": errors, "validation_errors": errors})


def _admission(kind: Kind, names: list[str]) -> dict[str, Any]:
    """The contract was recorded when the run started, so nothing has to be filled in later."""
    return {
        f"declared_{kind}s": names,
        f"{kind}_admission": "declared_names_only",
        "command_contract_source": "durable_history",
        "command_contract_backfill_needed": False,
        "command_contract_backfill_available": False,
    }
