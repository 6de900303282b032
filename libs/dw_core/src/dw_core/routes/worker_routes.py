"""Routes of the worker plane (worker-plane §19): hosted by a node with the role ``matching``."""

from __future__ import annotations

import msgspec

from dw_core.protocol import requests_worker as requests
from dw_core.routes.route import Plane, Route

_WORKFLOW = "/api/worker/workflow-tasks"
_ACTIVITY = "/api/worker/activity-tasks"
_QUERY = "/api/worker/query-tasks"
_VALIDATION = "/api/worker/update-validation-tasks"
_SESSIONS = "/api/worker/sessions"
_SCOPES = f"{_WORKFLOW}/{{task_id}}/cancellation-scopes"
_LOCAL = f"{_WORKFLOW}/{{task_id}}/local-activities"


def _worker(
    method: str,
    path: str,
    name: str,
    summary: str,
    request: type[msgspec.Struct] | None = None,
    *,
    is_poll: bool = False,
) -> Route:
    return Route(
        method=method,
        path=path,
        name=name,
        plane=Plane.WORKER,
        principals=("worker",),
        required_roles=("matching",),
        is_poll=is_poll,
        request=request,
        summary=summary,
    )


LIFECYCLE = (
    _worker("POST", "/api/worker/register", "worker_register", "Register a worker", requests.WorkerRegister),
    _worker("POST", "/api/worker/heartbeat", "worker_heartbeat", "Report a live worker", requests.WorkerHeartbeat),
    _worker("DELETE", "/api/worker/registrations/{worker_id}", "worker_deregister", "Deregister a worker"),
    _worker(
        "POST",
        "/api/worker/registrations/{worker_id}/deregister",
        "worker_deregister_fenced",
        "Deregister a worker with its registration token",
    ),
    _worker(
        "POST",
        _SESSIONS,
        "worker_session_create",
        "Create or reuse a worker session",
        requests.WorkerSessionCreate,
    ),
    _worker(
        "POST",
        f"{_SESSIONS}/{{session_id}}/heartbeat",
        "worker_session_heartbeat",
        "Renew a worker session",
        requests.WorkerSessionHeartbeat,
    ),
    _worker(
        "DELETE",
        f"{_SESSIONS}/{{session_id}}",
        "worker_session_close",
        "Close a worker session",
        requests.WorkerSessionClose,
    ),
)

WORKFLOW_TASKS = (
    _worker(
        "POST",
        f"{_WORKFLOW}/poll",
        "workflow_task_poll",
        "Wait for a workflow task",
        requests.WorkflowTaskPoll,
        is_poll=True,
    ),
    _worker(
        "POST",
        f"{_WORKFLOW}/{{task_id}}/history",
        "workflow_task_history",
        "Read the next page of history",
        requests.WorkflowTaskHistory,
    ),
    _worker(
        "POST",
        f"{_WORKFLOW}/{{task_id}}/heartbeat",
        "workflow_task_heartbeat",
        "Renew a workflow task lease",
        requests.WorkflowTaskHeartbeat,
    ),
    _worker(
        "POST",
        f"{_WORKFLOW}/{{task_id}}/complete",
        "workflow_task_complete",
        "Complete a workflow task",
        requests.WorkflowTaskComplete,
    ),
    _worker(
        "POST", f"{_WORKFLOW}/{{task_id}}/fail", "workflow_task_fail", "Fail a workflow task", requests.WorkflowTaskFail
    ),
    _worker(
        "POST",
        f"{_WORKFLOW}/{{task_id}}/deliver-cancellation",
        "workflow_task_deliver_cancellation",
        "Deliver a cancellation request to a claimed run",
        requests.WorkflowTaskDeliverCancellation,
    ),
    _worker("POST", f"{_SCOPES}/open", "cancellation_scope_open", "Open a cancellation scope"),
    _worker("POST", f"{_SCOPES}/prepare", "cancellation_scope_prepare", "Prepare a cancellation scope"),
    _worker("POST", f"{_SCOPES}/deliver", "cancellation_scope_deliver", "Deliver into a cancellation scope"),
)

