"""What a client is told when the fault is ours; never a stack trace, never a statement, never an address."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from dw_core.protocol.problems import Problem
from dw_core.routes.route import Plane, Route

BACKEND_RETRY_SECONDS: Final = 1
GATE_RETRY_SECONDS: Final = 5
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def backend_unavailable(route: Route, body: Any) -> Problem:
    """The database did not answer.

    For a poll this is the full poll body (topology §5.6): the lease may have been committed before the connection
    broke, so the client is told to repeat the poll with the same ``poll_request_id``.
    """
    message = "The database is not available; retry."
    fields: dict[str, Any] = {"retryable": True, "retry_after_seconds": BACKEND_RETRY_SECONDS}
    if route.plane is Plane.WORKER and route.is_poll:
        fields |= {
            "operation": f"poll_{route.name.removesuffix('_poll')}",
            "outcome": "unknown",
            "worker_id": getattr(body, "worker_id", None),
            "task_queue": getattr(body, "task_queue", None),
            "poll_request_id": getattr(body, "poll_request_id", None),
            "retry_same_poll_request_id": True,
        }
    return Problem("backend_unavailable", message, **fields)


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
