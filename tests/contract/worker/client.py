"""A client that speaks for an application and for workers of one namespace, through the shell."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.shell_client import Answer, call
from tests.harness.worker_plane import ServedPlane

QUEUE = "orders"
WORKER = "w-1"
NULL = {"codec": "avro", "blob": "wwHioz3/VYAiNwA="}
HI_BOB = {"codec": "avro", "blob": "wwHioz3/VYAiNwoMaGkgYm9i"}


class Client:
    """Requests to one served plane; each method answers with the response, or with the object named by it."""

    def __init__(self, served: ServedPlane) -> None:
        self.served = served

    async def send(self, method: str, path: str, body: Any = None, *, hang_up: asyncio.Event | None = None) -> Answer:
        """One request to the worker plane; ``path`` is below ``/api/worker``."""
        sent = {"x-durable-workflow-protocol-version": "1.20", "x-namespace": self.served.namespace}
        return await call(self.served.app, method, f"/api/worker{path}", headers=sent, body=body, hang_up=hang_up)

    async def post(self, path: str, body: Any) -> Answer:
        """A ``POST`` to the worker plane."""
        return await self.send("POST", path, body)

    async def control(self, method: str, path: str, body: Any = None) -> Answer:
        """One request to the control plane; ``path`` is below ``/api``."""
        sent = {"x-durable-workflow-control-plane-version": "2", "x-namespace": self.served.namespace}
        return await call(self.served.app, method, f"/api{path}", headers=sent, body=body)

    # -- workers -----------------------------------------------------------------------------------------------------

    async def register(self, worker_id: str = WORKER, **fields: Any) -> Answer:
        """Register a worker that takes every workflow and the activity ``charge``."""
        body = {
            "worker_id": worker_id,
            "task_queue": QUEUE,
            "runtime": "python",
            "supported_workflow_types": [],
            "supported_activity_types": ["charge"],
            **fields,
        }
        return await self.post("/register", body)

    async def poll(self, kind: str = "workflow", worker_id: str = WORKER, **fields: Any) -> Answer:
        """Poll for a task of this kind: ``workflow`` or ``activity``."""
        body = {"worker_id": worker_id, "task_queue": QUEUE, "timeout_seconds": 10, **fields}
        return await self.post(f"/{kind}-tasks/poll", body)

    async def take(self, kind: str = "workflow", worker_id: str = WORKER, **fields: Any) -> dict[str, Any]:
        """The task of a poll that must get one."""
        answer = await self.poll(kind, worker_id, **fields)
        assert (answer.status, answer.json["poll_status"]) == (200, "leased"), answer.json
        task: dict[str, Any] = answer.json["task"]
        return task

    # -- workflows ---------------------------------------------------------------------------------------------------

    async def start(self, workflow_id: str = "w", **fields: Any) -> str:
        """Start a workflow on the queue; its run id."""
        body = {"workflow_id": workflow_id, "workflow_type": "order", "task_queue": QUEUE, **fields}
        answer = await self.control("POST", "/workflows", body)
        assert answer.status == 201, answer.json
        run_id: str = answer.json["run_id"]
        return run_id

    async def status(self, workflow_id: str = "w") -> str:
        """The status of a workflow's current run."""
        status: str = (await self.control("GET", f"/workflows/{workflow_id}")).json["status"]
        return status

    async def events(self, workflow_id: str, run_id: str) -> list[str]:
        """The types of a run's first thousand events."""
        answer = await self.control("GET", f"/workflows/{workflow_id}/runs/{run_id}/history?page_size=1000")
        return [event["event_type"] for event in answer.json["events"]]

    async def complete(self, task: dict[str, Any], *commands: dict[str, Any], **fields: Any) -> Answer:
        """Complete a workflow task."""
        return await self.post(
            f"/workflow-tasks/{task['task_id']}/complete", {**fence(task), "commands": list(commands), **fields}
        )

    async def running_activity(self, workflow_id: str = "w", **fields: Any) -> dict[str, Any]:
        """Start a workflow, schedule one activity, and lease it."""
        await self.start(workflow_id)
        answer = await self.complete(await self.take(), schedule(**fields))
        assert answer.status == 200, answer.json
        return await self.take("activity")

    async def report(self, activity: dict[str, Any], verb: str, **fields: Any) -> Answer:
        """Report on an activity attempt: ``complete``, ``fail``, ``heartbeat`` or ``status``."""
        return await self.post(f"/activity-tasks/{activity['task_id']}/{verb}", {**attempt(activity), **fields})


def fence(task: dict[str, Any]) -> dict[str, Any]:
    """The members that prove the lease of a workflow task."""
    return {"lease_owner": task["lease_owner"], "workflow_task_attempt": task["workflow_task_attempt"]}


def attempt(activity: dict[str, Any]) -> dict[str, Any]:
    """The members that prove the lease of an activity attempt."""
    return {"activity_attempt_id": activity["activity_attempt_id"], "lease_owner": activity["lease_owner"]}


def schedule(activity_type: str = "charge", **fields: Any) -> dict[str, Any]:
    """The command that schedules one activity."""
    return {"type": "schedule_activity", "activity_type": activity_type, **fields}


def side_effect(result: Any = None) -> dict[str, Any]:
    """The command that records one side effect."""
    return {"type": "record_side_effect", "result": result or HI_BOB}


COMPLETE: dict[str, Any] = {"type": "complete_workflow", "result": HI_BOB}
WAITING = {
    "failure": {
        "message": "Workflow task waiting for scheduled history.",
        "type": "WorkflowTaskWaitingForHistory",
    }
}
