"""A control plane in this process: the shell with the real handlers, a pump and a database, and a poll for workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.handlers import PayloadHandlers, control_handlers
from dw_api_ingress.namespaces import namespace_handlers
from dw_api_ingress.plane import schedule_families
from dw_api_ingress.retention import RetentionHandlers
from dw_api_ingress.service_calls import ServiceCallHandlers
from dw_api_ingress.service_catalogue import CatalogueHandlers
from dw_api_ingress.service_results import watch_calls
from dw_core.engine.claims import Claimant
from dw_core.engine.commands.parsed import Parsed, WorkflowCommand
from dw_core.engine.inputs import CompleteWorkflowTask
from dw_core.engine.rows import Task, TaskKind
from dw_core.engine.transition import WakeKey
from dw_core.ids import Ulids
from dw_core.limits import Limits
from dw_core.routes.catalogue import ROUTES, match
from dw_core.topology.placement import resolve
from dw_runtime.auth.authenticator import build_authenticator
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.http.shell import Shell, ShellSettings
from dw_runtime.payloads.build import build_payloads
from dw_runtime.payloads.checks import ReferenceCheck
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.payloads.handlers import transport_handlers
from dw_runtime.pump.claims import Claimed, Looked, Want
from dw_runtime.pump.fires import FireRunner
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.replies import settle
from dw_runtime.settings import load
from dw_runtime.settings.bridge import read_signature_keys
from dw_runtime.store.audit import AuditTrail
from dw_runtime.store.database import Database
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.namespaces import NamespaceCache, NamespaceReads
from dw_runtime.store.reads.probe import PostgresProbe
from dw_runtime.store.reads.retention import RetentionStore
from dw_runtime.store.reads.runs import RunReads
from dw_runtime.store.reads.schedules import ScheduleReads
from dw_runtime.store.reads.visibility import Listing
from dw_runtime.telemetry.metrics import Metrics
from dw_scheduler.schedules import ScheduleClock

new_id = Ulids()


class Polls:
    """The waiters of a pump: polls that a test holds."""

    def __init__(self) -> None:
        self._wants: list[tuple[Want, asyncio.Future[Claimed]]] = []

    def wants(self, keys: Iterable[WakeKey]) -> list[Want]:
        wanted = set(keys)
        return [want for want, _ in self._wants if want.key in wanted]

    def settle(self, wants: Sequence[Want], granted: Sequence[tuple[Want, Claimed]], looked: Looked | None) -> None:
        for want, claimed in granted:
            entry = next(entry for entry in self._wants if entry[0] is want)
            self._wants.remove(entry)
            entry[1].set_result(claimed)

    def take_idle(self, task: Task) -> Want | None:
        return None

    def unchecked(self) -> list[Claimant]:
        return []

    def checked(self, claimants: Sequence[Claimant], repeated: Iterable[str]) -> None:
        return

    def wake(self, key: WakeKey) -> None:
        return

    def wake_after(self, key: WakeKey, seconds: float) -> None:
        return

    def hold(self, key: WakeKey, owner: str) -> asyncio.Future[Claimed]:
        """Begin to wait for a task of this queue."""
        claimed: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()
        want = Want(
            key=key,
            claimant=Claimant(lease_owner=owner, poll_request_id=None, lease_seconds=300),
            types=None,
            build_id=None,
            page_size=500,
            is_retry_unchecked=False,
            token=None,
        )
        self._wants.append((want, claimed))
        return claimed


class OpenGate:
    """A bootstrap gate that is always open."""

    def is_stale(self) -> bool:
        return False

    def blocked(self) -> None:
        return None

    async def refreshed(self) -> None:
        return None


class ControlPlane(msgspec.Struct):
    """What a test may use."""

    shell: Shell
    database: Database
    pump: Pump
    polls: Polls
    namespace: str
    runs: RunReads
    namespaces: NamespaceReads
    cache: NamespaceCache
    probe: PostgresProbe
    schedules: ScheduleClock

    async def claim(self, queue: str, kind: TaskKind = TaskKind.WORKFLOW, owner: str = "worker-1") -> Claimed:
        """Lease the next task of a queue."""
        key = WakeKey(self.namespace, kind, queue)
        claimed = self.polls.hold(key, owner)
        self.pump.probe([key])
        return await asyncio.wait_for(claimed, 10)

    async def complete(self, claimed: Claimed, *commands: WorkflowCommand) -> dict[str, Any]:
        """Complete a leased workflow task with these commands."""
        task = claimed.task
        assert task.lease_owner is not None
        return settle(
            await self.pump.submit(
                CompleteWorkflowTask(
                    run_id=task.run_id,
                    namespace=task.namespace,
                    task_number=task.task_number,
                    lease_owner=task.lease_owner,
                    attempt=task.attempt,
                    parsed=Parsed(commands=commands),
                )
            )
        )


@asynccontextmanager
async def control_plane(
    database_url: str, namespace: str, environ: dict[str, str] | None = None, limits: Limits | None = None
) -> AsyncIterator[ControlPlane]:
    """Serve the control plane on a migrated database; ``namespace`` is created."""
    settings = load({"DATABASE_URL": database_url, **(environ or {})})
    metrics, polls, bounds = Metrics(), Polls(), limits or Limits()
    database = Database(database_url, 4, metrics)
    await database.open()
    pump = Pump(database_url, metrics, limits=bounds, publish=lambda keys: None, waiters=polls)
    pump.start()
    results = watch_calls(database)
    results.start()
    try:
        await database.rows("ensure_namespace", namespace, "A test's own.", 30)
        runs = RunReads(database, stale_after_seconds=settings.workers.stale_after_seconds)
        auditor = Auditor(AuditTrail(database), new_id)
        runner = FireRunner(database, pump, metrics, new_id)
        calls = ServiceCallHandlers(database, pump, results, auditor, announce=lambda keys: None, new_id=new_id)
        namespaces, cache = NamespaceReads(database), NamespaceCache(database)
        payloads = build_payloads(settings, database, metrics, bounds, new_id)
        shell = Shell(
            routes=ROUTES,
            match=match,
            placement=resolve(None, None, "standalone"),
            handlers={
                **transport_handlers(payloads),
                **control_handlers(
                    runs=runs,
                    listing=Listing(database, stale_after_seconds=settings.workers.stale_after_seconds),
                    attributes=AttributeReads(database),
                    namespaces=namespace_handlers(database, auditor, settings),
                    auditor=auditor,
                    pump=pump,
                    limits=bounds,
                    new_id=new_id,
                    payloads=PayloadHandlers(payloads, PayloadCleanup(payloads.rows, payloads.disks, metrics)),
                    bridge_keys=read_signature_keys(settings.bridge.signature_keys),
                    families=(
                        auditor.recorded(RetentionHandlers(RetentionStore(database), auditor).by_route()),
                        *schedule_families(
                            auditor,
                            AttributeReads(database),
                            runner,
                            ScheduleReads(database),
                            bounds,
                            new_id,
                            holder="control-plane",
                        ),
                        auditor.recorded(CatalogueHandlers(database, auditor, new_id).by_route()),
                        auditor.recorded(calls.by_route()),
                    ),
                ),
            },
            authenticator=build_authenticator(AuthSettings(driver="none")),
            gate=OpenGate(),
            namespaces=cache,
            capabilities=b"{}",
            observer=lambda route: lambda status, seconds: None,
            settings=ShellSettings(),
            check_references=ReferenceCheck(payloads, inlined_bytes_max=bounds.payload_size_bytes),
        )
        yield ControlPlane(
            shell,
            database,
            pump,
            polls,
            namespace,
            runs,
            namespaces,
            cache,
            PostgresProbe(database, settings),
            ScheduleClock(database, runner, metrics, new_id, holder="scheduler"),
        )
    finally:
        await results.stop()
        await pump.stop()
        await database.close()
