"""Whether a run can be asked a question, and with which arguments (control-plane §13, §13.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.contracts.arguments import Misfit, Parameter, bind
from dw_core.engine.rows import Run
from dw_core.engine.transition import Rejection
from dw_core.limits import QUERY_HISTORY_BYTES_MAX


class CapableWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """Live workers of the run's queue that answer queries of its type, with one build id and one contract.

    ``contract`` is the encoded command contract of the run's type, None when they declared none.
    """

    build_id: str | None
    contract: str | None


class QueryTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The run a query addresses. ``is_named`` says that the caller chose the run and not only the workflow id."""

    run: Run
    is_current: bool
    is_named: bool
    has_history: bool
    workers: Sequence[CapableWorkers]


class _Declared(msgspec.Struct, frozen=True):
    name: str
    parameters: list[Parameter] = []


class _Contract(msgspec.Struct, frozen=True):
    queries: list[str] | None = None
    query_contracts: list[_Declared] | None = None


_decode_contract = msgspec.json.Decoder(_Contract).decode


def admit(target: QueryTarget, query_name: str, value: Any) -> str | Rejection:
    """The arguments as a blob, or why the run is not asked.

    ``value`` is the request's ``input``. Raises ``PayloadError`` for an input that is no payload. A named run that is
    no longer current is asked only when it completed and its history is there.
    """
    run = target.run
    named = {"run_id": run.run_id}
    completed = run.status == "completed"
    if target.is_named and not target.is_current and not (completed and target.has_history):
        message = "The run is not the current one, and it did not complete or its history is gone."
        return Rejection("historical_run_command_rejected", message, named)
    if run.is_terminal and not completed:
        message = f"The run is {run.status}."
        return Rejection("run_not_active", message, named | {"run_status": run.status, "is_terminal": True})
    if not target.has_history:
        return Rejection("query_workflow_state_unavailable", "The run's history is gone.", named)
    if run.history_bytes > QUERY_HISTORY_BYTES_MAX:
        return Rejection("query_workflow_state_unavailable", "The run's history is too large for a query.", named)
    if not target.workers:
        message = f"No live worker of queue {run.queue} answers queries of {run.workflow_type}."
        return Rejection("query_worker_unavailable", message, named)
    fitting = [worker for worker in target.workers if run.compatibility in (None, worker.build_id)]
    if not fitting:
        message = f"No live worker has the run's build {run.compatibility}."
        return Rejection("query_worker_incompatible", message, named)
    return _arguments(fitting, query_name, value, named)


def _arguments(
    workers: Sequence[CapableWorkers], query_name: str, value: Any, named: dict[str, Any]
) -> str | Rejection:
    """The bound arguments; a name is unknown only when every worker has declared its queries and none has this one."""
    contracts = [None if worker.contract is None else _read(worker.contract) for worker in workers]
    if all(contract is not None and not _knows(contract, query_name) for contract in contracts):
        return Rejection("query_not_found", "No worker declares a query of this name.", named)
    parameters = [found for contract in contracts if contract and (found := _parameters(contract, query_name))]
    choices: list[Sequence[Parameter] | None] = [declared.parameters for declared in parameters] or [None]
    refused: dict[str, list[str]] = {}
    for choice in choices:
        try:
            return bind(value, choice)
        except Misfit as misfit:
            refused = misfit.errors
    return Rejection(
        "invalid_query_arguments",
        "The arguments do not fit the declared parameters.",
        named | {"errors": refused, "validation_errors": refused},
    )


def _read(text: str) -> _Contract | None:
    """A declared contract; one in a shape of its own counts as none, for the worker itself still checks arguments."""
    try:
        contract = _decode_contract(text)
    except msgspec.ValidationError:
        return None
    return contract if contract.queries is not None or contract.query_contracts is not None else None


def _knows(contract: _Contract, query_name: str) -> bool:
    return query_name in (contract.queries or ()) or _parameters(contract, query_name) is not None


def _parameters(contract: _Contract, query_name: str) -> _Declared | None:
    return next((declared for declared in contract.query_contracts or () if declared.name == query_name), None)
