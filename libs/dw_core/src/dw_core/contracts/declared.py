"""What a workflow type declares that it takes: its signals, its updates and their parameters (worker-plane §6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dw_core.contracts.arguments import Parameter

Kind = Literal["signal", "update"]


class DeclaredHandler(msgspec.Struct, frozen=True):
    """One handler with its parameters."""

    name: str
    parameters: list[Parameter] = []


class CommandContract(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded contract; a list that is None was not declared, and then every name is taken."""

    signals: list[str] | None = None
    signal_contracts: list[DeclaredHandler] | None = None
    updates: list[str] | None = None
    update_contracts: list[DeclaredHandler] | None = None
    update_validators: list[str] | None = None

    def names(self, kind: Kind) -> list[str] | None:
        """The declared names of a kind, None when nothing was declared of it."""
        names, handlers = self._of(kind)
        if names is None and handlers is None:
            return None
        return sorted({*(names or ()), *(handler.name for handler in handlers or ())})

    def parameters(self, kind: Kind, name: str) -> Sequence[Parameter] | None:
        """The declared parameters of a handler, None when it declared none."""
        _, handlers = self._of(kind)
        return next((handler.parameters for handler in handlers or () if handler.name == name), None)

    def _of(self, kind: Kind) -> tuple[list[str] | None, list[DeclaredHandler] | None]:
        if kind == "signal":
            return self.signals, self.signal_contracts
        return self.updates, self.update_contracts


def read_contract(recorded: dict[str, Any] | None) -> CommandContract | None:
    """A recorded contract; one in a shape of its own counts as none, for the worker itself still checks arguments."""
    if recorded is None:
        return None
    try:
        return msgspec.convert(recorded, CommandContract)
    except msgspec.ValidationError:
        return None


def needs_validation(recorded: dict[str, Any] | None, update_name: str) -> bool:
    """Whether the run declared a validator for the update (control-plane §13.4)."""
    contract = read_contract(recorded)
    return contract is not None and update_name in (contract.update_validators or ())


def started_members(recorded: dict[str, Any] | None) -> dict[str, Any]:
    """The members of ``WorkflowStarted`` that record a contract (engine §2.3)."""
    return {f"declared_{key}": recorded[key] for key in _RECORDED if key in recorded} if recorded else {}


_RECORDED = (
    "queries",
    "query_contracts",
    "signals",
    "signal_contracts",
    "updates",
    "update_contracts",
    "update_validators",
)
