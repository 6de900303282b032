"""The bounds of a history: events of one transaction, and events of a run (engine §6.20)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dw_core.engine.closing import close_from_outside
from dw_core.engine.inputs import EndOverfullRun
from dw_core.engine.rows import Run
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Outcome, Rejection
from dw_core.engine.writer import RunWriter
from dw_core.limits import Limits


def exceeded(kind: str, value: int, limit: int) -> Rejection:
    """The refusal of what would exceed a structural limit; the run stays as it is."""
    return Rejection(
        "structural_limit_exceeded",
        f"The batch would exceed the limit {kind}.",
        {"outcome": "rejected", "limit_kind": kind, "current_value": value, "configured_limit": limit},
    )


def over_transaction(writer: RunWriter, limits: Limits) -> Rejection | None:
    """Whether a batch has appended more events than one transaction may."""
    value, limit = len(writer.transition.events), limits.history_transaction_size
    return exceeded("history_transaction_size", value, limit) if limit and value > limit else None


def is_full(run: Run, limits: Limits) -> bool:
    """Whether a run has all the events it may have: its code can only end or continue as new."""
    return 0 < limits.history_events_max <= run.last_history_sequence


def decide_overfull(snapshot: Snapshot, due: EndOverfullRun, now: datetime, limits: Limits) -> Outcome:
    """Fail a run whose history is full and whose code wants to go on; re-checked under the lock."""
    run = snapshot.run
    if run is None or run.is_terminal or not is_full(run, limits):
        return Rejection("run_not_active", "The run is closed or its history is not full.")
    writer = RunWriter(snapshot, now)
    close_from_outside(writer, "WorkflowFailed", _failure(run, limits), "failed", "failed")
    return writer.finish({"run_id": run.run_id, "outcome": "failed"})


def _failure(run: Run, limits: Limits) -> dict[str, Any]:
    message = f"The history has reached its {limits.history_events_max} events; continue as new before that."
    return {
        "failure_id": f"{run.run_id}.f",
        "source_kind": "workflow_run",
        "source_id": run.run_id,
        "failure_category": "structural_limit",
        "non_retryable": True,
        "exception_type": "StructuralLimitExceeded",
        "exception_class": "StructuralLimitExceeded",
        "message": message,
        "exception": {"type": "StructuralLimitExceeded", "message": message},
        "structural_limit_kind": "history_events",
        "structural_limit_value": run.last_history_sequence,
        "structural_limit_configured": limits.history_events_max,
    }
