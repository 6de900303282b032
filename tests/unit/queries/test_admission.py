"""Which run is asked, and what its workers have declared."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from dw_core.engine.rows import Run
from dw_core.engine.transition import Rejection
from dw_core.limits import QUERY_HISTORY_BYTES_MAX
from dw_core.payloads.codec import decode_blob
from dw_core.queries.admission import CapableWorkers, QueryTarget, admit

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def target(
    status: str = "waiting",
    *contracts: dict[str, Any] | None,
    is_current: bool = True,
    is_named: bool = False,
    has_history: bool = True,
) -> QueryTarget:
    closed_at = None if status in ("pending", "running", "waiting") else NOW
    run = Run(
        run_id="r",
        namespace="n",
        workflow_id="w",
        workflow_type="t",
        queue="q",
        status=status,
        started_at=NOW,
        closed_at=closed_at,
        last_progress_at=NOW,
    )
    workers = [
        CapableWorkers(build_id=None, contract=None if contract is None else json.dumps(contract))
        for contract in contracts or (None,)
    ]
    return QueryTarget(run=run, is_current=is_current, is_named=is_named, has_history=has_history, workers=workers)


def reason(found: str | Rejection) -> str | None:
    return found.reason if isinstance(found, Rejection) else None


@pytest.mark.parametrize(
    ("status", "is_current", "has_history", "refused"),
    [
        ("pending", True, True, None),
        ("completed", True, True, None),
        ("completed", True, False, "query_workflow_state_unavailable"),
        ("failed", True, True, "run_not_active"),
        ("cancelled", True, True, "run_not_active"),
        ("completed", False, True, None),
        ("completed", False, False, "historical_run_command_rejected"),
        ("failed", False, True, "historical_run_command_rejected"),
        ("waiting", False, True, "historical_run_command_rejected"),
    ],
)
def test_a_named_run_is_asked_while_it_is_open_or_completed(
    status: str, is_current: bool, has_history: bool, refused: str | None
) -> None:
    asked = target(status, is_current=is_current, is_named=True, has_history=has_history)
    assert reason(admit(asked, "status", None)) == refused


def test_a_run_with_too_much_history_is_not_asked() -> None:
    asked = target()
    asked.run.history_bytes = QUERY_HISTORY_BYTES_MAX + 1
    assert reason(admit(asked, "status", None)) == "query_workflow_state_unavailable"


OLD = {"queries": ["status"], "query_contracts": [{"name": "status", "parameters": []}]}
NEW = {
    "queries": ["status"],
    "query_contracts": [{"name": "status", "parameters": [{"name": "detail", "position": 0, "required": True}]}],
}


def test_arguments_fit_when_they_fit_the_contract_of_any_worker() -> None:
    both = target("waiting", OLD, NEW)
    for value in ([], ["full"]):
        found = admit(both, "status", value)
        assert isinstance(found, str)
        assert decode_blob(found) == value
    assert reason(admit(both, "status", [1, 2])) == "invalid_query_arguments"


@pytest.mark.parametrize("contract", [None, {}, {"signals": ["go"]}, {"queries": "all"}])
def test_a_worker_without_a_readable_contract_may_know_any_query(contract: dict[str, Any] | None) -> None:
    assert reason(admit(target("waiting", OLD, contract), "price", [1])) is None


def test_a_name_without_parameters_takes_anything() -> None:
    assert reason(admit(target("waiting", {"queries": ["status"]}), "status", [1, 2])) is None
    assert reason(admit(target("waiting", {"queries": ["status"]}), "price", None)) == "query_not_found"
