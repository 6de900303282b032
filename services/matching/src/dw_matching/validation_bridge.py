"""Validations of updates, as the HTTP handlers and embedding processes use them (worker-plane §14).

They are asked for and stored like queries; what differs is how a worker is told and what it may answer.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection
from dw_core.payloads.envelope import envelope
from dw_core.protocol.timestamps import wire_time
from dw_core.queries.task import QueryFailed
from dw_core.updates.validation import APPROVED, REJECTED, report_refusal
from dw_matching.broker import Broker
from dw_matching.query_bridge import QueryTasks, Report
from dw_matching.query_claims import ClaimedQuery
from dw_matching.seats import Poll
from dw_matching.waiting import wait_for_task
from dw_runtime.pump.replies import settle

SUCCESS: Final = 200


class UpdateValidations:
    """Finds validations for workers and takes their verdicts; a lease is ``lease_seconds`` long."""

    def __init__(self, broker: Broker, tasks: QueryTasks, *, lease_seconds: int) -> None:
        self._broker = broker
        self._tasks = tasks
        self.lease_seconds = lease_seconds

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a validation and lease it: the task object of a poll response, or None when none came in time."""
        claimed = await wait_for_task(self._broker, poll, TaskKind.UPDATE_VALIDATION, self.lease_seconds)
        assert claimed is None or isinstance(claimed, ClaimedQuery), "the queues of this kind give nothing else"
        return None if claimed is None else await self.document(claimed)

    async def document(self, claimed: ClaimedQuery) -> dict[str, Any]:
        """The task object with the run's whole history, which has no pages here (worker-plane §14.2)."""
        history = await self._tasks.history(claimed)
        task = claimed.task
        return {
            "task_kind": "update_validation",
            "update_validation_task_id": task.query_task_id,
            "update_id": task.update_id,
            "update_validation_attempt": task.attempt,
            "namespace": task.namespace,
            "workflow_id": task.workflow_id,
            "run_id": task.run_id,
            "workflow_type": task.workflow_type,
            "compatibility": task.compatibility,
            "update_name": task.query_name,
            "payload_codec": "avro",
            "workflow_arguments": envelope(claimed.workflow_arguments),
            "update_arguments": envelope(task.arguments),
            "history_events": msgspec.Raw(b"[" + history + b"]"),
            "run_status": claimed.run_status,
            "last_history_sequence": claimed.last_history_sequence,
            "total_history_events": claimed.last_history_sequence,
            "task_queue": task.queue,
            "lease_owner": task.lease_owner,
            "lease_expires_at": wire_time(task.lease_expires_at),
        }

    async def approve(self, report: Report) -> dict[str, Any]:
        """Take an approval; raises ``Problem`` for the refusals of worker-plane §14.4."""
        return await self._take(report, APPROVED, "approved", None)

    async def reject(self, report: Report, failed: QueryFailed) -> dict[str, Any]:
        """Take a refusal, or word that the validator could not be run; raises like :meth:`approve`."""
        outcome = "rejected" if failed.reason == REJECTED else "failed"
        return await self._take(report, failed, outcome, failed.reason)

    async def _take(self, report: Report, said: str | QueryFailed, outcome: str, reason: str | None) -> dict[str, Any]:
        taken = await self._tasks.report(report, TaskKind.UPDATE_VALIDATION, said)
        if isinstance(taken, Rejection):
            settle(report_refusal(taken))
        assert not isinstance(taken, Rejection), "a refusal was raised"
        return {
            "update_validation_task_id": report.query_task_id,
            "update_id": taken.update_id,
            "update_validation_attempt": report.attempt,
            "outcome": outcome,
            "reason": reason,
            "status": SUCCESS,
        }
