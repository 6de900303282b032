"""The two worker bridges: what a worker may do with tasks, as Python protocols.

A process that embeds the server calls them directly; the HTTP handlers are thin over the same objects. Every method
returns the members of the response body and raises :class:`dw_core.protocol.problems.Problem` for a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dw_core.engine.commands.stream_fields import StreamPosition
from dw_core.engine.sticky import StickyClaim
from dw_core.protocol.requests_worker import WorkflowTaskDeliverCancellation
from dw_matching.seats import Poll


class WorkflowTaskBridge(Protocol):
    """Workflow tasks: find, claim, read history, report (requirement document on the worker protocol)."""

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a task and lease it: the task object of a poll response, or None when none came in time."""

    async def claim(self, namespace: str, task_id: str, lease_owner: str) -> dict[str, Any]:
        """Lease one particular ready task for the configured time."""

    async def claim_status(self, namespace: str, task_id: str) -> dict[str, Any]:
        """Whether a task is open, and who holds it until when."""

    async def history_payload(self, namespace: str, task_id: str, lease_owner: str, attempt: int) -> dict[str, Any]:
        """The whole history that the leased task was claimed with."""

    async def history_payload_paginated(
        self, namespace: str, task_id: str, lease_owner: str, attempt: int, after_sequence: int, page_size: int
    ) -> dict[str, Any]:
        """One page: ``history_events``, ``has_more``, ``next_after_sequence``, ``total_history_events``."""

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
        """Apply commands and close the task.

        ``sticky`` says that the worker keeps the run's history; ``cursors`` how far it has consumed message streams,
        ``waits`` behind which positions of them it waits.
        """

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
        """Report that the task could not be completed, or that it has nothing to do yet."""

    async def heartbeat(self, namespace: str, task_id: str, lease_owner: str, attempt: int) -> dict[str, Any]:
        """Renew the lease."""

    async def deliver_cancellation(
        self, namespace: str, task_id: str, delivery: WorkflowTaskDeliverCancellation
    ) -> dict[str, Any]:
        """Interrupt one durable call of a run that is to be cancelled; the lease goes on."""


class ActivityTaskBridge(Protocol):
    """Activity tasks: find, claim, report, stay alive."""

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a task and lease it: the task object of a poll response, or None when none came in time."""

    async def claim(self, namespace: str, task_id: str, lease_owner: str) -> dict[str, Any]:
        """Lease one particular ready task; starts its next attempt."""

    async def claim_status(self, namespace: str, task_id: str) -> dict[str, Any]:
        """Whether a task is open, and who holds it until when."""

    async def complete(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, result: Any
    ) -> dict[str, Any]:
        """Record the result of an attempt; ``result`` is a payload in any accepted form, None is the null value."""

    async def fail(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, failure: dict[str, Any]
    ) -> dict[str, Any]:
        """Record that an attempt failed."""

    async def status(self, namespace: str, task_id: str, attempt_id: str, lease_owner: str) -> dict[str, Any]:
        """What a heartbeat would say, without renewing anything."""

    async def heartbeat(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, progress: dict[str, Any]
    ) -> dict[str, Any]:
        """Renew lease and heartbeat deadline and keep the progress."""

    async def acknowledge_cancellation(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, request_id: str
    ) -> dict[str, Any]:
        """Keep that the callback of an attempt that was told to stop has stopped."""

    async def renew_lease(self, namespace: str, task_id: str, attempt_id: str, lease_owner: str) -> dict[str, Any]:
        """Renew the lease and nothing else."""
