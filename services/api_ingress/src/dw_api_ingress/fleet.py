"""Workers, worker sessions and task queues: reads, and removing a worker (control-plane §19)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.queries import page_size
from dw_core.engine.rows import TaskKind
from dw_core.ids import task_id
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.timestamps import wire_time
from dw_core.sessions.session import SessionStatus, snapshot
from dw_core.workers.admission import SECTIONS, AdmissionRules, QueueLimits
from dw_core.workers.queue_documents import NamespaceUse, QueueState, queue_document
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.fleet import LISTED_MAX, FleetReads, LeaseRow, ShareRow, WorkerRow

STATUSES: Final = ("active", "draining", "stale")
_KIND_NAMES: Final = {TaskKind.WORKFLOW: "workflow", TaskKind.ACTIVITY: "activity"}


class FleetHandlers:
    """Answers requests about who serves which queue, and what waits there.

    ``rules`` are the caps of the queues, ``queries_max`` how many queries may wait on one.
    """

    def __init__(self, fleet: FleetReads, auditor: Auditor, rules: AdmissionRules, queries_max: int) -> None:
        self._fleet = fleet
        self._auditor = auditor
        self._rules = rules
        self._queries_max = queries_max

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "worker_list": self.workers,
            "worker_describe": self.worker,
            "worker_remove": self.remove_worker,
            "worker_session_list": self.sessions,
            "worker_session_describe": self.session,
            "task_queue_list": self.queues,
            "task_queue_describe": self.queue,
            "task_queue_priority_fairness": self.fairness,
        }

    async def workers(self, call: Call) -> Reply:
        """Registered workers, of one ``task_queue`` or with one ``status`` if asked."""
        status = call.query.get("status") or None
        if status is not None and status not in STATUSES:
            raise Invalid({"status": [f"must be one of {', '.join(STATUSES)}"]})
        found = await self._fleet.workers(call.namespace, queue=call.query.get("task_queue") or None)
        listed = [worker_document(worker) for worker in found if status in (None, worker.status)]
        return Reply({**self._scope(call), "workers": listed})

    async def worker(self, call: Call) -> Reply:
        """One worker; raises ``Problem`` ``worker_not_found``."""
        found = await self._fleet.workers(call.namespace, worker_id=call.params["worker_id"])
        if not found:
            raise _no_worker(call)
        return Reply(worker_document(found[0]) | {"updated_at": wire_time(found[0].last_heartbeat_at)})

    async def remove_worker(self, call: Call) -> Reply:
        """Forget a worker; what it has leased runs out. Raises ``Problem`` ``worker_not_found``."""
        worker_id = call.params["worker_id"]
        gone = await self._auditor.change(
            call, "worker_registrations", "forget_worker", call.namespace, worker_id, target=worker_id
        )
        if not gone:
            raise _no_worker(call)
        return Reply({"worker_id": worker_id, "outcome": "deregistered"})

    async def sessions(self, call: Call) -> Reply:
        """Worker sessions, the newest first."""
        found = await self._fleet.sessions(call.namespace)
        counts = await self._fleet.count_sessions(call.namespace)
        metrics = {"total": sum(counts.values()), **{str(status): counts.get(status, 0) for status in SessionStatus}}
        sessions = [snapshot(*session) for session in found]
        return Reply({**self._scope(call), "metrics": metrics, "sessions": sessions})

    async def session(self, call: Call) -> Reply:
        """One session; raises ``Problem`` ``session_not_found``."""
        session_id = call.params["session_id"]
        found = await self._fleet.sessions(call.namespace, session_id)
        if not found:
            raise Problem("session_not_found", f"There is no session {session_id}.", session_id=session_id)
        return Reply({**self._scope(call), "session": snapshot(*found[0])})

    async def queues(self, call: Call) -> Reply:
        """Queues with workers, open tasks or an intent about a build, by name and page."""
        limit = page_size(call.query, default=LISTED_MAX, maximum=LISTED_MAX)
        after = call.query.get("next_page_token", "")
        names = await self._fleet.queue_names(call.namespace, after, limit + 1)
        listed = await self._documents(call.namespace, names[:limit])
        more = names[limit - 1] if len(names) > limit else None
        return Reply({"namespace": call.namespace, "task_queues": listed, "next_page_token": more})

    async def queue(self, call: Call) -> Reply:
        """One queue with its pollers and leases; one that nobody knows has nothing."""
        return Reply(await self.queue_detail(call.namespace, call.params["task_queue"]))

    async def queue_detail(self, namespace: str, name: str) -> dict[str, Any]:
        """The detail of a queue (control-plane §19.2)."""
        (document,) = await self._documents(namespace, [name])
        pollers = await self._fleet.workers(namespace, queue=name)
        leases = await self._fleet.leases(namespace, name)
        return {
            "namespace": namespace,
            **document,
            "pollers": [_poller(worker) for worker in pollers],
            "current_leases": [_lease(lease) for lease in leases],
        }

    async def fairness(self, call: Call) -> Reply:
        """What waits on a queue by priority, and how its shares stand."""
        name = call.params["task_queue"]
        priorities = await self._fleet.priorities(call.namespace, name)
        shares = await self._fleet.shares(call.namespace, name)
        return Reply(
            {
                "namespace": call.namespace,
                "task_queue": name,
                "priorities": [
                    {
                        "task_type": _KIND_NAMES[kind],
                        "priority": priority,
                        "ready_count": ready,
                        "oldest_ready_at": wire_time(oldest),
                    }
                    for kind, priority, ready, oldest in priorities
                ],
                "fairness": [_share(share) for share in shares],
            }
        )

    async def _documents(self, namespace: str, names: list[str]) -> list[dict[str, Any]]:
        states = await self._fleet.queues(namespace, names) if names else []
        use = await self._fleet.use(namespace)
        return [self._document(namespace, state, use) for state in states]

    def _document(self, namespace: str, state: QueueState, use: NamespaceUse) -> dict[str, Any]:
        limits = {kind: self._rules.limits(namespace, kind, state.name) or QueueLimits() for kind in SECTIONS}
        return queue_document(state, use, limits, self._queries_max)

    def _scope(self, call: Call) -> dict[str, Any]:
        return {"namespace": call.namespace, "stale_after_seconds": self._fleet.stale_after_seconds}


def worker_document(worker: WorkerRow) -> dict[str, Any]:
    """A worker as it is listed (control-plane §19.1)."""
    members = msgspec.structs.asdict(worker) | {"status": worker.status}
    del members["is_stale"], members["is_draining"]
    for name in ("task_slots", "process_metrics"):
        members[name] = members[name] or {}
    for name in ("registered_at", "last_heartbeat_at"):
        members[name] = wire_time(members[name])
    return members


def _no_worker(call: Call) -> Problem:
    worker_id = call.params["worker_id"]
    return Problem("worker_not_found", f"There is no worker {worker_id}.", worker_id=worker_id)


def _poller(worker: WorkerRow) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "runtime": worker.runtime,
        "sdk_version": worker.sdk_version,
        "build_id": worker.build_id,
        "status": worker.status,
        "is_stale": worker.is_stale,
        "last_heartbeat_at": wire_time(worker.last_heartbeat_at),
        "max_concurrent_workflow_tasks": worker.max_concurrent_workflow_tasks,
        "max_concurrent_activity_tasks": worker.max_concurrent_activity_tasks,
    }


def _lease(lease: LeaseRow) -> dict[str, Any]:
    return {
        "task_id": task_id(lease.run_id, lease.task_number),
        "task_type": _KIND_NAMES[lease.kind],
        "workflow_id": lease.workflow_id,
        "lease_owner": lease.lease_owner,
        "lease_expires_at": wire_time(lease.lease_expires_at),
        "is_expired": lease.is_expired,
        "workflow_task_attempt": lease.attempt if lease.kind is TaskKind.WORKFLOW else None,
    }


def _share(share: ShareRow) -> dict[str, Any]:
    return {
        "task_type": _KIND_NAMES[share.kind],
        "priority": share.priority,
        "fairness_key": share.fairness_key,
        "ready_count": share.ready_count,
        "virtual_time": share.began_at,
        "last_cost": share.last_cost,
        "last_granted_at": wire_time(share.granted_at),
    }
