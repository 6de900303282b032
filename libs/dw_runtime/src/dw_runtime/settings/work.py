"""Settings of polling, leases, recovery, admission and fleet checks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dw_runtime.settings.variable import Var


class Polling(msgspec.Struct, frozen=True, kw_only=True):
    """Long polls and wake signals (topology §5.6, §6.4)."""

    poll_timeout_seconds: Annotated[
        int, Var("DW_WORKER_POLL_TIMEOUT", "Wait of a poll that names none.", "seconds", minimum=0, maximum=60)
    ] = 30
    poll_interval_ms: Annotated[
        int,
        Var("DW_WORKER_POLL_INTERVAL_MS", "Pause between probes for held polls without a wake.", "ms", minimum=50),
    ] = 1000
    wake_signal_ttl_seconds: Annotated[
        int,
        Var(
            "DW_WAKE_SIGNAL_TTL_SECONDS",
            "How long a wake signal is kept.",
            "seconds",
            minimum=1,
            derived="the larger of poll timeout + 5 and 60",
        ),
    ]
    long_polls_max: Annotated[
        int, Var("DW_WORKER_LONG_POLL_MAX_CONCURRENT", "Polls held at once by one process.", minimum=1)
    ] = 10_000
    query_polls_max: Annotated[
        int, Var("DW_QUERY_TASK_POLL_MAX_CONCURRENT", "Query-task polls held at once by one process.", minimum=1)
    ] = 10_000
    query_poll_timeout_seconds: Annotated[
        int, Var("DW_QUERY_TASK_POLL_TIMEOUT", "Wait of a query-task poll.", "seconds", minimum=0, maximum=60)
    ] = 5


class Leases(msgspec.Struct, frozen=True, kw_only=True):
    """How long work is held, and the waits of queries and updates (topology §6.4)."""

    workflow_task_lease_seconds: Annotated[
        int,
        Var(
            "DW_WORKFLOW_TASK_TIMEOUT",
            "Lease of a workflow task; less than 300 needs DW_ALLOW_UNSAFE_LIMITS.",
            "seconds",
            minimum=1,
            also=("DW_V2_WORKFLOW_TASK_LEASE_SECONDS",),
        ),
    ] = 300
    activity_task_lease_seconds: Annotated[
        int,
        Var(
            "DW_ACTIVITY_TASK_TIMEOUT",
            "Lease of an activity task; less than 300 needs DW_ALLOW_UNSAFE_LIMITS.",
            "seconds",
            minimum=1,
        ),
    ] = 300
    allow_unsafe_limits: Annotated[
        bool, Var("DW_ALLOW_UNSAFE_LIMITS", "Whether leases shorter than the published ones are accepted.")
    ] = False
    query_timeout_seconds: Annotated[
        int,
        Var(
            "DW_QUERY_TASK_TIMEOUT", "Wait of a query for its answer.", "seconds", minimum=1, derived="the poll timeout"
        ),
    ]
    query_lease_seconds: Annotated[
        int,
        Var("DW_QUERY_TASK_LEASE_TIMEOUT", "Lease of a query task.", "seconds", minimum=1, derived="the query timeout"),
    ]
    query_ttl_seconds: Annotated[
        int, Var("DW_QUERY_TASK_TTL_SECONDS", "How long an unanswered query task is kept.", "seconds", minimum=1)
    ] = 180
    query_pending_max: Annotated[
        int,
        Var("DW_QUERY_TASK_MAX_PENDING_PER_QUEUE", "Query tasks waiting on one queue.", minimum=1, maximum=10_000),
    ] = 1024
    update_validation_timeout_seconds: Annotated[
        int, Var("DW_UPDATE_VALIDATION_TIMEOUT", "Wait for a worker to validate an update.", "seconds", minimum=1)
    ] = 10
    update_validation_lease_seconds: Annotated[
        int, Var("DW_UPDATE_VALIDATION_LEASE_TIMEOUT", "Lease of an update-validation task.", "seconds", minimum=1)
    ] = 5
    update_completion_timeout_seconds: Annotated[
        int,
        Var("DW_V2_UPDATE_WAIT_COMPLETION_TIMEOUT_SECONDS", "Wait for an update to complete.", "seconds", minimum=0),
    ] = 10
    update_poll_interval_ms: Annotated[
        int, Var("DW_V2_UPDATE_WAIT_POLL_INTERVAL_MS", "Pause between looks at a waited-for update.", "ms", minimum=1)
    ] = 50


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """Liveness of workers (topology §5.3)."""

    heartbeat_interval_seconds: Annotated[
        int,
        Var("DW_WORKER_HEARTBEAT_INTERVAL_SECONDS", "Heartbeat interval told to workers.", "seconds", minimum=1),
    ] = 60
    stale_after_seconds: Annotated[
        int,
        Var(
            "DW_WORKER_STALE_AFTER_SECONDS",
            "Silence after which a worker counts as gone; longer than the heartbeat interval.",
            "seconds",
            minimum=1,
            derived="the larger of 2 x poll timeout and 2 x heartbeat interval + 5",
        ),
    ]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the passes that pick up what a crash left behind (topology §5.3)."""

    redispatch_after_seconds: Annotated[
        int,
        Var(
            "DW_V2_TASK_REPAIR_REDISPATCH_AFTER_SECONDS",
            "Age at which a ready task is announced again.",
            "seconds",
            minimum=1,
        ),
    ] = 3


