"""The activity tasks of the worker plane (worker-plane §12): polls, and what workers report of attempts."""

from __future__ import annotations

import msgspec

from dw_core.limits import HEARTBEAT_DETAILS_BYTES_MAX
from dw_core.protocol.problems import Invalid
from dw_core.protocol.requests_worker import (
    ActivityTaskAcknowledgeCancellation,
    ActivityTaskComplete,
    ActivityTaskFail,
    ActivityTaskHeartbeat,
    ActivityTaskPoll,
    ActivityTaskRenewLease,
    ActivityTaskStatus,
)
from dw_matching.activity_bridge import ActivityTasks
from dw_matching.handlers import Ending, WorkerHandlers
from dw_matching.held_polls import Held
from dw_runtime.http.call import Call, Handlers, Reply


class ActivityTaskHandlers:
    """Translates requests about activity tasks; ``polls`` admits and holds their polls."""

    def __init__(self, polls: WorkerHandlers, tasks: ActivityTasks) -> None:
        self._polls = polls
        self._tasks = tasks

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "activity_task_poll": self.poll_activity_task,
            "activity_task_heartbeat": self.heartbeat_activity,
            "activity_task_complete": self.complete_activity,
            "activity_task_fail": self.fail_activity,
            "activity_task_status": self.activity_status,
            "activity_task_acknowledge_cancellation": self.acknowledge_cancellation,
            "activity_task_renew_lease": self.renew_activity_lease,
        }

    async def poll_activity_task(self, call: Call) -> Reply:
        """Hold an activity poll; a worker without activity types waits in vain (worker-plane §7.6)."""
        request: ActivityTaskPoll = call.body
        worker = await self._polls.admit(call, request)
        types = frozenset(worker.supported_activity_types)
        ending = Ending()
        with Held(self._polls, call, request, "activity_task"):
            poll = self._polls.poll(call, worker, types, leases_max=worker.max_concurrent_activity_tasks, ending=ending)
            task = await self._tasks.poll(poll)
        # Workers that renew their leases measure them from the moment of the grant (worker-plane §16.2).
        members = {} if task is None else {"server_time": task["leased_at"]}
        return await self._polls.polled(call, worker, task, ending, members)

    async def heartbeat_activity(self, call: Call) -> Reply:
        """Renew an attempt's lease and keep its progress."""
        request: ActivityTaskHeartbeat = call.body
        members = {
            "message": request.message,
            "current": request.current,
            "total": request.total,
            "unit": request.unit,
            "details": request.details,
        }
        progress = {key: value for key, value in members.items() if value is not None}
        if len(msgspec.json.encode(progress)) > HEARTBEAT_DETAILS_BYTES_MAX:
            raise Invalid({"details": [f"must not exceed {HEARTBEAT_DETAILS_BYTES_MAX} bytes of JSON"]})
        return Reply(
            await self._tasks.heartbeat(
                call.namespace, call.params["task_id"], request.activity_attempt_id, request.lease_owner, progress
            )
        )

    async def complete_activity(self, call: Call) -> Reply:
        """Record an attempt's result."""
        request: ActivityTaskComplete = call.body
        return Reply(
            await self._tasks.complete(
                call.namespace, call.params["task_id"], request.activity_attempt_id, request.lease_owner, request.result
            )
        )

    async def fail_activity(self, call: Call) -> Reply:
        """Record an attempt's failure."""
        request: ActivityTaskFail = call.body
        return Reply(
            await self._tasks.fail(
                call.namespace,
                call.params["task_id"],
                request.activity_attempt_id,
                request.lease_owner,
                msgspec.to_builtins(request.failure),
            )
        )

    async def activity_status(self, call: Call) -> Reply:
        """What a heartbeat would say, without renewing anything."""
        request: ActivityTaskStatus = call.body
        return Reply(
            await self._tasks.status(
                call.namespace, call.params["task_id"], request.activity_attempt_id, request.lease_owner
            )
        )

    async def acknowledge_cancellation(self, call: Call) -> Reply:
        """Keep that the callback of an attempt that was told to stop has stopped."""
        request: ActivityTaskAcknowledgeCancellation = call.body
        return Reply(
            await self._tasks.acknowledge_cancellation(
                call.namespace,
                call.params["task_id"],
                request.activity_attempt_id,
                request.lease_owner,
                request.request_id,
            )
        )

    async def renew_activity_lease(self, call: Call) -> Reply:
        """Keep an attempt's lease."""
        request: ActivityTaskRenewLease = call.body
        return Reply(
            await self._tasks.renew_lease(
                call.namespace, call.params["task_id"], request.activity_attempt_id, request.lease_owner
            )
        )
