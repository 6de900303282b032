"""How many polls this process holds, and when it holds no more (worker-plane §7.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_worker import TaskPoll
from dw_runtime.http.call import Call

if TYPE_CHECKING:
    from dw_matching.handlers import WorkerHandlers


class Held:
    """Counts the polls this process holds, queries apart, and refuses more than it may (worker-plane §7.7)."""

    def __init__(self, handlers: WorkerHandlers, call: Call, poll: TaskPoll, task_kind: str) -> None:
        settings = handlers.settings
        is_query = task_kind == "query_task"
        self._held = handlers.held
        self._pool = "query" if is_query else "worker"
        self._held_max = settings.query_polls_max if is_query else settings.held_polls_max
        self._refusal: dict[str, Any] = {
            "task": None,
            "poll_status": "long_poll_capacity_exhausted",
            "task_kind": task_kind,
            "task_queue": poll.task_queue,
            "namespace": call.namespace,
            "wait_pool": self._pool,
            "retryable": True,
            "retry_after_seconds": 1,
        }

    def __enter__(self) -> None:
        if self._held[self._pool] >= self._held_max:
            raise Problem(
                "long_poll_capacity_exhausted", "This process holds as many polls as it may.", **self._refusal
            )
        self._held[self._pool] += 1

    def __exit__(self, *_: object) -> None:
        self._held[self._pool] -= 1
