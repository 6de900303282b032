"""A run that is asked: queries, updates with a validator and signals, directly and through service operations; and a
worker that answers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.chaos.client import PAYLOAD, Client, Json

DESK, DESK_TYPE, QUEUE = "desk", "chaos.desk", "desks"
OPERATIONS = f"/api/service-endpoints/{DESK}/services/{DESK}/operations"
NAMES = {
    "query_workflow": {"query_name": "status"},
    "update_workflow": {"update_name": "free"},
    "signal_workflow": {"signal_name": "go"},
    "start_workflow": {"workflow_type": DESK_TYPE},
}
"""What an operation of each kind is bound to; the operation is named like its kind. Only ``set`` has a validator:
service calls cannot be bound to such an update."""
_POLICIES = {"deadline_policy": {"request_timeout_seconds": 3}, "retry_policy": {"max_attempts": 10}}


def catalogue() -> list[tuple[str, Json]]:
    """What must be in the service catalogue: paths and bodies, in order."""
    found: list[tuple[str, Json]] = [
        ("/api/service-endpoints", {"endpoint_name": DESK}),
        (f"/api/service-endpoints/{DESK}/services", {"service_name": DESK}),
    ]
    for kind, named in NAMES.items():
        target = {"task_queue": QUEUE} if kind == "start_workflow" else {"workflow_id": DESK}
        bound = {"handler_binding_kind": kind, "handler_binding": named | target}
        found.append((OPERATIONS, {"operation_name": kind, "operation_mode": "async"} | bound | _POLICIES))
    return found


class DeskWorker:
    """Answers everything, except what it drops: a task that it takes and forgets is another's after its lease."""

    def __init__(self, name: str, client: Client, rng: random.Random, *, mischief: float) -> None:
        self.name = name
        self.is_over = False
        self.unexpected: list[str] = []
        self._client = client
        self._rng = rng
        self._mischief = mischief
        self._polls = 0

    async def register(self) -> None:
        """Declare what the run takes."""
        contract = {"signals": ["go"], "updates": ["set", "free"], "update_validators": ["set"], "queries": ["status"]}
        body = {
            "worker_id": self.name,
            "task_queue": QUEUE,
            "runtime": "python",
            "supported_workflow_types": [DESK_TYPE],
            "capabilities": ["query_tasks", "update_validation_tasks"],
            "workflow_command_contracts": {DESK_TYPE: contract},
        }
        answer = await self._client.send("register", "/api/worker/register", body)
        assert answer.status in (200, 201), answer.body

    async def run(self) -> None:
        """Work until it is over."""
        async with asyncio.TaskGroup() as group:
            for kind in ("workflow", "query", "update-validation"):
                group.create_task(self._loop(kind))

    async def _loop(self, kind: str) -> None:
        while not self.is_over:
            self._polls += 1
            body = {
                "worker_id": self.name,
                "task_queue": QUEUE,
                "poll_request_id": f"{kind}-{self._polls}",
                "timeout_seconds": 1,
            }
            polled = await self._client.send(f"poll-{kind}", f"/api/worker/{kind}-tasks/poll", body)
            task = polled.body.get("task")
            if polled.status not in (0, 200):
                self.unexpected.append(f"poll {kind} {polled.status} {polled.body.get('reason')}")
            if task is None or self._rng.random() < self._mischief / 6:
                continue
            verb, report = _report(kind, task)
            name = f"{kind.replace('-', '_')}_task_id" if kind != "workflow" else "task_id"
            path = f"/api/worker/{kind}-tasks/{task[name]}/{verb}"
            answer = await self._client.send(f"{verb}-{kind}", path, report)
            if answer.status not in (0, 200, 404, 409):
                self.unexpected.append(f"{kind} {answer.status} {answer.body}")


def _report(kind: str, task: Json) -> tuple[str, Json]:
    """The verb and body with which a task is answered."""
    fence: dict[str, Any] = {"lease_owner": task["lease_owner"]}
    if kind == "query":
        return "complete", fence | {"query_task_attempt": task["query_task_attempt"], "result": PAYLOAD}
    if kind == "update-validation":
        return "approve", fence | {"update_validation_attempt": task["update_validation_attempt"]}
    fence["workflow_task_attempt"] = task["workflow_task_attempt"]
    if task["workflow_update_id"] is not None:
        applied = {"type": "complete_update", "update_id": task["workflow_update_id"], "result": PAYLOAD}
        return "complete", fence | {"commands": [applied]}
    if task["workflow_id"] != DESK:
        return "complete", fence | {"commands": [{"type": "complete_workflow", "result": PAYLOAD}]}
    if any(event["event_type"] == "ConditionWaitOpened" for event in task["history_events"]):
        return "fail", fence | {"failure": {"type": "WorkflowTaskWaitingForHistory", "message": "waiting"}}
    return "complete", fence | {"commands": [{"type": "open_condition_wait", "condition_key": "never"}]}
