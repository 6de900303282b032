"""Activity tasks, as the HTTP handlers and embedding processes use them."""

from __future__ import annotations

from typing import Any

from dw_core.engine.inputs import (
    AcknowledgeCancellation,
    CheckActivity,
    CompleteActivity,
    FailActivity,
    HeartbeatActivity,
    RenewActivityLease,
)
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection
from dw_core.ids import parse_attempt_id
from dw_core.payloads.codec import NULL_BLOB
from dw_core.payloads.envelope import envelope, read_envelope
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Problem
from dw_matching.broker import Broker
from dw_matching.claiming import claim, claim_status, named_task
from dw_matching.seats import Poll
from dw_matching.task_documents import activity_task
from dw_matching.waiting import wait_for_task
from dw_runtime.pump.claims import Claimed
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.telemetry.context import current_traceparent


class ActivityTasks:
    """Implements :class:`dw_matching.bridges.ActivityTaskBridge`."""

    def __init__(self, pump: Pump, broker: Broker, database: Database, *, lease_seconds: int) -> None:
        self._pump = pump
        self._broker = broker
        self._database = database
        self._lease_seconds = lease_seconds

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a task; see the protocol."""
        claimed = await wait_for_task(self._broker, poll, TaskKind.ACTIVITY, self._lease_seconds)
        assert claimed is None or isinstance(claimed, Claimed), "the queues of this kind give nothing else"
        return None if claimed is None else activity_task(claimed, current_traceparent())

    async def claim(self, namespace: str, task_id: str, lease_owner: str) -> dict[str, Any]:
        """Lease one particular task; see the protocol."""
        return await claim(self._pump, namespace, task_id, lease_owner, self._lease_seconds)

    async def claim_status(self, namespace: str, task_id: str) -> dict[str, Any]:
        """Who holds a task; see the protocol."""
        return await claim_status(self._database, TaskKind.ACTIVITY, namespace, task_id)

    async def complete(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, result: Any
    ) -> dict[str, Any]:
        """Record a result; see the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        try:
            blob = read_envelope(result)
        except PayloadError as wrong:
            raise wrong.at("result") from wrong
        return settle(await self._pump.submit(CompleteActivity(**report, result=blob or NULL_BLOB)))

    async def fail(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, failure: dict[str, Any]
    ) -> dict[str, Any]:
        """Record a failure; ``details`` keep their bytes. See the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        details = failure.get("details")
        if details is not None:
            try:
                payload = read_envelope(details)
            except PayloadError as wrong:
                raise wrong.at("failure.details") from wrong
            assert payload is not None, "details that are not null hold a payload"
            failure = failure | {"details": envelope(payload)}
        return settle(await self._pump.submit(FailActivity(**report, failure=failure)))

    async def status(self, namespace: str, task_id: str, attempt_id: str, lease_owner: str) -> dict[str, Any]:
        """What a heartbeat would say; see the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        return settle(await self._pump.submit(CheckActivity(**report)))

    async def acknowledge_cancellation(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, request_id: str
    ) -> dict[str, Any]:
        """Keep that a callback has stopped; see the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        return settle(await self._pump.submit(AcknowledgeCancellation(**report, request_id=request_id)))

    async def heartbeat(
        self, namespace: str, task_id: str, attempt_id: str, lease_owner: str, progress: dict[str, Any]
    ) -> dict[str, Any]:
        """Stay alive; see the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        change = HeartbeatActivity(**report, lease_seconds=self._lease_seconds, progress=progress or None)
        return settle(await self._pump.submit(change))

    async def renew_lease(self, namespace: str, task_id: str, attempt_id: str, lease_owner: str) -> dict[str, Any]:
        """Keep the lease; see the protocol."""
        report = await self._fence(namespace, task_id, attempt_id, lease_owner)
        return settle(await self._pump.submit(RenewActivityLease(**report, lease_seconds=self._lease_seconds)))

    async def _fence(self, namespace: str, task_id: str, attempt_id: str, lease_owner: str) -> dict[str, Any]:
        """The members every report carries.

        An attempt that is none is unknown and one of another run is a mismatch, but an unknown task is told before
        either (worker-plane §12.2).
        """
        run_id, number = named_task(task_id)
        named = parse_attempt_id(attempt_id)
        report: dict[str, Any] = {
            "run_id": run_id,
            "namespace": namespace,
            "task_number": number,
            "lease_owner": lease_owner,
        }
        if named is not None and named[0] == run_id:
            return report | {"sequence": named[1], "attempt": named[2]}
        ids: dict[str, Any] = {"task_id": task_id, "activity_attempt_id": attempt_id}
        known = await self._pump.submit(CheckActivity(**report, sequence=0, attempt=0))
        assert isinstance(known, Rejection), "no attempt has the number 0"
        if known.reason == "task_not_found":
            raise Problem(known.reason, known.message, **ids)
        if named is None:
            raise Problem("attempt_not_found", "There is no such attempt.", **ids)
        raise Problem("task_mismatch", "The attempt belongs to another task.", **ids)
