"""The update-validation handlers of the worker plane (worker-plane §14)."""

from __future__ import annotations

from typing import Final

from dw_core.protocol.requests_worker import UpdateValidationApprove, UpdateValidationPoll, UpdateValidationReject
from dw_core.queries.task import QueryFailed
from dw_core.updates.validation import REJECTED, WORKER_FAILED
from dw_matching.handlers import WorkerHandlers
from dw_matching.held_polls import Held
from dw_matching.multiplexed import require_capability
from dw_matching.query_bridge import Report
from dw_matching.validation_bridge import UpdateValidations
from dw_runtime.http.call import Call, Handlers, Reply

_REASONS: Final = (REJECTED, WORKER_FAILED)


class UpdateValidationHandlers:
    """Translates the requests; polls for workflow tasks that also take validations are held by the other handlers."""

    def __init__(self, polls: WorkerHandlers, validations: UpdateValidations) -> None:
        self._polls = polls
        self._validations = validations

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "update_validation_task_poll": self.poll,
            "update_validation_task_approve": self.approve,
            "update_validation_task_reject": self.reject,
        }

    async def poll(self, call: Call) -> Reply:
        """Hold a poll for validations alone."""
        request: UpdateValidationPoll = call.body
        worker = await self._polls.admit(call, request)
        require_capability(worker)
        types = frozenset(worker.supported_workflow_types) or None
        with Held(self._polls, call, request, "update_validation_task"):
            task = await self._validations.poll(self._polls.poll(call, worker, types))
        return await self._polls.polled(call, worker, task)

    async def approve(self, call: Call) -> Reply:
        """Take a validator's approval."""
        request: UpdateValidationApprove = call.body
        return Reply(await self._validations.approve(_report(call, request)))

    async def reject(self, call: Call) -> Reply:
        """Take a validator's refusal, or word that it could not be run."""
        request: UpdateValidationReject = call.body
        failure = request.failure
        reason = failure.reason if failure.reason in _REASONS else REJECTED
        failed = QueryFailed(reason, failure.message, failure.validation_errors or {})
        return Reply(await self._validations.reject(_report(call, request), failed))


def _report(call: Call, request: UpdateValidationApprove) -> Report:
    return Report(call.namespace, call.params["task_id"], request.lease_owner, request.update_validation_attempt)
