"""A workflow that fans out and in, sleeps, has a child, calls a service, waits for signals, and workers that run it
badly."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from tests.chaos.cancelled import (
    CANCELLED_CHILD_TYPE,
    CANCELLED_TYPE,
    cancelled_commands,
    is_cancellable,
    waits_for,
)
from tests.chaos.client import PAYLOAD, Client, Json

WORKFLOW_TYPE = "chaos.workflow"
CHILD_TYPE = "chaos.child"
ACTIVITY_TYPE = "chaos.activity"
QUEUE = "chaos"
PAGE_SIZE = 7
OUTCOMES = ("ActivityCompleted", "ActivityFailed", "ActivityTimedOut")
SESSION: Json = {"lease_seconds": 5, "ttl_seconds": 30}
"""What one activity of a run asks of the session that only it uses."""
SIGNALS = 3
"""How many signals a run waits for before it completes."""
WAIT_SECONDS = 2
OUTPUT_ITEMS = 2
"""How many items a run leaves in its output stream."""
RUNS_OF_A_WORKFLOW = 7
"""Its own, that of its child and the one the child continues in, two like these that answer its service call, and two
beside it: one that is asked to cancel, and the host of a standalone activity."""
ENDPOINT, SERVICE, OPERATION = "chaos", "desk", "run"
CATALOGUE: tuple[tuple[str, Json], ...] = (
    ("/api/service-endpoints", {"endpoint_name": ENDPOINT}),
    (f"/api/service-endpoints/{ENDPOINT}/services", {"service_name": SERVICE}),
    (
        f"/api/service-endpoints/{ENDPOINT}/services/{SERVICE}/operations",
        {
            "operation_name": OPERATION,
            "operation_mode": "sync",
            "handler_binding_kind": "start_workflow",
            "handler_binding": {"workflow_type": CHILD_TYPE, "task_queue": QUEUE},
        },
    ),
)
"""What must be in the service catalogue: paths and bodies, in order."""


class Ledger(msgspec.Struct):
    """What the server has acknowledged: started runs by workflow id; attempts, tasks, signals and updates by id."""

    started: dict[str, str] = {}
    attempts: dict[str, str] = {}
    tasks: set[str] = set()
    signals: set[str] = set()
    updates: set[str] = set()
    unexpected: list[str] = []


def leaf(base: int, size: int, index: int) -> Json:
    """The group members of one leaf of a flat fan-out."""
    flat = {
        "parallel_group_id": f"parallel-activities:{base}:{size}",
        "parallel_group_kind": "activity",
        "parallel_group_base_sequence": base,
        "parallel_group_size": size,
        "parallel_group_index": index,
    }
    return flat | {"parallel_group_path": [flat]}


def schedule(**more: Any) -> Json:
    """The command for one activity that is retried until it succeeds."""
    command = {"type": "schedule_activity", "activity_type": ACTIVITY_TYPE, "arguments": PAYLOAD}
    return command | {"retry_policy": {"backoff_seconds": [0]}} | more


def next_commands(history: list[Json], width: int) -> list[Json]:
    """What the workflow does next: a fan-out of ``width``, items of a stream with one more activity (of a worker
    session), a timer and a child, then a service call, then it waits for signals until it has them all, and ends. The
    child and what answers the call continue as new, once, and end.

    An empty list means that it waits.
    """
    if is_cancellable(history):
        return cancelled_commands(history, schedule())
    start = next(e["payload"] for e in history if e["event_type"] == "WorkflowStarted")
    if start["workflow_type"] == CHILD_TYPE:
        is_second = "continued_from_run_id" in start
        return [{"type": "complete_workflow", "result": PAYLOAD} if is_second else {"type": "continue_as_new"}]
    opened = [e for e in history if e["event_type"] == "ActivityScheduled"]
    closed = [e for e in history if e["event_type"] in OUTCOMES]
    if not opened:
        return [schedule(**leaf(1, width, index)) for index in range(width)]
    if len(closed) < len(opened):
        return []
    if len(opened) == width:
        return [
            leave_items(),
            schedule(worker_session=SESSION | {"session_id": f"of-{start['workflow_id']}"}),
            {"type": "start_timer", "delay_seconds": 1},
            {"type": "start_child_workflow", "workflow_type": CHILD_TYPE},
        ]
    if not any(e["event_type"] == "TimerFired" and "timer_kind" not in e["payload"] for e in history):
        return []
    if not any(e["event_type"] == "ChildRunCompleted" for e in history):
        return []
    if not any(e["event_type"] == "ServiceCallStarted" for e in history):
        return [call_service()]
    if not any(e["event_type"] == "ServiceCallCompleted" for e in history):
        return []
    if sum(e["event_type"] == "SignalReceived" for e in history) < SIGNALS:
        return [{"type": "open_condition_wait", "condition_key": "signals", "timeout_seconds": WAIT_SECONDS}]
    return [{"type": "complete_workflow", "result": PAYLOAD}]


def leave_items() -> Json:
    """The command that appends to the output stream of the run."""
    items = [{"payload": PAYLOAD, "idempotency_key": f"dw-stream:c:0:{index}"} for index in range(OUTPUT_ITEMS)]
    named = {"operation": "append", "stream_name": "out", "command_identity": "c", "command_ordinal": 0}
    return {"type": "record_side_effect", "result": PAYLOAD, "workflow_stream": named | {"items": items}}


def keeping(task: Json, worker: str) -> Json:
    """The member of a completion with which a worker says that it keeps the history of the run."""
    named = {"worker_id": worker, "workflow_id": task["workflow_id"], "run_id": task["run_id"]}
    metrics = {"hit": 0, "miss": 1, "eviction": 0, "forced_cold_replay": 0}
    return {"sticky_cache": named | {"ttl_seconds": 60, "metrics": metrics}}


def call_service() -> Json:
    """The command for the service call."""
    named = {"endpoint_name": ENDPOINT, "service_name": SERVICE, "operation_name": OPERATION}
    payload = {"payload_codec": PAYLOAD["codec"], "request_payload": PAYLOAD["blob"]}
    return {"type": "start_service_operation"} | named | payload


def applied(update_id: str) -> Json:
    """The command for the task of an update."""
    return {"type": "complete_update", "update_id": update_id, "result": PAYLOAD}


class Worker:
    """Registers once and polls both kinds of task until it is told to stop."""

    def __init__(self, name: str, client: Client, rng: random.Random, ledger: Ledger, *, mischief: float) -> None:
        self.name = name
        self.is_over = False
        self._client = client
        self._rng = rng
        self._ledger = ledger
        self._mischief = mischief
        self._polls = 0

    async def run(self, width: int) -> None:
        """Register and work."""
        body = {
            "worker_id": self.name,
            "task_queue": QUEUE,
            "runtime": "python",
            "supported_workflow_types": [WORKFLOW_TYPE, CHILD_TYPE, CANCELLED_TYPE, CANCELLED_CHILD_TYPE],
            "supported_activity_types": [ACTIVITY_TYPE],
            "capabilities": ["cooperative_cancellation", "message_streams", "worker_sessions"],
            "max_concurrent_worker_sessions": 1000,
        }
        await self._client.send("register", "/api/worker/register", body)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._workflow_loop(width))
                group.create_task(self._activity_loop())

    async def _poll(self, kind: str) -> Json | None:
        self._polls += 1
        body = {
            "worker_id": self.name,
            "task_queue": QUEUE,
            "poll_request_id": f"{kind}-{self._polls}",
            "timeout_seconds": 1,
            "history_page_size": PAGE_SIZE,
        }
        answer = await self._client.send(f"poll-{kind}", f"/api/worker/{kind}-tasks/poll", body)
        if answer.status not in (0, 200):
            self._ledger.unexpected.append(f"poll {answer.status} {answer.body.get('reason')}")
        task: Json | None = answer.body.get("task")
        return task

    async def _workflow_loop(self, width: int) -> None:
        while not self.is_over:
            task = await self._poll("workflow")
            if task is None or self._drops():
                continue
            fence = {"lease_owner": self.name, "workflow_task_attempt": task["workflow_task_attempt"]}
            history = await self._history(task, fence)
            if history is not None:
                history = await self._told(task, fence, history)
            if history is None:
                continue
            update_id = task["workflow_update_id"]
            commands = next_commands(history, width) if update_id is None else [applied(update_id)]
            path = f"/api/worker/workflow-tasks/{task['task_id']}"
            if commands:
                body = fence | {"commands": commands} | (keeping(task, self.name) if self._keeps() else {})
                answer = await self._client.send("complete-workflow", f"{path}/complete", body)
            else:
                failure = {"type": "WorkflowTaskWaitingForHistory", "message": "waiting"}
                answer = await self._client.send("wait-workflow", f"{path}/fail", fence | {"failure": failure})
            if answer.status == 200:
                self._ledger.tasks.add(task["task_id"])
            elif answer.status not in (0, 404, 409):
                self._ledger.unexpected.append(f"workflow task {answer.status} {answer.body}")

    async def _told(self, task: Json, fence: Json, history: list[Json]) -> list[Json] | None:
        """The history once the code has been told of a cancellation request; None when the claim is over."""
        path = f"/api/worker/workflow-tasks/{task['task_id']}"
        request = task.get("cancellation_request")
        if request is None and self._rng.random() < self._mischief:
            beat = await self._client.send("heartbeat-workflow", f"{path}/heartbeat", fence)
            request = beat.body.get("cancellation_request")
        if request is None or request["delivered_at"] is not None or task["workflow_update_id"] is not None:
            return history
        sequence, kind = waits_for(history, schedule())
        body = fence | {"request_id": request["request_id"], "sequence": sequence, "call_kind": kind}
        answer = await self._client.send("deliver", f"{path}/deliver-cancellation", body)
        if answer.status not in (0, 200, 404, 409):
            self._ledger.unexpected.append(f"delivery {answer.status} {answer.body}")
        if not answer.body.get("delivered"):
            return None
        again = task | {"history_events": [], "next_history_page_token": request["history_refresh_page_token"]}
        return await self._history(again, fence)

    async def _history(self, task: Json, fence: Json) -> list[Json] | None:
        """All of it; None when the lease has been lost on the way. Says so when the pages do not fit together."""
        events: list[Json] = list(task["history_events"])
        token = task["next_history_page_token"]
        total = task["total_history_events"]
        while token:
            body = fence | {"next_history_page_token": token, "history_page_size": PAGE_SIZE}
            path = f"/api/worker/workflow-tasks/{task['task_id']}/history"
            answer = await self._client.send("history", path, body)
            if answer.status != 200:
                return None
            events += answer.body["history_events"]
            total = answer.body["total_history_events"]
            token = answer.body["next_history_page_token"]
        if [event["sequence"] for event in events] != list(range(1, total + 1)):
            self._ledger.unexpected.append(f"history of {task['task_id']} has gaps: {[e['sequence'] for e in events]}")
        return events

    async def _activity_loop(self) -> None:
        while not self.is_over:
            task = await self._poll("activity")
            if task is None or self._drops():
                continue
            fence = {"lease_owner": self.name, "activity_attempt_id": task["activity_attempt_id"]}
            path = f"/api/worker/activity-tasks/{task['task_id']}"
            if self._rng.random() < self._mischief:
                await self._client.send("renew", f"{path}/renew-lease", fence)
            if self._rng.random() < self._mischief:
                beat = await self._client.send("heartbeat", f"{path}/heartbeat", fence | {"message": "on the way"})
                if beat.body.get("cancel_requested") and await self._stops(path, fence):
                    continue
            if self._rng.random() < self._mischief:
                failure = {"message": "by chance", "type": "Chance"}
                answer = await self._client.send("fail-activity", f"{path}/fail", fence | {"failure": failure})
                outcome = "failed"
            else:
                answer = await self._client.send("complete-activity", f"{path}/complete", fence | {"result": PAYLOAD})
                outcome = "completed"
            if answer.status == 200:
                self._ledger.attempts[task["activity_attempt_id"]] = outcome
            elif answer.status not in (0, 404, 409):
                self._ledger.unexpected.append(f"activity {answer.status} {answer.body}")

    async def _stops(self, path: str, fence: Json) -> bool:
        """Acknowledge that an activity was asked to stop; False when no cancellation request is why."""
        status = await self._client.send("status", f"{path}/status", fence)
        asked = status.body.get("cancellation_acknowledgement")
        if asked is None:
            return False
        body = fence | {"request_id": asked["request_id"]}
        answer = await self._client.send("acknowledge", f"{path}/acknowledge-cancellation", body)
        if answer.status not in (0, 200, 404, 409):
            self._ledger.unexpected.append(f"acknowledgement {answer.status} {answer.body}")
        return True

    def _keeps(self) -> bool:
        """Whether this worker keeps the history of the run it has just worked on."""
        return self._rng.random() < self._mischief * 2

    def _drops(self) -> bool:
        """Whether this worker forgets the task it has just been given."""
        return self._rng.random() < self._mischief / 5
