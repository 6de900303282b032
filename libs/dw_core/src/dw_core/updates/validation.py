"""Who may validate an update, what becomes of a validation, and what a late verdict is told (worker-plane §14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dw_core.engine.inputs import Verdict
from dw_core.engine.rows import Run
from dw_core.engine.transition import Rejection
from dw_core.protocol.reasons import REASONS
from dw_core.queries.task import QueryFailed

CAPABILITY: Final = "update_validation_tasks"
APPROVED: Final = "approved"
"""What is stored as the answer of a validation that succeeded."""
REJECTED: Final = "update_validator_rejected"
WORKER_FAILED: Final = "update_validation_worker_failed"

_REPORT_REASONS: Final = {
    "query_task_not_found": "update_validation_task_not_found",
    "query_task_timed_out": "update_validation_lease_expired",
    "duplicate_update_validation_completion": "duplicate_update_validation_completion",
    "query_task_not_leased": "update_validation_task_not_leased",
    "lease_expired": "update_validation_lease_expired",
    "lease_owner_mismatch": "update_validation_lease_owner_mismatch",
    "query_task_attempt_mismatch": "stale_update_validation_completion",
}
"""The refusals of worker-plane §14.4 by those of a query task."""


REPORT_REFUSALS: Final = (*dict.fromkeys(_REPORT_REASONS.values()), "update_validator_worker_lost")
"""Why a verdict is not taken, as the capabilities name them."""


class ValidatingWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """Live workers of the run's queue and type with one build id, capability and list of declared validators."""

    build_id: str | None
    is_capable: bool
    update_validators: list[str] | None = None


def refuse_validation(run: Run, update_name: str, workers: Sequence[ValidatingWorkers]) -> Rejection | None:
    """Why no worker can be asked about an update that its run wants validated, or None."""
    named: dict[str, Any] = {"workflow_id": run.workflow_id, "run_id": run.run_id, "update_name": update_name}
    again = named | {"retryable": True}
    if not workers:
        message = f"No live worker of queue {run.queue} runs {run.workflow_type}."
        return Rejection("update_validator_worker_unavailable", message, again)
    capable = [worker for worker in workers if worker.is_capable]
    if not capable:
        message = f"No live worker of queue {run.queue} takes validations of updates."
        return Rejection("update_validation_capability_unsupported", message, named)
    fitting = [worker for worker in capable if run.compatibility in (None, worker.build_id)]
    if not fitting:
        message = f"No live worker that takes validations has the run's build {run.compatibility}."
        return Rejection("update_validator_worker_incompatible", message, again)
    if not any(update_name in (worker.update_validators or ()) for worker in fitting):
        message = f"No live worker declares the validator of {update_name} any more."
        return Rejection("update_validator_contract_missing", message, named)
    return None


def verdict(said: QueryFailed | str) -> Verdict | Rejection:
    """What a worker's answer means for the update: an approval, a refusal, or no verdict at all."""
    if not isinstance(said, QueryFailed):
        return Verdict(is_approved=True)
    if said.reason == REJECTED:
        return Verdict(is_approved=False, message=said.message, errors=said.errors)
    return Rejection(WORKER_FAILED, said.message, {"retryable": True})


def unanswered(attempts: int, *, was_leased: bool) -> Rejection:
    """No verdict in time, after ``attempts`` leases; a worker that had one and has it no longer is gone."""
    if attempts == 0:
        return Rejection("update_validation_task_not_claimed", "No worker took the validation in time.")
    if was_leased:
        message = "A worker took the validation but did not answer in time."
        return Rejection("update_validation_execution_timeout", message)
    return Rejection("update_validator_worker_lost", "The worker that took the validation has gone.")


def report_refusal(refused: Rejection) -> Rejection:
    """The refusal of a verdict, from that of a report on a query."""
    fields = {name: value for name, value in refused.fields.items() if name != "query_task_id"}
    reason = _REPORT_REASONS[refused.reason]
    named = {"update_validation_task_id": refused.fields["query_task_id"], "update_id": None}
    return Rejection(reason, refused.message, named | fields | {"status": REASONS[reason]})