LOCAL_ACTIVITIES = (
    _worker("POST", f"{_LOCAL}/checkpoint", "local_activity_checkpoint", "Checkpoint commands"),
    _worker("POST", f"{_LOCAL}/checkpoint-group", "local_activity_checkpoint_group", "Checkpoint a group of commands"),
    _worker("POST", f"{_LOCAL}/prepare", "local_activity_prepare", "Prepare a local activity"),
    _worker("POST", f"{_LOCAL}/recover", "local_activity_recover", "Recover a prepared local activity"),
    _worker("POST", f"{_LOCAL}/{{attempt_id}}/control", "local_activity_control", "Ask whether an attempt may go on"),
    _worker("POST", f"{_LOCAL}/{{attempt_id}}/heartbeat", "local_activity_heartbeat", "Report progress of an attempt"),
    _worker("POST", f"{_LOCAL}/{{attempt_id}}/outcome", "local_activity_outcome", "Report the outcome of an attempt"),
    _worker(
        "POST",
        f"{_LOCAL}/{{attempt_id}}/acknowledge-cancellation",
        "local_activity_acknowledge_cancellation",
        "Acknowledge the cancellation of an attempt",
    ),
)

ACTIVITY_TASKS = (
    _worker(
        "POST",
        f"{_ACTIVITY}/poll",
        "activity_task_poll",
        "Wait for an activity task",
        requests.ActivityTaskPoll,
        is_poll=True,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/heartbeat",
        "activity_task_heartbeat",
        "Report progress, renew the lease",
        requests.ActivityTaskHeartbeat,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/complete",
        "activity_task_complete",
        "Complete an activity attempt",
        requests.ActivityTaskComplete,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/fail",
        "activity_task_fail",
        "Fail an activity attempt",
        requests.ActivityTaskFail,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/status",
        "activity_task_status",
        "Ask whether an attempt may go on",
        requests.ActivityTaskStatus,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/renew-lease",
        "activity_task_renew_lease",
        "Renew an activity lease",
        requests.ActivityTaskRenewLease,
    ),
    _worker(
        "POST",
        f"{_ACTIVITY}/{{task_id}}/acknowledge-cancellation",
        "activity_task_acknowledge_cancellation",
        "Acknowledge the cancellation of an activity",
        requests.ActivityTaskAcknowledgeCancellation,
    ),
)

QUERY_TASKS = (
    _worker("POST", f"{_QUERY}/poll", "query_task_poll", "Wait for a query task", requests.QueryTaskPoll, is_poll=True),
    _worker(
        "POST",
        f"{_QUERY}/{{task_id}}/complete",
        "query_task_complete",
        "Answer a query task",
        requests.QueryTaskComplete,
    ),
    _worker("POST", f"{_QUERY}/{{task_id}}/fail", "query_task_fail", "Fail a query task", requests.QueryTaskFail),
    _worker("GET", f"{_QUERY}/{{task_id}}/status", "query_task_status", "Ask whether a query task is still owned"),
)

UPDATE_VALIDATION_TASKS = (
    _worker(
        "POST",
        f"{_VALIDATION}/poll",
        "update_validation_task_poll",
        "Wait for an update validation task",
        requests.UpdateValidationPoll,
        is_poll=True,
    ),
    _worker(
        "POST",
        f"{_VALIDATION}/{{task_id}}/approve",
        "update_validation_task_approve",
        "Approve an update",
        requests.UpdateValidationApprove,
    ),
    _worker(
        "POST",
        f"{_VALIDATION}/{{task_id}}/reject",
        "update_validation_task_reject",
        "Reject an update",
        requests.UpdateValidationReject,
    ),
)

WORKER_ROUTES: tuple[Route, ...] = (
    *LIFECYCLE,
    *WORKFLOW_TASKS,
    *LOCAL_ACTIVITIES,
    *ACTIVITY_TASKS,
    *QUERY_TASKS,
    *UPDATE_VALIDATION_TASKS,
)
