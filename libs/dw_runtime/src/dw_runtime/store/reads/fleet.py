"""Workers and task queues as operators see them (control-plane §19)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.sessions.session import Holder, Session
from dw_core.workers.queue_documents import KindCounts, NamespaceUse, QueueState
from dw_runtime.store.database import Database

COUNTED_MAX = 10_000
"""Tasks of a queue that are counted; past that a count is a lower bound."""
LISTED_MAX = 1000
"""Workers, queues, leases, shares and sessions that one answer lists."""


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker."""

    namespace: str
    worker_id: str
    task_queue: str
    build_id: str | None
    runtime: str
    sdk_version: str | None
    supported_workflow_types: list[str]
    supported_activity_types: list[str]
    capabilities: list[str]
    workflow_definition_fingerprints: dict[str, str]
    max_concurrent_workflow_tasks: int
    max_concurrent_activity_tasks: int
    task_slots: Any
    process_metrics: Any
    heartbeat_interval_seconds: int | None
    registered_at: datetime
    last_heartbeat_at: datetime
    is_stale: bool
    is_draining: bool

    @property
    def status(self) -> str:
        """``active``, ``draining`` or ``stale``; silence says more than an intent."""
        if self.is_stale:
            return "stale"
        return "draining" if self.is_draining else "active"


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A leased task of a queue."""

    run_id: str
    task_number: int
    kind: TaskKind
    workflow_id: str
    lease_owner: str | None
    lease_expires_at: datetime | None
    attempt: int
    is_expired: bool


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fair share of one priority of a queue; ``began_at`` is its virtual time."""

    kind: TaskKind
    priority: int
    fairness_key: str | None
    granted_at: datetime
    began_at: int
    last_cost: int
    ready_count: int


_decode_worker = msgspec.json.Decoder(WorkerRow).decode
_decode_kinds = msgspec.json.Decoder(list[KindCounts]).decode
_decode_lease = msgspec.json.Decoder(LeaseRow).decode
_decode_share = msgspec.json.Decoder(ShareRow).decode
_decode_session = msgspec.json.Decoder(Session).decode
_decode_holder = msgspec.json.Decoder(Holder).decode


class Dispatches(msgspec.Struct, frozen=True):
    """Leases granted in this minute."""

    kind: TaskKind
    scope: str
    dispatched: int


class Leased(msgspec.Struct, frozen=True):
    """Leased tasks of a kind."""

    kind: TaskKind
    leased: int


class FleetReads:
    """Reads workers, sessions and queues of a namespace."""

    def __init__(self, database: Database, *, stale_after_seconds: int, late_after_seconds: int) -> None:
        self._database = database
        self.stale_after_seconds = stale_after_seconds
        self._late_after = late_after_seconds

    async def workers(
        self, namespace: str, *, queue: str | None = None, worker_id: str | None = None
    ) -> list[WorkerRow]:
        """Registered workers, the newest sign of life first."""
        asked = (namespace, queue, self.stale_after_seconds, worker_id, LISTED_MAX)
        return [_decode_worker(text) for (text,) in await self._database.read("list_workers", *asked)]

    async def queue_names(self, namespace: str, after: str, limit: int) -> list[str]:
        """At most ``limit`` names of queues behind ``after``, in order."""
        return [name for (name,) in await self._database.read("list_queues", namespace, after, limit)]

    async def queues(self, namespace: str, names: Sequence[str]) -> list[QueueState]:
        """How each of these queues stands; one that nobody knows has nothing."""
        listed = msgspec.json.encode(names).decode()
        asked = (namespace, listed, self.stale_after_seconds, self._late_after, COUNTED_MAX)
        rows = await self._database.read("measure_queues", *asked)
        return [
            QueueState(
                name=name,
                active_workers=active,
                stale_workers=stale,
                draining_workers=draining,
                slots={TaskKind.WORKFLOW: int(workflow_slots), TaskKind.ACTIVITY: int(activity_slots)},
                kinds={counts.kind: counts for counts in _decode_kinds(kinds)},
                pending_queries=pending,
            )
            for name, active, stale, draining, workflow_slots, activity_slots, kinds, pending in rows
        ]

    async def use(self, namespace: str) -> NamespaceUse:
        """What a namespace uses of the caps that its queues share."""
        ((leased, dispatched, now),) = await self._database.read("measure_namespace", namespace, COUNTED_MAX)
        counters = msgspec.json.decode(dispatched, type=list[Dispatches])
        return NamespaceUse(
            leased={row.kind: row.leased for row in msgspec.json.decode(leased, type=list[Leased])},
            dispatched={(row.kind, row.scope): row.dispatched for row in counters},
            now=now,
        )

    async def leases(self, namespace: str, queue: str) -> list[LeaseRow]:
        """The leased tasks of a queue."""
        rows = await self._database.read("list_leases", namespace, queue, LISTED_MAX)
        return [_decode_lease(text) for (text,) in rows]

    async def shares(self, namespace: str, queue: str) -> list[ShareRow]:
        """The fair shares of a queue."""
        rows = await self._database.read("list_shares", namespace, queue, LISTED_MAX, COUNTED_MAX)
        return [_decode_share(text) for (text,) in rows]

    async def priorities(self, namespace: str, queue: str) -> list[tuple[TaskKind, int, int, datetime]]:
        """Kind, priority, ready tasks and since when the oldest is ready, where anything is ready."""
        rows = await self._database.read("count_priorities", namespace, queue, COUNTED_MAX)
        return [(TaskKind(kind), priority, ready, oldest) for kind, priority, ready, oldest in rows]

    async def count_sessions(self, namespace: str) -> dict[str, int]:
        """How many worker sessions there are by status."""
        return dict(await self._database.read("count_sessions", namespace))

    async def sessions(self, namespace: str, session_id: str | None = None) -> list[tuple[Session, Holder | None, int]]:
        """Worker sessions with who holds them and the activities they run, the newest first."""
        rows = await self._database.read("list_sessions", namespace, self.stale_after_seconds, session_id, LISTED_MAX)
        return [
            (_decode_session(session), None if holder is None else _decode_holder(holder), running)
            for session, holder, running in rows
        ]
