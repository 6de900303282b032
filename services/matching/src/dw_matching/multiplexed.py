"""Polls for workflow tasks that also take validations of updates (worker-plane §14.2)."""

from __future__ import annotations

import time
from typing import Any, Final

from dw_core.engine.rows import TaskKind
from dw_core.protocol.problems import Problem
from dw_core.updates.validation import CAPABILITY
from dw_core.workers.registration import Registration
from dw_matching.broker import Broker
from dw_matching.query_claims import ClaimedQuery
from dw_matching.seats import Poll
from dw_matching.validation_bridge import UpdateValidations
from dw_matching.waiting import wait_for_either
from dw_matching.workflow_bridge import WorkflowTasks

WORKFLOW: Final = "workflow"
UPDATE_VALIDATION: Final = "update_validation"
REMEMBERED_SECONDS: Final = 300.0
REMEMBERED_MAX: Final = 10_000
"""For how long, and for how many polls, this process remembers which kinds a poll request id stands for."""


class MultiplexedPolls:
    """Holds a poll for both kinds, which take turns in being asked first."""

    def __init__(self, broker: Broker, workflow_tasks: WorkflowTasks, validations: UpdateValidations) -> None:
        self._broker = broker
        self._workflow_tasks = workflow_tasks
        self._validations = validations
        self._bound: dict[tuple[str, str, str], tuple[frozenset[str], float]] = {}
        self._turn = 0

    def bind(self, poll: Poll, kinds: frozenset[str]) -> None:
        """Bind a poll request id to its kinds; raises ``poll_request_task_kinds_conflict`` if it has others."""
        if poll.poll_request_id is None:
            return
        now = time.monotonic()
        key = (poll.namespace, poll.lease_owner, poll.poll_request_id)
        bound, since = self._bound.pop(key, (kinds, now))
        if bound != kinds and now - since < REMEMBERED_SECONDS:
            self._bound[key] = (bound, since)
            raise Problem(
                "poll_request_task_kinds_conflict",
                "This poll_request_id was used with other task_kinds.",
                task=None,
                poll_status="conflict",
                poll_request_id=poll.poll_request_id,
                requested_task_kinds=sorted(kinds),
                bound_task_kinds=sorted(bound),
            )
        self._bound[key] = (kinds, now)
        while len(self._bound) > REMEMBERED_MAX:
            del self._bound[next(iter(self._bound))]

    async def poll(self, poll: Poll, wanted: frozenset[str]) -> dict[str, Any] | None:
        """Wait for a task of a wanted kind and lease it; its ``task_kind`` says which it is."""
        if wanted == {WORKFLOW}:
            return await self._workflow_tasks.poll(poll)
        if wanted == {UPDATE_VALIDATION}:
            return await self._validations.poll(poll)
        kinds = [
            (TaskKind.WORKFLOW, self._workflow_tasks.lease_seconds),
            (TaskKind.UPDATE_VALIDATION, self._validations.lease_seconds),
        ]
        self._turn += 1
        claimed = await wait_for_either(self._broker, poll, kinds[:: 1 if self._turn % 2 else -1])
        if isinstance(claimed, ClaimedQuery):
            return await self._validations.document(claimed)
        return None if claimed is None else self._workflow_tasks.document(claimed, poll)


def require_capability(worker: Registration) -> None:
    """Raise ``update_validation_capability_not_advertised`` for a worker that did not declare the capability."""
    if CAPABILITY not in worker.capabilities:
        raise Problem(
            "update_validation_capability_not_advertised",
            f"Worker {worker.worker_id} has not declared {CAPABILITY}.",
            task=None,
            poll_status="unsupported",
            worker_id=worker.worker_id,
        )