def _cap(kind: str, rest: str, doc: str) -> Var:
    return Var(f"DW_{kind}_TASK_MAX_{rest}", doc, minimum=1)


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on leases and dispatches; unset means no cap (topology §5.8)."""

    workflow_leases_per_queue: Annotated[
        int | None, _cap("WORKFLOW", "ACTIVE_LEASES_PER_QUEUE", "Leased workflow tasks per queue.")
    ] = None
    workflow_leases_per_namespace: Annotated[
        int | None, _cap("WORKFLOW", "ACTIVE_LEASES_PER_NAMESPACE", "Leased workflow tasks per namespace.")
    ] = None
    workflow_dispatches_per_minute: Annotated[
        int | None, _cap("WORKFLOW", "DISPATCHES_PER_MINUTE", "Workflow tasks dispatched per queue and minute.")
    ] = None
    workflow_dispatches_per_minute_per_namespace: Annotated[
        int | None,
        _cap("WORKFLOW", "DISPATCHES_PER_MINUTE_PER_NAMESPACE", "Workflow tasks dispatched per namespace and minute."),
    ] = None
    activity_leases_per_queue: Annotated[
        int | None, _cap("ACTIVITY", "ACTIVE_LEASES_PER_QUEUE", "Leased activity tasks per queue.")
    ] = None
    activity_leases_per_namespace: Annotated[
        int | None, _cap("ACTIVITY", "ACTIVE_LEASES_PER_NAMESPACE", "Leased activity tasks per namespace.")
    ] = None
    activity_dispatches_per_minute: Annotated[
        int | None, _cap("ACTIVITY", "DISPATCHES_PER_MINUTE", "Activity tasks dispatched per queue and minute.")
    ] = None
    activity_dispatches_per_minute_per_namespace: Annotated[
        int | None,
        _cap("ACTIVITY", "DISPATCHES_PER_MINUTE_PER_NAMESPACE", "Activity tasks dispatched per namespace and minute."),
    ] = None
    namespace_requests_per_minute: Annotated[
        int | None,
        Var(
            "DW_NAMESPACE_MAX_REQUESTS_PER_MINUTE",
            "Control-plane requests of a namespace per process and minute.",
            minimum=1,
        ),
    ] = None
    namespace_requests_at_a_time: Annotated[
        int | None,
        Var(
            "DW_NAMESPACE_MAX_CONCURRENT_REQUESTS",
            "Control-plane requests of a namespace per process at a time.",
            minimum=1,
        ),
    ] = None
    overrides: Annotated[
        str | None,
        Var("DW_TASK_QUEUE_ADMISSION_OVERRIDES", "Caps of single namespaces and queues, as a JSON object."),
    ] = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """Compatibility of workers and of several nodes (topology §6.4)."""

    current_compatibility: Annotated[
        str | None, Var("DW_V2_CURRENT_COMPATIBILITY", "Compatibility marker of new runs.")
    ] = None
    validation_mode: Annotated[
        str, Var("DW_V2_FLEET_VALIDATION_MODE", "What a fleet mismatch does.", choices=("off", "warn", "fail"))
    ] = "warn"
    sticky_execution_enabled: Annotated[
        bool, Var("DW_V2_STICKY_EXECUTION_ENABLED", "Whether runs prefer a worker that keeps their history.")
    ] = True
    sticky_execution_ttl_seconds: Annotated[
        int,
        Var(
            "DW_V2_STICKY_EXECUTION_TTL_SECONDS",
            "Longest time of that preference.",
            "seconds",
            minimum=1,
        ),
    ] = 300
