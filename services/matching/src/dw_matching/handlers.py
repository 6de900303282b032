"""The worker-plane handlers: from requests to the bridges and back (worker-plane §6-§8, §12)."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from dw_core.engine.cancellation import CAPABILITY
from dw_core.engine.commands.stream_fields import StreamPosition
from dw_core.engine.sticky import StickyClaim
from dw_core.engine.transition import Rejection
from dw_core.history.paging import decode_page_token
from dw_core.ids import NewId
from dw_core.limits import HISTORY_PAGE_SIZE_DEFAULT, STICKY_TTL_SECONDS_DEFAULT
from dw_core.protocol.describe import clamp_long_poll_timeout
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_worker import (
    StickyCache,
    TaskPoll,
    WorkerHeartbeat,
    WorkerRegister,
    WorkflowTaskComplete,
    WorkflowTaskDeliverCancellation,
    WorkflowTaskFail,
    WorkflowTaskHeartbeat,
    WorkflowTaskHistory,
    WorkflowTaskPoll,
)
from dw_core.protocol.timestamps import wire_time
from dw_core.workers.registration import Registration, draining, refuse_poll
from dw_matching.held_polls import Held
from dw_matching.multiplexed import UPDATE_VALIDATION, WORKFLOW, MultiplexedPolls, require_capability
from dw_matching.registry import Registry
from dw_matching.seats import Poll
from dw_matching.workflow_bridge import WorkflowTasks
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.claims import LEASES_UNLIMITED

MESSAGE_STREAMS_MINOR = 15
"""The worker protocol in which completions report on message streams (worker-plane §2)."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the handlers publish and default to; all in seconds except the page size (events) and the poll cap.

    ``sticky_ttl_seconds`` 0 switches sticky execution off.
    """

    poll_timeout_seconds: int
    heartbeat_interval_seconds: int
    stale_after_seconds: int
    history_page_size: int = HISTORY_PAGE_SIZE_DEFAULT
    held_polls_max: int = 10_000
    query_polls_max: int = 10_000
    query_poll_seconds: int = 5
    sticky_ttl_seconds: int = STICKY_TTL_SECONDS_DEFAULT


class WorkerHandlers:
    """Translates requests of the worker plane; one method per route."""

    def __init__(
        self,
        *,
        registry: Registry,
        workflow_tasks: WorkflowTasks,
        polls: MultiplexedPolls,
        settings: WorkerSettings,
        new_id: NewId,
    ) -> None:
        self._registry = registry
        self._workflow_tasks = workflow_tasks
        self._polls = polls
        self.settings = settings
        self._new_id = new_id
        self.held = {"worker": 0, "query": 0}

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "worker_register": self.register,
            "worker_heartbeat": self.heartbeat,
            "worker_deregister": self.deregister,
            "workflow_task_poll": self.poll_workflow_task,
            "workflow_task_history": self.workflow_task_history,
            "workflow_task_heartbeat": self.heartbeat_workflow_task,
            "workflow_task_complete": self.complete_workflow_task,
            "workflow_task_fail": self.fail_workflow_task,
            "workflow_task_deliver_cancellation": self.deliver_cancellation,
        }

    # -- workers -----------------------------------------------------------------------------------------------------

    async def register(self, call: Call) -> Reply:
        """Register a worker, or register it again."""
        request: WorkerRegister = call.body
        worker_id = request.worker_id or self._new_id()
        stored = await self._registry.register(call.namespace, worker_id, request)
        if isinstance(stored, Rejection):
            _refuse(stored)
        return Reply(
            {
                "worker_id": worker_id,
                "registered": True,
                "namespace": call.namespace,
                "task_queue": stored.task_queue,
                "runtime": stored.runtime,
                "build_id": stored.build_id,
                "capabilities": stored.capabilities,
                "capability_manifest": stored.capability_manifest,
                "status": stored.status,
                "drain_intent": stored.status,
                "heartbeat_interval_seconds": self._interval(stored.heartbeat_interval_seconds),
                "stale_after_seconds": self.settings.stale_after_seconds,
            },
            201,
        )

    async def heartbeat(self, call: Call) -> Reply:
        """A worker's own sign of life."""
        request: WorkerHeartbeat = call.body
        beat = await self._registry.heartbeat(call.namespace, request)
        if isinstance(beat, Rejection):
            raise Problem(beat.reason, beat.message, as_status=404, **beat.fields)
        status = "draining" if beat.is_draining else "active"
        return Reply(
            {
                "worker_id": request.worker_id,
                "acknowledged": True,
                "status": status,
                "drain_intent": status,
                "heartbeat_interval_seconds": self._interval(beat.interval_seconds),
                "stale_after_seconds": self.settings.stale_after_seconds,
                "last_heartbeat_at": wire_time(beat.last_heartbeat_at),
            }
        )

    def _interval(self, chosen: int | None) -> int:
        return chosen or self.settings.heartbeat_interval_seconds

    async def deregister(self, call: Call) -> Reply:
        """Remove a worker; its leased workflow tasks become ready at once."""
        worker_id = call.params["worker_id"]
        recovered = await self._registry.deregister(call.namespace, worker_id)
        if recovered is None:
            raise Problem("worker_not_found", f"Worker {worker_id} is not registered.", worker_id=worker_id)
        return Reply({"worker_id": worker_id, "outcome": "deregistered", "recovered_workflow_task_count": recovered})

    # -- polls -------------------------------------------------------------------------------------------------------

    async def poll_workflow_task(self, call: Call) -> Reply:
        """Hold a workflow poll."""
        request: WorkflowTaskPoll = call.body
        kinds = frozenset(request.task_kinds or (WORKFLOW,))
        worker = await self.admit(call, request)
        if UPDATE_VALIDATION in kinds:
            require_capability(worker)
        types = frozenset(worker.supported_workflow_types) or None
        ending = Ending()
        poll = self.poll(call, worker, types, leases_max=worker.max_concurrent_workflow_tasks, ending=ending)
        self._polls.bind(poll, kinds)
        with Held(self, call, request, "workflow_task"):
            task = await self._polls.poll(poll, kinds)
        return await self.polled(call, worker, task, ending)

    async def admit(self, call: Call, poll: TaskPoll) -> Registration:
        """The registration of a polling worker; raises the refusals of worker-plane §7.4."""
        worker = await self._registry.polling(call.namespace, poll.worker_id)
        refused = refuse_poll(worker, poll)
        if refused is not None or worker is None:
            _refuse(refused)
        return worker

    def poll(
        self,
        call: Call,
        worker: Registration,
        types: frozenset[str] | None,
        default_seconds: int | None = None,
        *,
        leases_max: int = LEASES_UNLIMITED,
        ending: Ending | None = None,
    ) -> Poll:
        """The long poll of a request; ``default_seconds`` is its window when it names none.

        ``leases_max`` caps the leases of its worker; ``ending`` is told how it ends.
        """
        request: TaskPoll = call.body
        default = self.settings.poll_timeout_seconds if default_seconds is None else default_seconds
        return Poll(
            namespace=call.namespace,
            task_queue=worker.task_queue,
            lease_owner=worker.worker_id,
            types=types,
            build_id=worker.build_id,
            poll_request_id=request.poll_request_id,
            timeout_seconds=clamp_long_poll_timeout(request.timeout_seconds, default_seconds=default),
            page_size=getattr(request, "history_page_size", None) or self.settings.history_page_size,
            accept_encoding=getattr(request, "accept_history_encoding", None),
            is_cooperative=CAPABILITY in worker.capabilities,
            leases_max=leases_max,
            capabilities=frozenset(worker.capabilities),
            sessions_max=worker.max_concurrent_worker_sessions,
            on_hold=None if call.hangup is None else call.hangup.notify,
            on_throttled=None if ending is None else ending.throttle,
        )

    async def polled(
        self,
        call: Call,
        worker: Registration,
        task: dict[str, Any] | None,
        ending: Ending | None = None,
        members: dict[str, Any] | None = None,
    ) -> Reply:
        """The answer to a poll, a granted one with ``members``; a cap that was the reason for its end is told.

        Raises ``worker_draining`` when its worker has been drained meanwhile.
        """
        if task is not None:
            return Reply({"task": task, "poll_status": "leased", **(members or {})})
        now = await self._registry.polling(call.namespace, worker.worker_id)
        if now is not None and now.is_draining:
            _refuse(draining(now))
        return Reply({"task": None, "poll_status": "empty" if ending is None else ending.status})

    # -- workflow tasks ----------------------------------------------------------------------------------------------

    async def workflow_task_history(self, call: Call) -> Reply:
        """A further page of a leased task's history."""
        request: WorkflowTaskHistory = call.body
        page = await self._workflow_tasks.history_payload_paginated(
            call.namespace,
            call.params["task_id"],
            request.lease_owner,
            request.workflow_task_attempt,
            decode_page_token(request.next_history_page_token),
            request.history_page_size or self.settings.history_page_size,
            request.accept_history_encoding,
        )
        return Reply({key: value for key, value in page.items() if key not in ("has_more", "next_after_sequence")})

    async def heartbeat_workflow_task(self, call: Call) -> Reply:
        """Renew a workflow task's lease."""
        request: WorkflowTaskHeartbeat = call.body
        task_id = call.params["task_id"]
        return Reply(
            await self._workflow_tasks.heartbeat(
                call.namespace, task_id, request.lease_owner, request.workflow_task_attempt
            )
        )

    async def complete_workflow_task(self, call: Call) -> Reply:
        """Apply the commands of a workflow task."""
        request: WorkflowTaskComplete = call.body
        if (request.cursors or request.waits) and call.protocol_minor < MESSAGE_STREAMS_MINOR:
            message = "Message streams need worker protocol 1.15."
            raise Problem("message_streams_unavailable", message, outcome="rejected", recorded=False)
        task_id = call.params["task_id"]
        return Reply(
            await self._workflow_tasks.complete(
                call.namespace,
                task_id,
                request.lease_owner,
                request.workflow_task_attempt,
                request.commands,
                self._sticky(request.sticky_cache),
                [StreamPosition(stream_name=c.stream_name, position=c.through_position) for c in request.cursors],
                [StreamPosition(stream_name=w.stream_name, position=w.after_position) for w in request.waits],
            )
        )

    def _sticky(self, cache: StickyCache | None) -> StickyClaim | None:
        """What a completion says of its worker's cache; nothing where sticky execution is switched off."""
        if cache is None or not self.settings.sticky_ttl_seconds:
            return None
        return StickyClaim(
            worker_id=cache.worker_id,
            workflow_id=cache.workflow_id,
            run_id=cache.run_id,
            ttl_seconds=min(cache.ttl_seconds, self.settings.sticky_ttl_seconds),
        )

    async def fail_workflow_task(self, call: Call) -> Reply:
        """Record a failed workflow task, or the acknowledgement that it waits for history."""
        request: WorkflowTaskFail = call.body
        return Reply(
            await self._workflow_tasks.fail(
                call.namespace,
                call.params["task_id"],
                request.lease_owner,
                request.workflow_task_attempt,
                message=request.failure.message,
                failure_type=request.failure.type,
                reason=request.failure.reason,
            )
        )

    async def deliver_cancellation(self, call: Call) -> Reply:
        """Interrupt one durable call of a run that is to be cancelled."""
        request: WorkflowTaskDeliverCancellation = call.body
        return Reply(await self._workflow_tasks.deliver_cancellation(call.namespace, call.params["task_id"], request))


class Ending:
    """How a poll without a task has ended: ``empty``, or ``throttled`` when a cap kept it from one."""

    def __init__(self) -> None:
        self.status = "empty"

    def throttle(self) -> None:
        """A cap was the reason."""
        self.status = "throttled"


def _refuse(rejection: Rejection | None) -> NoReturn:
    assert rejection is not None, "only a refusal ends here"
    raise Problem(rejection.reason, rejection.message, **rejection.fields)
