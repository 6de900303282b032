"""Roles, shapes and process classes (topology §1.1, §1.2), and what each role owns (topology §1.4)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """The six roles, in the order in which they are published."""

    API_INGRESS = "api_ingress"
    CONTROL_PLANE = "control_plane"
    MATCHING = "matching"
    HISTORY_PROJECTION = "history_projection"
    SCHEDULER = "scheduler"
    EXECUTION_PLANE = "execution_plane"


class Shape(StrEnum):
    """The three shapes of a deployment, in the order in which they are published."""

    EMBEDDED = "embedded"
    STANDALONE_SERVER = "standalone_server"
    SPLIT_CONTROL_EXECUTION = "split_control_execution"


EXECUTION_MODES = {
    Shape.EMBEDDED: "local_queue_worker",
    Shape.STANDALONE_SERVER: "remote_worker_protocol",
    Shape.SPLIT_CONTROL_EXECUTION: "remote_worker_protocol",
}

PROCESS_CLASSES: dict[Shape, dict[str, tuple[Role, ...]]] = {
    Shape.EMBEDDED: {
        "application_process": (
            Role.CONTROL_PLANE,
            Role.MATCHING,
            Role.HISTORY_PROJECTION,
            Role.SCHEDULER,
            Role.EXECUTION_PLANE,
        ),
    },
    Shape.STANDALONE_SERVER: {
        "server_http_node": (Role.API_INGRESS, Role.CONTROL_PLANE, Role.MATCHING, Role.HISTORY_PROJECTION),
        "scheduler_node": (Role.SCHEDULER,),
        "worker_node": (Role.EXECUTION_PLANE,),
    },
    Shape.SPLIT_CONTROL_EXECUTION: {
        "ingress_node": (Role.API_INGRESS,),
        "control_plane_node": (Role.API_INGRESS, Role.CONTROL_PLANE, Role.HISTORY_PROJECTION),
        "scheduler_node": (Role.SCHEDULER,),
        "matching_node": (Role.MATCHING,),
        "execution_node": (Role.EXECUTION_PLANE,),
    },
}
"""The process classes of each shape and the roles they host."""


class RoleFacts(NamedTuple):
    """What the role catalogue says about a role, whoever hosts it."""

    plane: str
    runs_user_code: bool
    accepts_external_http: bool
    steady_state_interface: str
    scales_with: str


ROLE_FACTS: dict[Role, RoleFacts] = {
    Role.API_INGRESS: RoleFacts("control", False, True, "external_http", "incoming_http_request_rate"),
    Role.CONTROL_PLANE: RoleFacts(
        "control", False, True, "control_plane_contract", "operator_commands_and_run_lifecycle_transitions"
    ),
    Role.MATCHING: RoleFacts("control", False, True, "worker_poll_and_repair", "ready_task_rate_and_poller_count"),
    Role.HISTORY_PROJECTION: RoleFacts("control", False, False, "projection_writer", "durable_event_rate"),
    Role.SCHEDULER: RoleFacts("control", False, False, "schedule_runner", "active_schedule_count"),
    Role.EXECUTION_PLANE: RoleFacts("execution", True, False, "worker_protocol", "workflow_and_activity_task_rate"),
}

AUTHORITY_BOUNDARIES: dict[Role, tuple[str, ...]] = {
    Role.CONTROL_PLANE: ("workflow_instances", "workflow_runs.status", "workflow_tasks.lifecycle"),
    Role.EXECUTION_PLANE: ("workflow_tasks.outcomes", "activity_attempts", "worker_compatibility_heartbeats"),
    Role.MATCHING: ("workflow_tasks.leases", "activity_tasks.leases"),
    Role.HISTORY_PROJECTION: ("history_events", "workflow_run_summaries", "workflow_history_exports"),
    Role.SCHEDULER: ("workflow_schedules.fire_state", "workflow_starts.scheduled"),
    Role.API_INGRESS: ("worker_registrations",),
}
"""What each role writes."""


class Surface(NamedTuple):
    """One kind of change to one table: who makes it, who reads it."""

    table: str
    mutation: str
    owners: tuple[Role, ...]
    readers: tuple[Role, ...]


AUTHORITY_SURFACES: tuple[Surface, ...] = (
    Surface(
        "workflow_instances",
        "status_transitions",
        (Role.CONTROL_PLANE,),
        (Role.HISTORY_PROJECTION, Role.API_INGRESS),
    ),
    Surface(
        "workflow_runs",
        "status_transitions",
        (Role.CONTROL_PLANE,),
        (Role.HISTORY_PROJECTION, Role.API_INGRESS),
    ),
    Surface(
        "workflow_tasks",
        "create_retire",
        (Role.CONTROL_PLANE, Role.HISTORY_PROJECTION),
        (Role.MATCHING, Role.EXECUTION_PLANE),
    ),
    Surface(
        "workflow_tasks",
        "lease_claim_release",
        (Role.MATCHING,),
        (Role.EXECUTION_PLANE, Role.CONTROL_PLANE),
    ),
    Surface("activity_executions", "create", (Role.CONTROL_PLANE,), (Role.HISTORY_PROJECTION,)),
    Surface("activity_executions", "outcomes", (Role.EXECUTION_PLANE,), (Role.HISTORY_PROJECTION,)),
    Surface("activity_attempts", "create", (Role.CONTROL_PLANE,), (Role.HISTORY_PROJECTION,)),
    Surface("activity_attempts", "outcomes", (Role.EXECUTION_PLANE,), (Role.HISTORY_PROJECTION,)),
    Surface(
        "history_events",
        "record",
        (Role.HISTORY_PROJECTION,),
        (Role.CONTROL_PLANE, Role.EXECUTION_PLANE, Role.API_INGRESS),
    ),
    Surface(
        "run_summaries",
        "project",
        (Role.HISTORY_PROJECTION,),
        (Role.CONTROL_PLANE, Role.MATCHING, Role.API_INGRESS),
    ),
    Surface("workflow_schedules", "crud", (Role.CONTROL_PLANE,), (Role.API_INGRESS,)),
    Surface("workflow_schedules", "fire", (Role.SCHEDULER,), (Role.API_INGRESS,)),
    Surface(
        "worker_compatibility_heartbeats",
        "heartbeat",
        (Role.EXECUTION_PLANE,),
        (Role.MATCHING, Role.HISTORY_PROJECTION, Role.API_INGRESS),
    ),
    Surface(
        "worker_registrations",
        "register_heartbeat",
        (Role.API_INGRESS,),
        (Role.MATCHING, Role.CONTROL_PLANE, Role.HISTORY_PROJECTION),
    ),
)

FAILURE_DOMAINS: dict[str, tuple[str, str]] = {
    "control_plane_down": (
        "workers_continue_claimed_tasks_only_until_lease_expiry",
        "operator_commands_fail_fast",
    ),
    "execution_plane_down": ("ready_tasks_accumulate_without_loss", "operators_see_ready_depth_growth"),
    "matching_down": (
        "claim_falls_back_to_direct_ready_task_discovery",
        "ready_depth_rises_while_claim_rate_falls",
    ),
    "history_projection_down": (
        "projection_reads_may_stale_while_durable_writes_continue",
        "projection_lag_seconds_may_increase",
    ),
    "scheduler_down": (
        "scheduled_workflows_stop_firing_and_record_missed_runs",
        "operators_see_missed_schedule_state",
    ),
    "api_ingress_down": (
        "external_http_traffic_stops_at_the_edge",
        "embedded_in_process_calls_may_continue",
    ),
}
"""What happens when every host of a role is gone: the effect and the signal an operator sees."""
