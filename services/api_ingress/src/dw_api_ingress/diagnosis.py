"""``GET …/debug``: on one screen, why a run does not move (control-plane §10.4)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dw_api_ingress.cancellation_cascade import cascade_document
from dw_api_ingress.fleet import FleetHandlers
from dw_api_ingress.queries import flag
from dw_api_ingress.run_documents import compatibility, described
from dw_core.engine.repairs import liveness
from dw_core.engine.rows import Task, TaskState
from dw_core.ids import attempt_id, execution_id, task_id
from dw_core.leases.durations import is_expired
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.debug import PREVIEW_BYTES_MAX, DebugReads, Findings, LastEvent, PendingActivity
from dw_runtime.store.reads.rows import DescribedRun
from dw_runtime.store.reads.runs import RunReads

BACKLOG_AFTER: Final = timedelta(seconds=3)
"""A task that waits longer than this although its queue has workers waits behind others."""
_EXECUTION: Final = (
    "status", "status_bucket", "is_terminal", "workflow_type", "task_queue", "compatibility", "run_number",
    "started_at", "closed_at", "last_progress_at", "wait_kind", "wait_reason",
)  # fmt: skip
_REASONS: Final = {
    "closed": "The run is closed.",
    "workflow_replay_blocked": "The run could not be replayed; repair it, or start workers of another build.",
    "waiting": "No workflow task is open; the run waits.",
    "workflow_task_lease_expired": "The lease of the workflow task has run out; a sweep offers it again.",
    "workflow_task_leased": "A worker holds the workflow task.",
    "workflow_task_backing_off": "The workflow task has failed and is offered again later.",
    "workflow_task_ready": "The workflow task can be taken.",
}


class DebugHandlers:
    """Diagnoses runs; reads only, and as much of a run whatever its size."""

    def __init__(self, runs: RunReads, reads: DebugReads, fleet: FleetHandlers) -> None:
        self._runs = runs
        self._reads = reads
        self._fleet = fleet

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"workflow_debug": self.diagnose, "workflow_run_debug": self.diagnose}

    async def diagnose(self, call: Call) -> Reply:
        """The run of the path, or the current one; raises ``Problem`` as its description does."""
        with_preview = flag(call.query, "include_last_event_payload")
        row = await self._runs.describe(call.namespace, call.params["workflow_id"], call.params.get("run_id"))
        found = await self._reads.findings(call.namespace, row.run.queue, row.run.run_id)
        queue = await self._fleet.queue_detail(call.namespace, row.run.queue)
        request = row.run.cancellation
        cascade = None
        if request is not None:
            cascade = cascade_document(request, await self._reads.cascade(row.run.run_id))
        document = diagnosis(row, found, with_preview=with_preview)
        return Reply(document | {"task_queue": queue, "cancellation_cascade": cascade})


def diagnosis(row: DescribedRun, found: Findings, *, with_preview: bool) -> dict[str, Any]:
    """The document without the detail of the task queue and the way of a cancellation."""
    run = row.run
    findings = _findings(row, found)
    return {
        "generated_at": wire_time(found.now),
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "namespace": run.namespace,
        "diagnostic_status": _status(row, found, findings),
        "execution": _execution(row, found, with_preview=with_preview),
        "pending_workflow_tasks": [_workflow_task(task) for task in found.workflow_tasks],
        "pending_activities": [_activity(activity) for activity in found.activities],
        "recent_failures": [msgspec.to_builtins(failure) for failure in found.failures],
        "compatibility": {
            "run": compatibility(run.compatibility, is_supported=row.is_supported),
            "task_queue_pollers": {"active_workers": found.queue_workers},
            "namespace_worker_fleet": {"active_workers": found.namespace_workers},
        },
        "findings": findings,
    }


def _execution(row: DescribedRun, found: Findings, *, with_preview: bool) -> dict[str, Any]:
    run, document = row.run, described(row)
    state = "closed" if run.is_terminal else liveness(run, _task(found), found.now)
    badge = _badge(row, found)
    return {name: document[name] for name in _EXECUTION} | {
        "liveness_state": state,
        "liveness_reason": _REASONS[state],
        "repair_attention": not run.is_terminal and run.replay_blocked,
        "task_problem": badge is not None,
        "task_problem_badge": badge,
        "last_event": None if found.last_event is None else _last_event(found.last_event, with_preview=with_preview),
        "next_scheduled_event": None if run.is_terminal else _next(row, found),
    }


def _task(found: Findings) -> Task | None:
    return found.workflow_tasks[0] if found.workflow_tasks else None


def _badge(row: DescribedRun, found: Findings) -> str | None:
    if row.run.is_terminal:
        return None
    if row.run.replay_blocked:
        return "replay_blocked"
    if row.run.task_failure_count:
        return "failing"
    task = _task(found)
    return "lease_expired" if task is not None and _is_lapsed(task, found.now) else None


def _findings(row: DescribedRun, found: Findings) -> list[dict[str, str]]:
    run = row.run
    if run.is_terminal:
        return []
    listed: list[dict[str, str]] = []

    def add(severity: str, code: str, message: str) -> None:
        listed.append({"severity": severity, "code": code, "message": message})

    tasks = [*found.workflow_tasks, *(activity.task for activity in found.activities)]
    if run.replay_blocked:
        add("error", "workflow_replay_blocked", _REASONS["workflow_replay_blocked"])
        add("error", "repair_attention", "The run goes on only after a repair or with workers of another build.")
    elif run.task_failure_count:
        add("warning", "task_problem", f"The workflow task has failed {run.task_failure_count} times in a row.")
    waiting = {task.queue for task in tasks if task.state is TaskState.READY}
    for queue in sorted(queue for queue in waiting if not found.pollers.get(queue)):
        add("error", "no_active_pollers", f"A task waits on queue {queue}, which no live worker polls.")
    lapsed = sum(_is_lapsed(task, found.now) for task in tasks)
    if lapsed:
        add("warning", "expired_leases", f"The leases of {lapsed} tasks have run out.")
    return listed


def _status(row: DescribedRun, found: Findings, findings: list[dict[str, str]]) -> str:
    if row.run.is_terminal:
        return "terminal"
    if findings:
        return "needs_attention"
    tasks = [*found.workflow_tasks, *(activity.task for activity in found.activities)]
    ready = [task.available_at for task in tasks if task.state is TaskState.READY]
    if any(available_at + BACKLOG_AFTER <= found.now for available_at in ready):
        return "queue_backlog"
    if any(task.state is TaskState.LEASED for task in found.workflow_tasks):
        return "running"
    return "pending_work" if tasks else "waiting"


def _is_lapsed(task: Task, now: datetime) -> bool:
    return task.state is TaskState.LEASED and is_expired(task.lease_expires_at, now)


def _next(row: DescribedRun, found: Findings) -> dict[str, Any] | None:
    """What the server does next by itself, and when."""
    times = {
        "timer": found.next_timer_at,
        "run_deadline": row.run.ends_at,
        "workflow_task_offered": min(
            (task.available_at for task in found.workflow_tasks if task.available_at > found.now), default=None
        ),
        "activity_deadline_or_retry": min(
            (at for activity in found.activities if (at := _due(activity.task, found.now)) is not None), default=None
        ),
    }
    known = {kind: at for kind, at in times.items() if at is not None}
    if not known:
        return None
    kind = min(known, key=lambda name: known[name])
    return {"kind": kind, "scheduled_at": wire_time(known[kind])}


def _due(task: Task, now: datetime) -> datetime | None:
    if task.state is TaskState.READY and task.available_at > now:
        return task.available_at
    return task.next_sweep_at()


def _last_event(event: LastEvent, *, with_preview: bool) -> dict[str, Any]:
    members = ", ".join(sorted(event.members or ()))
    shown = {
        "sequence": event.sequence,
        "event_type": event.event_type,
        "timestamp": event.timestamp,
        "payload_summary": f"{event.bytes} bytes: {members}"[:PREVIEW_BYTES_MAX],
    }
    if with_preview:
        shown["payload_preview"] = event.preview.encode()[:PREVIEW_BYTES_MAX].decode(errors="ignore")
    return shown


def _workflow_task(task: Task) -> dict[str, Any]:
    return {
        "task_id": task_id(task.run_id, task.task_number),
        "status": "ready" if task.state is TaskState.READY else "leased",
        "queue": task.queue,
        "compatibility": task.compatibility,
        "attempt_count": task.attempt,
        "repair_count": task.repair_count,
        "available_at": wire_time(task.available_at),
        "created_at": wire_time(task.created_at),
        "lease_owner": task.lease_owner,
        "leased_at": wire_time(task.leased_at),
        "lease_expires_at": wire_time(task.lease_expires_at),
    }


def _activity(activity: PendingActivity) -> dict[str, Any]:
    task = activity.task
    is_leased = task.state is TaskState.LEASED
    number = task.attempt if is_leased else 0
    attempt = attempt_id(task.run_id, task.activity_sequence, number) if is_leased else None
    return {
        "activity_execution_id": execution_id(task.run_id, task.activity_sequence),
        "activity_type": activity.activity_type,
        "activity_class": activity.activity_type,
        "status": "running" if is_leased else "pending",
        "queue": task.queue,
        "attempt_count": task.attempt,
        "current_attempt_id": attempt,
        "scheduled_at": wire_time(activity.scheduled_at),
        "started_at": wire_time(task.leased_at),
        "last_heartbeat_at": wire_time(task.last_heartbeat_at),
        "schedule_deadline_at": wire_time(task.schedule_to_start_at),
        "close_deadline_at": wire_time(task.start_to_close_at),
        "schedule_to_close_deadline_at": wire_time(task.schedule_to_close_at),
        "heartbeat_deadline_at": wire_time(task.heartbeat_at),
        "available_at": wire_time(task.available_at),
        "current_attempt": None
        if not is_leased
        else {
            "id": attempt,
            "attempt_number": number,
            "lease_owner": task.lease_owner,
            "lease_expires_at": wire_time(task.lease_expires_at),
            "is_cancel_requested": bool(task.is_cancel_requested),
        },
    }
