"""Registering a worker and admitting its polls (worker-plane §6.1, §7.4)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.transition import Rejection
from dw_core.limits import WORKER_SLOTS_DEFAULT
from dw_core.protocol.requests_worker import TaskPoll, WorkerRegister


class Registration(msgspec.Struct, kw_only=True):
    """A stored registration. ``is_draining`` is the intent of its cohort (namespace, queue, build id)."""

    namespace: str
    worker_id: str
    task_queue: str
    build_id: str | None = None
    runtime: str
    sdk_version: str | None = None
    supported_workflow_types: list[str] = []
    supported_activity_types: list[str] = []
    capabilities: list[str] = []
    capability_manifest: dict[str, Any] = {}
    workflow_definition_fingerprints: dict[str, str] = {}
    workflow_command_contracts: dict[str, Any] = {}
    max_concurrent_workflow_tasks: int = WORKER_SLOTS_DEFAULT
    max_concurrent_activity_tasks: int = WORKER_SLOTS_DEFAULT
    max_concurrent_worker_sessions: int = WORKER_SLOTS_DEFAULT
    task_slots: Any = None
    process_metrics: Any = None
    heartbeat_interval_seconds: int | None = None
    registered_at: datetime
    last_heartbeat_at: datetime
    is_draining: bool = False

    @property
    def status(self) -> str:
        """``active`` or ``draining``; the drain intent uses the same words."""
        return "draining" if self.is_draining else "active"


def register(
    previous: Registration | None,
    request: WorkerRegister,
    *,
    namespace: str,
    worker_id: str,
    now: datetime,
    stale_after_seconds: int,
) -> Registration | Rejection:
    """The registration to store. A changed workflow definition is refused only while the old registration is fresh,

    so that a redeployment under a fixed worker id is not locked out.
    """
    types = request.supported_workflow_types or []
    offered = request.workflow_definition_fingerprints or {}
    known = previous.workflow_definition_fingerprints if previous else {}
    is_fresh = previous is not None and (now - previous.last_heartbeat_at).total_seconds() <= stale_after_seconds
    if is_fresh:
        for workflow_type in types:
            if workflow_type in offered and known.get(workflow_type, offered[workflow_type]) != offered[workflow_type]:
                return _definition_changed(worker_id, workflow_type)
    kept = {name: mark for name, mark in known.items() if name in types and name not in offered}
    return Registration(
        namespace=namespace,
        worker_id=worker_id,
        task_queue=request.task_queue,
        build_id=request.build_id or None,
        runtime=request.runtime,
        sdk_version=request.sdk_version,
        supported_workflow_types=types,
        supported_activity_types=request.supported_activity_types or [],
        capabilities=list(dict.fromkeys(request.capabilities or [])),
        capability_manifest=request.capability_manifest or {},
        workflow_definition_fingerprints=offered | kept,
        workflow_command_contracts=request.workflow_command_contracts or {},
        max_concurrent_workflow_tasks=request.max_concurrent_workflow_tasks or WORKER_SLOTS_DEFAULT,
        max_concurrent_activity_tasks=request.max_concurrent_activity_tasks or WORKER_SLOTS_DEFAULT,
        max_concurrent_worker_sessions=request.max_concurrent_worker_sessions or WORKER_SLOTS_DEFAULT,
        task_slots=request.task_slots,
        process_metrics=request.process_metrics,
        heartbeat_interval_seconds=request.heartbeat_interval_seconds,
        registered_at=now,
        last_heartbeat_at=now,
    )


def _definition_changed(worker_id: str, workflow_type: str) -> Rejection:
    return Rejection(
        "workflow_definition_changed",
        f"Worker {worker_id} is registered with another definition of {workflow_type}.",
        {
            "worker_id": worker_id,
            "workflow_type": workflow_type,
            "registered": False,
            "remediation": "Register the changed definition under a new worker_id, or stop the old worker first.",
        },
    )


def not_registered(worker_id: str) -> Rejection:
    """A poll or heartbeat of a worker that is not known here."""
    return Rejection("worker_not_registered", f"Worker {worker_id} is not registered.", {"worker_id": worker_id})


def refuse_poll(registration: Registration | None, poll: TaskPoll) -> Rejection | None:
    """Why a poll is not held: unknown worker, other queue, other build, drained cohort, in this order."""
    if registration is None:
        return not_registered(poll.worker_id)
    if registration.task_queue != poll.task_queue:
        return Rejection(
            "task_queue_mismatch",
            f"Worker {poll.worker_id} is registered for another task queue.",
            {
                "worker_id": poll.worker_id,
                "registered_task_queue": registration.task_queue,
                "requested_task_queue": poll.task_queue,
            },
        )
    if poll.build_id and registration.build_id and poll.build_id != registration.build_id:
        return Rejection(
            "build_id_mismatch",
            f"Worker {poll.worker_id} is registered with another build id.",
            {
                "worker_id": poll.worker_id,
                "registered_build_id": registration.build_id,
                "requested_build_id": poll.build_id,
            },
        )
    return draining(registration) if registration.is_draining else None


def draining(registration: Registration) -> Rejection:
    """The answer to polls of a drained cohort (worker-plane §6.5)."""
    return Rejection(
        "worker_draining",
        f"Worker {registration.worker_id} is draining for queue {registration.task_queue}.",
        {
            "task": None,
            "poll_status": "draining",
            "worker_id": registration.worker_id,
            "task_queue": registration.task_queue,
            "registered_build_id": registration.build_id,
            "worker_status": "draining",
            "drain_intent": "draining",
        },
    )
