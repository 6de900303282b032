"""The query-task handlers of the worker plane (worker-plane §13)."""

from __future__ import annotations

from typing import Final

from dw_core.protocol.requests_worker import QueryTaskComplete, QueryTaskFail, QueryTaskPoll
from dw_core.queries.task import QueryFailed
from dw_matching.handlers import WorkerHandlers
from dw_matching.held_polls import Held
from dw_matching.query_bridge import QueryTasks
from dw_runtime.http.call import Call, Handlers, Reply

CAPABILITY: Final = "query_tasks"
NO_TYPES: Final[frozenset[str]] = frozenset()


class QueryTaskHandlers:
    """Translates the requests; admission of polls is that of every other kind of task."""

    def __init__(self, polls: WorkerHandlers, tasks: QueryTasks) -> None:
        self._polls = polls
        self._tasks = tasks

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "query_task_poll": self.poll,
            "query_task_complete": self.complete,
            "query_task_fail": self.fail,
        }

    async def poll(self, call: Call) -> Reply:
        """Hold a query poll; a worker that did not declare ``query_tasks`` waits in vain."""
        request: QueryTaskPoll = call.body
        worker = await self._polls.admit(call, request)
        types = (frozenset(worker.supported_workflow_types) or None) if CAPABILITY in worker.capabilities else NO_TYPES
        with Held(self._polls, call, request, "query_task"):
            poll = self._polls.poll(call, worker, types, self._polls.settings.query_poll_seconds)
            task = await self._tasks.poll(poll)
        return await self._polls.polled(call, worker, task)

    async def complete(self, call: Call) -> Reply:
        """Take a worker's answer."""
        request: QueryTaskComplete = call.body
        return Reply(
            await self._tasks.complete(
                call.namespace,
                call.params["task_id"],
                request.lease_owner,
                request.query_task_attempt,
                request.result,
                request.result_envelope,
            )
        )

    async def fail(self, call: Call) -> Reply:
        """Take a worker's word that it cannot answer."""
        request: QueryTaskFail = call.body
        failed = QueryFailed(request.failure.reason or "query_rejected", request.failure.message)
        return Reply(
            await self._tasks.fail(
                call.namespace, call.params["task_id"], request.lease_owner, request.query_task_attempt, failed
            )
        )
