"""Workflow tasks, as the HTTP handlers and embedding processes use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import structlog

from dw_core.engine.commands.parse import parse_commands
from dw_core.engine.commands.parsed import Parsed
from dw_core.engine.commands.stream_fields import StreamPosition
from dw_core.engine.inputs import (
    CheckWorkflowTask,
    CompleteWorkflowTask,
    DeliverCancellation,
    EndOverfullRun,
    FailWorkflowTask,
    HeartbeatWorkflowTask,
    SweepTask,
    TimeOutRun,
    WorkflowTaskInput,
)
from dw_core.engine.rows import TaskKind
from dw_core.engine.sticky import StickyClaim
from dw_core.engine.transition import Rejection
from dw_core.engine.workflow_tasks import WAITING_FOR_HISTORY
from dw_core.history.paging import encode_page_token
from dw_core.limits import HISTORY_PAGE_SIZE_MAX, Limits
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_worker import WorkflowTaskDeliverCancellation
from dw_core.workers.registration import Registration
from dw_matching.broker import Broker
from dw_matching.claiming import claim, claim_status, named_task
from dw_matching.seats import Poll
from dw_matching.task_documents import history_page, workflow_task
from dw_matching.waiting import wait_for_task
from dw_runtime.pump.claims import Claimed
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.store.pages import read_page
from dw_runtime.telemetry.context import current_traceparent

log = structlog.get_logger()

LOGGED_MESSAGE_CHARACTERS = 500
_REFUSED_COMMANDS = (
    "validation_failed",
    "structural_limit_exceeded",
    "search_attribute_limit_reached",
    "workflow_memo_validation_failed",
)


class WorkflowTasks:
    """Implements :class:`dw_matching.bridges.WorkflowTaskBridge`."""

    def __init__(
        self,
        pump: Pump,
        broker: Broker,
        database: Database,
        *,
        lease_seconds: int,
        limits: Limits,
        registered: Callable[[str, str], Awaitable[Registration | None]],
    ) -> None:
        self._registered = registered
        self._pump = pump
        self._broker = broker
        self._database = database
        self.lease_seconds = lease_seconds
        self._limits = limits

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a task; see the protocol."""
        claimed = await wait_for_task(self._broker, poll, TaskKind.WORKFLOW, self.lease_seconds)
        assert claimed is None or isinstance(claimed, Claimed), "the queues of this kind give nothing else"
        return None if claimed is None else self.document(claimed, poll)

    def document(self, claimed: Claimed, poll: Poll) -> dict[str, Any]:
        """The task object of a poll response."""
        return workflow_task(claimed, poll.accept_encoding, self._limits, current_traceparent())

    async def claim(self, namespace: str, task_id: str, lease_owner: str) -> dict[str, Any]:
        """Lease one particular task; see the protocol."""
        return await claim(self._pump, namespace, task_id, lease_owner, self.lease_seconds)

    async def claim_status(self, namespace: str, task_id: str) -> dict[str, Any]:
        """Who holds a task; see the protocol."""
        return await claim_status(self._database, TaskKind.WORKFLOW, namespace, task_id)

    async def history_payload(self, namespace: str, task_id: str, lease_owner: str, attempt: int) -> dict[str, Any]:
        """The whole history of the claim; see the protocol."""
        events: list[msgspec.Raw] = []
        after = 0
        while True:
            page = await self.history_payload_paginated(
                namespace, task_id, lease_owner, attempt, after, HISTORY_PAGE_SIZE_MAX
            )
            events += msgspec.json.decode(page["history_events"], type=list[msgspec.Raw])
            if not page["has_more"]:
                return page | {"history_events": events}
            after = page["next_after_sequence"]

    async def history_payload_paginated(
        self,
        namespace: str,
        task_id: str,
        lease_owner: str,
        attempt: int,
        after_sequence: int,
        page_size: int,
        accept_encoding: str | None = None,
    ) -> dict[str, Any]:
        """One page, cut at what the claim saw; see the protocol."""
        fence = _fence(namespace, task_id, lease_owner, attempt)
        last = (await self._report(CheckWorkflowTask(**fence)))["claimed_history_sequence"]
        rows = await self._database.read("read_history_page", fence["run_id"], after_sequence, last, page_size)
        page = read_page(rows[0][0])
        until = page.last_sequence or last
        has_more = until < last
        return {
            "task_id": task_id,
            "workflow_task_attempt": attempt,
            **history_page(page.events, max(until - after_sequence, 0), accept_encoding),
            "total_history_events": last,
            "has_more": has_more,
            "next_after_sequence": until,
            "next_history_page_token": encode_page_token(until) if has_more else None,
        }

    async def complete(
        self,
        namespace: str,
        task_id: str,
        lease_owner: str,
        attempt: int,
        commands: Sequence[dict[str, Any]],
        sticky: StickyClaim | None = None,
        cursors: Sequence[StreamPosition] = (),
        waits: Sequence[StreamPosition] = (),
    ) -> dict[str, Any]:
        """Apply commands; see the protocol."""
        fence = _fence(namespace, task_id, lease_owner, attempt)
        parsed, errors = parse_commands(commands, cursors, waits)
        if parsed is not None and parsed.required_capabilities:
            await self._require(namespace, lease_owner, parsed)
        return await self._report(CompleteWorkflowTask(**fence, parsed=parsed, errors=errors, sticky=sticky))

    async def fail(
        self,
        namespace: str,
        task_id: str,
        lease_owner: str,
        attempt: int,
        *,
        message: str,
        failure_type: str | None = None,
        reason: str | None = None,
    ) -> dict[str, Any]:
        """Report a failure or that there is nothing to do; see the protocol."""
        fence = _fence(namespace, task_id, lease_owner, attempt)
        worker = await self._registered(namespace, lease_owner) if failure_type != WAITING_FOR_HISTORY else None
        change = FailWorkflowTask(
            **fence,
            message=message,
            failure_type=failure_type,
            reason=reason,
            build_id=None if worker is None else worker.build_id,
        )
        return await self._report(change)

    async def deliver_cancellation(
        self, namespace: str, task_id: str, delivery: WorkflowTaskDeliverCancellation
    ) -> dict[str, Any]:
        """Interrupt one durable call; see the protocol."""
        fence = _fence(namespace, task_id, delivery.lease_owner, delivery.workflow_task_attempt)
        change = DeliverCancellation(
            **fence,
            request_id=delivery.request_id,
            sequence=delivery.sequence,
            call_kind=delivery.call_kind,
            sequence_span=delivery.sequence_span,
            operation_sequence=delivery.operation_sequence,
            operation_sequence_span=delivery.operation_sequence_span,
        )
        return await self._report(change)

    async def heartbeat(self, namespace: str, task_id: str, lease_owner: str, attempt: int) -> dict[str, Any]:
        """Renew the lease; see the protocol."""
        fence = _fence(namespace, task_id, lease_owner, attempt)
        return await self._report(HeartbeatWorkflowTask(**fence, lease_seconds=self.lease_seconds))

    async def _require(self, namespace: str, lease_owner: str, parsed: Parsed) -> None:
        """Refuse commands of features that the worker has not declared (engine §3.3 item 7).

        A worker that has meanwhile deregistered is not held to it: its lease is what counts.
        """
        worker = await self._registered(namespace, lease_owner)
        for capability, reason in parsed.required_capabilities:
            if worker is not None and capability not in worker.capabilities:
                raise Problem(
                    reason,
                    f"The worker has not declared the capability {capability}.",
                    worker_capability=capability,
                    outcome="rejected",
                    recorded=False,
                )

    async def _report(self, report: WorkflowTaskInput) -> dict[str, Any]:
        """Submit a report. One that finds its lease or its run past the end has that settled at once (§8.5, §8.8)."""
        reply = await self._pump.submit(report)
        if isinstance(reply, Rejection) and reply.reason == "lease_expired":
            await self._pump.submit(SweepTask(run_id=report.run_id, task_number=report.task_number))
        elif isinstance(reply, Rejection) and reply.reason == "run_timed_out":
            await self._pump.submit(TimeOutRun(run_id=report.run_id))
        elif isinstance(reply, Rejection) and reply.fields.get("limit_kind") == "history_events":
            await self._pump.submit(EndOverfullRun(run_id=report.run_id))
        _log_trouble(report, reply)
        return settle(reply)


def _log_trouble(report: WorkflowTaskInput, reply: dict[str, Any] | Rejection) -> None:
    """Log a failed task and a refused batch of commands: the run stands still until somebody sees to its worker."""
    named = {"run_id": report.run_id, "task_number": report.task_number, "worker_id": report.lease_owner}
    if isinstance(reply, Rejection):
        if isinstance(report, CompleteWorkflowTask) and reply.reason in _REFUSED_COMMANDS:
            log.warning("workflow_task.refused", **named, reason=reply.reason, errors=reply.fields.get("errors"))
    elif isinstance(report, FailWorkflowTask) and reply["outcome"] == "failed":
        message = report.message[:LOGGED_MESSAGE_CHARACTERS]
        log.warning("workflow_task.failed", **named, failure_type=report.failure_type, message=message)


def _fence(namespace: str, task_id: str, lease_owner: str, attempt: int) -> dict[str, Any]:
    """The members every report on a leased task carries."""
    run_id, number = named_task(task_id)
    return {
        "run_id": run_id,
        "namespace": namespace,
        "task_number": number,
        "lease_owner": lease_owner,
        "attempt": attempt,
    }
