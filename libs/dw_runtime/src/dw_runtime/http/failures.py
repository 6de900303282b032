"""What a client is told when the fault is ours; never a stack trace, never a statement, never an address."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from dw_core.protocol.problems import Problem
from dw_core.routes.route import Plane, Route

BACKEND_RETRY_SECONDS: Final = 1
GATE_RETRY_SECONDS: Final = 5
_OPERATIONS: Final = {
    "worker_register": "register_worker",
    "worker_heartbeat": "heartbeat_worker",
    "workflow_task_heartbeat": "heartbeat_workflow_task",
    "workflow_task_complete": "complete_workflow_task",
    "activity_task_complete": "complete_activity_task",
    "workflow_task_poll": "poll_workflow_task",
    "activity_task_poll": "poll_activity_task",
    "query_task_poll": "poll_query_task",
    "update_validation_task_poll": "poll_update_validation_task",
}
"""Route name to the ``operation`` by which workers know it."""
_FENCE: Final = ("lease_owner", "workflow_task_attempt", "activity_attempt_id")
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def backend_unavailable(route: Route, body: Any, params: Mapping[str, str]) -> Problem:
    """The database did not answer, so nobody knows whether the request took effect.

    Routes whose requests a worker may simply repeat say so in the shape that makes it do that (worker-plane §7.7): the
    worker compares every member with what it has sent. A lease may have been committed for a poll before the connection
    broke; only a repeat with the same ``poll_request_id`` can return it.
    """
    fields: dict[str, Any] = {"retryable": True, "retry_after_seconds": BACKEND_RETRY_SECONDS}
    operation = _OPERATIONS.get(route.name)
    if operation is not None:
        fields |= {"operation": operation, "outcome": "unknown", "task_queue": getattr(body, "task_queue", None)}
        if "task_id" in params:
            fields |= {"worker_id": getattr(body, "lease_owner", None), "task_id": params["task_id"]}
            fields |= {name: getattr(body, name) for name in _FENCE if hasattr(body, name)}
        else:
            fields["worker_id"] = getattr(body, "worker_id", None)
    if route.plane is Plane.WORKER and route.is_poll:
        fields |= {
            "poll_status": "backend_unavailable",
            "poll_request_id": getattr(body, "poll_request_id", None),
            "retry_same_poll_request_id": True,
        }
    return Problem("backend_unavailable", "The database is not available; retry.", **fields)


def internal_error(plane: Plane, error_id: str) -> Problem:
    """An unhandled exception; ``error_id`` finds it in the logs (control-plane §5.3)."""
    reason = "control_plane_internal_error" if plane is Plane.CONTROL else "server_error"
    return Problem(reason, "The server failed to handle this request.", error_id=error_id, retryable=False)


def new_error_id() -> str:
    """A 26-character, time-ordered id (ULID)."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))


def problem_body(problem: Problem, plane: Plane, *, is_task_poll: bool) -> dict[str, Any]:
    """The JSON members of a refusal: ``reason`` and ``message``, and ``error`` on the worker plane.

    Every answer to a poll says ``task`` and ``poll_status``, a refusal too (worker-plane §7.3).
    """
    body: dict[str, Any] = {"reason": problem.reason, "message": problem.message}
    if plane is Plane.WORKER:
        body["error"] = problem.message
    if is_task_poll:
        body["task"] = None
        body["poll_status"] = "unavailable"
    body.update(problem.fields)
    return body


def retry_after(problem: Problem) -> int | None:
    """Seconds for ``Retry-After``: what the body says, or the gates' five seconds."""
    given = problem.fields.get("retry_after_seconds")
    if isinstance(given, int):
        return given
    return GATE_RETRY_SECONDS if problem.reason in ("topology_role_unavailable", "workflow_v2_blocked") else None
