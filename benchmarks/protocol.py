"""The few requests a load needs: start on the control plane, register, poll and complete on the worker plane."""

from __future__ import annotations

from typing import Final

import msgspec

from benchmarks.wire import Connection, request_head
from dw_core.payloads.codec import encode_blob
from dw_core.protocol.versions import CONTROL_PLANE_VERSION, WORKER_PROTOCOL_VERSION

TOKEN: Final = "benchmark"
WORKFLOW_TYPE: Final = "benchmark.workflow"
ACTIVITY_TYPE: Final = "benchmark.activity"
PAYLOAD: Final = {"codec": "avro", "blob": encode_blob([{"name": "Ada", "count": 7}])}
"""Arguments and results of everything here: a small list, as an application would send it."""


class Event(msgspec.Struct):
    """What a no-op workflow needs to know of a history event."""

    event_type: str


class WorkflowTask(msgspec.Struct):
    """The part of a leased workflow task that is read here."""

    task_id: str
    workflow_id: str
    workflow_task_attempt: int
    lease_owner: str
    history_events: list[Event]

    def is_activity_done(self) -> bool:
        """Whether the one activity has come back, so that the workflow ends now."""
        return any(event.event_type == "ActivityCompleted" for event in self.history_events)


class ActivityTask(msgspec.Struct):
    """The part of a leased activity task that is read here."""

    task_id: str
    activity_attempt_id: str
    lease_owner: str


class WorkflowPolled(msgspec.Struct):
    """Answer to a workflow poll."""

    task: WorkflowTask | None


class ActivityPolled(msgspec.Struct):
    """Answer to an activity poll."""

    task: ActivityTask | None


class Api:
    """Typed calls over one connection at a time; the heads of all requests are built once."""

    def __init__(self, url: str) -> None:
        common = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "X-Namespace": "default"}
        self._control = common | {"X-Durable-Workflow-Control-Plane-Version": CONTROL_PLANE_VERSION}
        self._worker = common | {"X-Durable-Workflow-Protocol-Version": WORKER_PROTOCOL_VERSION}
        self._url = url
        self._start = request_head("POST", "/api/workflows", url, self._control)
        self._register = request_head("POST", "/api/worker/register", url, self._worker)
        self._workflow_poll = request_head("POST", "/api/worker/workflow-tasks/poll", url, self._worker)
        self._activity_poll = request_head("POST", "/api/worker/activity-tasks/poll", url, self._worker)
        self._encode = msgspec.json.Encoder().encode
        self._read_workflow = msgspec.json.Decoder(WorkflowPolled).decode
        self._read_activity = msgspec.json.Decoder(ActivityPolled).decode
        # Constant commands are encoded once.
        self._schedule = msgspec.Raw(
            self._encode([{"type": "schedule_activity", "activity_type": ACTIVITY_TYPE, "arguments": PAYLOAD}])
        )
        self._finish = msgspec.Raw(self._encode([{"type": "complete_workflow", "result": PAYLOAD}]))

    async def register(self, connection: Connection, worker_id: str, queue: str) -> None:
        """Register a worker that runs the one workflow type and the one activity type."""
        body = {
            "worker_id": worker_id,
            "task_queue": queue,
            "runtime": "python",
            "supported_workflow_types": [WORKFLOW_TYPE],
            "supported_activity_types": [ACTIVITY_TYPE],
        }
        await connection.send(self._register, self._encode(body))

    async def start(self, connection: Connection, workflow_id: str, queue: str) -> None:
        """Start a workflow."""
        body = {"workflow_id": workflow_id, "workflow_type": WORKFLOW_TYPE, "task_queue": queue, "input": PAYLOAD}
        await connection.send(self._start, self._encode(body))

    async def poll_workflow(self, connection: Connection, poll: dict[str, object]) -> WorkflowTask | None:
        """Hold one workflow poll; None when its window ends without a task."""
        return self._read_workflow(await connection.send(self._workflow_poll, self._encode(poll))).task

    async def poll_activity(self, connection: Connection, poll: dict[str, object]) -> ActivityTask | None:
        """Hold one activity poll; None when its window ends without a task."""
        return self._read_activity(await connection.send(self._activity_poll, self._encode(poll))).task

    async def complete_workflow_task(self, connection: Connection, task: WorkflowTask, *, is_last: bool) -> None:
        """Complete a workflow task: with the workflow's result if it is the last one, else with its activity."""
        head = request_head("POST", f"/api/worker/workflow-tasks/{task.task_id}/complete", self._url, self._worker)
        body = {
            "lease_owner": task.lease_owner,
            "workflow_task_attempt": task.workflow_task_attempt,
            "commands": self._finish if is_last else self._schedule,
        }
        await connection.send(head, self._encode(body))

    async def complete_activity_task(self, connection: Connection, task: ActivityTask) -> None:
        """Complete an activity task with its result."""
        head = request_head("POST", f"/api/worker/activity-tasks/{task.task_id}/complete", self._url, self._worker)
        body = {"activity_attempt_id": task.activity_attempt_id, "lease_owner": task.lease_owner, "result": PAYLOAD}
        await connection.send(head, self._encode(body))


def poll_body(worker_id: str, queue: str, poll: str, window_seconds: int) -> dict[str, object]:
    """The body of a poll. ``poll`` names this logical poll of the worker; the window is in seconds."""
    return {
        "worker_id": worker_id,
        "task_queue": queue,
        "poll_request_id": f"{worker_id}-{poll}",
        "timeout_seconds": window_seconds,
    }
