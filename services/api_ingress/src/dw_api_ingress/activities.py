"""Standalone activities: start, describe, list (control-plane §15). They are cancelled as workflows are."""

from __future__ import annotations

from typing import Any

from dw_api_ingress.caller import command_context
from dw_api_ingress.cursors import decode_cursor, encode_cursor
from dw_api_ingress.listing import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX
from dw_api_ingress.queries import page_size, status_bucket
from dw_api_ingress.starting import DEFAULT_QUEUE, origin
from dw_core.engine.inputs import StartActivity
from dw_core.engine.rows import Details, RetryPolicy, TaskState
from dw_core.engine.run_rows import Timeouts
from dw_core.engine.standalone import SEQUENCE
from dw_core.ids import NewId, execution_id
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope, read_input
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.requests_control import ActivityStart, RetryOptions
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.reads.activities import ActivityReads, StandaloneActivity
from dw_runtime.store.reads.rows import Position


class ActivityHandlers:
    """Turns requests about standalone activities into inputs and reads, and their answers into responses."""

    def __init__(self, pump: Pump, activities: ActivityReads, new_id: NewId) -> None:
        self._pump = pump
        self._activities = activities
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"activity_start": self.start, "activity_describe": self.describe, "activity_list": self.page}

    async def start(self, call: Call) -> Reply:
        """201 for a new activity; raises ``Problem`` when its id has been used."""
        body: ActivityStart = call.body
        run_id = self._new_id()
        try:
            arguments = read_input(body.input)
        except PayloadError as error:
            raise error.at("input") from error
        change = StartActivity(
            namespace=call.namespace,
            workflow_id=body.activity_id or self._new_id(),
            command_id=self._new_id(),
            context=command_context(call),
            new_run_id=run_id,
            activity_type=body.activity_type,
            activity_class=body.activity_class,
            queue=body.task_queue or DEFAULT_QUEUE,
            details=Details(run_id=run_id, arguments=arguments, business_key=body.business_key),
            has_retry_policy=body.retry_policy is not None,
            retry_policy=_policy(body.retry_policy),
            timeouts=Timeouts(
                start_to_close_timeout=body.start_to_close_timeout_seconds,
                schedule_to_start_timeout=body.schedule_to_start_timeout_seconds,
                schedule_to_close_timeout=body.schedule_to_close_timeout_seconds,
                heartbeat_timeout=body.heartbeat_timeout_seconds,
            ),
            trace_context=origin(call, body.observability_context),
        )
        return Reply(settle(await self._pump.submit(change)), status=201)

    async def describe(self, call: Call) -> Reply:
        """The activity of the path."""
        return Reply(described(await self._activities.describe(call.namespace, call.params["activity_id"])))

    async def page(self, call: Call) -> Reply:
        """Activities of the namespace, newest first."""
        size = page_size(call.query, default=PAGE_SIZE_DEFAULT, maximum=PAGE_SIZE_MAX)
        after = decode_cursor(call.query.get("next_page_token"))
        rows = await self._activities.page(call.namespace, bucket=status_bucket(call.query), after=after, size=size + 1)
        shown = rows[:size]
        token = None
        if len(rows) > size:
            token = encode_cursor(Position(shown[-1].run.started_at, shown[-1].run.run_id))
        return Reply(
            {"activities": [described(row) for row in shown], "activity_count": len(shown), "next_page_token": token}
        )


def _policy(options: RetryOptions | None) -> RetryPolicy:
    if options is None:
        return RetryPolicy()
    return RetryPolicy(
        max_attempts=options.max_attempts,
        backoff_seconds=tuple(options.backoff_seconds or ()),
        non_retryable_error_types=tuple(options.non_retryable_error_types or ()),
    )


def described(row: StandaloneActivity) -> dict[str, Any]:
    """The description of a standalone activity (control-plane §15.2)."""
    run, activity, task = row.run, row.activity, row.task
    output = row.summary.output
    return {
        "activity_id": run.workflow_id,
        "activity_execution_id": execution_id(run.run_id, SEQUENCE),
        "workflow_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "workflow_type": run.workflow_type,
        "activity_type": activity.activity_type,
        "activity_class": row.activity_class,
        "task_queue": run.queue,
        "namespace": run.namespace,
        "status": run.status,
        "activity_status": _activity_status(row),
        "attempt_count": activity.attempt_count if task is None else task.attempt,
        "closed_reason": run.closed_reason,
        "business_key": row.summary.business_key,
        "compatibility": run.compatibility,
        "payload_codec": CODEC,
        "started_at": wire_time(run.started_at),
        "closed_at": wire_time(run.closed_at),
        "last_progress_at": wire_time(run.last_progress_at),
        "last_heartbeat_at": None if task is None else wire_time(task.last_heartbeat_at),
        "schedule_to_start_deadline_at": None if task is None else wire_time(task.schedule_to_start_at),
        "schedule_to_close_deadline_at": None if task is None else wire_time(task.schedule_to_close_at),
        "result": None if output is None else envelope(output),
    }


def _activity_status(row: StandaloneActivity) -> str:
    if row.task is not None:
        return "running" if row.task.state is TaskState.LEASED else "pending"
    return "timed_out" if row.ended_by == "ActivityTimedOut" else row.activity.status
