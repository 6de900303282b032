"""The workers of this plane: registrations in Postgres, a short-lived copy of those that poll here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from datetime import datetime
from typing import Final

import msgspec
import psycopg
import structlog

from dw_core.engine.inputs import RecoverLeases, UnblockRun
from dw_core.engine.transition import Rejection
from dw_core.protocol.requests_worker import WorkerHeartbeat, WorkerRegister
from dw_core.workers.registration import Registration, not_registered, register
from dw_runtime.process.background import Background
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition

REFRESH_SECONDS: Final = 5.0
"""How old a copy may be, and how often the workers that poll here are refreshed, all in one statement."""
KEPT_SECONDS: Final = 120.0
"""A worker that has not polled for this long is no longer refreshed."""

UNBLOCKED_AT_ONCE: Final = 200
"""How many blocked runs one look sets free."""

log = structlog.get_logger(__name__)

WorkerKey = tuple[str, str]
_decode = msgspec.json.Decoder(Registration).decode


class _Copy(msgspec.Struct):
    registration: Registration
    read_at: float
    polled_at: float


class Heartbeat(msgspec.Struct, frozen=True):
    """What a worker's heartbeat is answered from."""

    last_heartbeat_at: datetime
    interval_seconds: int | None
    is_draining: bool


class Registry(Background):
    """Registers workers and answers who may poll. ``on_leave`` is told of workers that may no longer: their cohort
    drains, or they are not registered any more. ``polling_now`` gives the workers that hold a poll in this process: a
    held poll is a lasting sign of life."""

    TASK_NAME = "registry"

    def __init__(
        self,
        database: Database,
        pump: Pump,
        *,
        stale_after_seconds: int,
        on_leave: Callable[[WorkerKey], None],
        polling_now: Callable[[], set[WorkerKey]],
    ) -> None:
        self._database = database
        self._pump = pump
        self._stale_after = stale_after_seconds
        self._on_leave = on_leave
        self._polling_now = polling_now
        self._copies: dict[WorkerKey, _Copy] = {}
        self._condition = Condition("registry.refresh")

    async def register(self, namespace: str, worker_id: str, request: WorkerRegister) -> Registration | Rejection:
        """Store a registration; repeating it changes nothing but the time of contact."""
        async with self._database.transaction() as session:
            ((now, text),) = await session.rows("lock_worker", namespace, worker_id)
            outcome = register(
                _decode(text) if text else None,
                request,
                namespace=namespace,
                worker_id=worker_id,
                now=now,
                stale_after_seconds=self._stale_after,
            )
            if isinstance(outcome, Rejection):
                return outcome
            document = msgspec.json.encode(outcome).decode()
            ((outcome.is_draining,),) = await session.rows("save_worker", document)
        self._keep(outcome)
        await self._unblock(outcome)
        return outcome

    async def _unblock(self, worker: Registration) -> None:
        """Set the runs free that another build could not replay (engine §4.6); done again when it is interrupted."""
        is_moving = True
        while is_moving:
            found = await self._database.rows(
                "find_blocked", worker.namespace, worker.task_queue, worker.build_id, UNBLOCKED_AT_ONCE
            )
            changes = [UnblockRun(run_id=run_id, build_id=worker.build_id) for (run_id,) in found]
            replies = await asyncio.gather(*(self._pump.submit(change) for change in changes))
            freed = sum(not isinstance(reply, Rejection) for reply in replies)
            if freed:
                log.info("runs.unblocked", namespace=worker.namespace, build_id=worker.build_id, runs=freed)
            is_moving = freed > 0 and len(found) == UNBLOCKED_AT_ONCE

    async def heartbeat(self, namespace: str, request: WorkerHeartbeat) -> Heartbeat | Rejection:
        """Record a worker's own heartbeat."""
        rows = await self._database.rows(
            "beat_worker",
            namespace,
            request.worker_id,
            None if request.task_slots is None else msgspec.json.encode(request.task_slots).decode(),
            None if request.process_metrics is None else msgspec.json.encode(request.process_metrics).decode(),
            request.heartbeat_interval_seconds,
        )
        return Heartbeat(*rows[0]) if rows else not_registered(request.worker_id)

    async def deregister(self, namespace: str, worker_id: str) -> int | None:
        """Remove a registration and return its workflow tasks to ready; how many, or None for an unknown worker.

        An unknown worker's tasks are returned too: an earlier request may have been lost between the two steps.
        """
        was_known = bool(await self._database.rows("forget_worker", namespace, worker_id))
        self._forget((namespace, worker_id))
        runs = await self._database.rows("leased_runs", namespace, worker_id)
        replies = await asyncio.gather(
            *(self._pump.submit(RecoverLeases(run_id=run_id, lease_owner=worker_id)) for (run_id,) in runs)
        )
        return sum(not isinstance(reply, Rejection) for reply in replies) if was_known else None

    async def polling(self, namespace: str, worker_id: str) -> Registration | None:
        """The registration behind a poll; costs no SQL while the worker keeps polling here."""
        copy = self._copies.get((namespace, worker_id))
        now = time.monotonic()
        if copy is not None and now - copy.read_at < 2 * REFRESH_SECONDS:
            copy.polled_at = now
            return copy.registration
        found = await self._read([(namespace, worker_id)], {(namespace, worker_id)})
        return self._keep(found[0]) if found else None

    def _keep(self, registration: Registration) -> Registration:
        now = time.monotonic()
        self._copies[registration.namespace, registration.worker_id] = _Copy(registration, now, now)
        return registration

    def _forget(self, key: WorkerKey) -> None:
        self._copies.pop(key, None)
        self._on_leave(key)

    async def _read(self, keys: list[WorkerKey], present: Container[WorkerKey]) -> list[Registration]:
        """What is known of these workers now; only the ``present`` ones have given a sign of life."""
        named = encode_rows({"namespace": key[0], "worker_id": key[1], "is_present": key in present} for key in keys)
        return [_decode(text) for (text,) in await self._database.read("touch_workers", named, REFRESH_SECONDS)]

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self._refresh()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)

    async def _refresh(self) -> None:
        now = time.monotonic()
        kept = {key: copy for key, copy in self._copies.items() if now - copy.polled_at < KEPT_SECONDS}
        self._copies = kept
        if not kept:
            return
        present = self._polling_now() | {
            key for key, copy in kept.items() if now - copy.polled_at < 2 * REFRESH_SECONDS
        }
        found = {(r.namespace, r.worker_id): r for r in await self._read(list(kept), present)}
        for key, copy in list(kept.items()):
            fresh = found.get(key)
            if fresh is None:
                self._forget(key)
                continue
            if fresh.is_draining and not copy.registration.is_draining:
                self._on_leave(key)
            copy.registration, copy.read_at = fresh, time.monotonic()
