"""The worker plane of one process: broker, registry, bridges, handlers and loops, composed over a node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog

from dw_core.engine.inputs import ReleaseClaim
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import WakeKey
from dw_core.leases.durations import query_lease_seconds
from dw_core.services.addresses import read_networks
from dw_core.services.wakes import SERVICE_CALLS
from dw_matching.activity_bridge import ActivityTasks
from dw_matching.activity_handlers import ActivityTaskHandlers
from dw_matching.broker import METRIC_KIND, Broker
from dw_matching.handlers import WorkerHandlers, WorkerSettings
from dw_matching.http_targets import HttpTargets
from dw_matching.lookout import Lookout
from dw_matching.multiplexed import MultiplexedPolls
from dw_matching.query_bridge import QueryTasks
from dw_matching.query_claimer import QueryClaimer
from dw_matching.query_claims import ClaimedQuery
from dw_matching.query_handlers import QueryTaskHandlers
from dw_matching.query_recovery import QueryRecovery
from dw_matching.registry import Registry
from dw_matching.sampling import Sampling
from dw_matching.seats import Grant
from dw_matching.service_dispatch import ServiceDispatcher
from dw_matching.service_serving import ServiceServer
from dw_matching.session_handlers import SessionHandlers
from dw_matching.session_recovery import SessionRecovery
from dw_matching.sessions import WorkerSessions
from dw_matching.tidying import Tidying
from dw_matching.validation_bridge import UpdateValidations
from dw_matching.validation_handlers import UpdateValidationHandlers
from dw_matching.workflow_bridge import WorkflowTasks
from dw_runtime.asking.queries import Asking
from dw_runtime.http.call import Handlers
from dw_runtime.node.asking import join_asking
from dw_runtime.node.limits import admission_rules
from dw_runtime.node.node import Node, new_id
from dw_runtime.process.background import Background
from dw_runtime.settings import Settings
from dw_runtime.sweeps import DueRow, Sweeper
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

SWEEP_SECONDS = 2.5
SWEEP_LIMIT = 200
TIDYING_SECONDS = 300.0


class WorkerPlane:
    """Everything under ``/api/worker`` of one process, and the recovery of lost leases."""

    def __init__(self, settings: Settings, entry_point: str) -> None:
        self._settings = settings
        self.node = Node(
            settings,
            entry_point,
            waiters=self._make_broker,
            on_wake=lambda key: self.broker.wake(key),
            on_reset=lambda: self.broker.forget(),
        )
        node = self.node
        self.broker.attach(node.bus)
        leases = settings.leases
        self.registry = Registry(
            node.database,
            node.pump,
            stale_after_seconds=settings.workers.stale_after_seconds,
            on_leave=self._left,
            polling_now=self.broker.owners,
        )
        self.workflow_tasks = WorkflowTasks(
            node.pump,
            self.broker,
            node.database,
            lease_seconds=leases.workflow_task_lease_seconds,
            limits=node.limits,
            registered=self.registry.polling,
        )
        self.activity_tasks = ActivityTasks(
            node.pump, self.broker, node.database, lease_seconds=leases.activity_task_lease_seconds
        )
        self._ask_workers()
        self._keep_sessions()
        self._look_around()
        self._releases: set[asyncio.Task[object]] = set()

    def _ask_workers(self) -> None:
        """Queries and update validations, which live outside any run's history."""
        node, leases = self.node, self._settings.leases
        self.query_tasks = QueryTasks(
            self.broker,
            node.database,
            announce=node.announce,
            lease_seconds=query_lease_seconds(leases.query_lease_seconds, leases.query_timeout_seconds),
        )
        self.validations = UpdateValidations(
            self.broker, self.query_tasks, lease_seconds=leases.update_validation_lease_seconds
        )
        self._query_claimer = QueryClaimer(
            node.database, self.broker, claimed=lambda: self.query_recovery.expect_work()
        )
        self.query_recovery = QueryRecovery(
            node.database,
            node.metrics,
            stale_after_seconds=self._settings.workers.stale_after_seconds,
            owners=self.broker.owners,
            announce=node.announce,
        )

    def _keep_sessions(self) -> None:
        """Worker sessions, and finding those whose holder is gone."""
        node, stale_after_seconds = self.node, self._settings.workers.stale_after_seconds
        self.sessions = WorkerSessions(node.database, node.metrics, stale_after_seconds=stale_after_seconds)
        self.session_recovery = SessionRecovery(
            node.database,
            node.metrics,
            stale_after_seconds=stale_after_seconds,
            announce=node.announce,
        )

    def _look_around(self) -> None:
        """The loops that find what nobody has announced."""
        node, settings = self.node, self._settings
        self.sampling = Sampling(
            node.database, node.metrics.sampled, queues_max=settings.telemetry.task_queue_series_limit
        )
        node.join("sampling", self.sampling)
        self.tidying = Tidying(node.database, interval_seconds=TIDYING_SECONDS)
        self.sweeper = Sweeper(
            node.database,
            node.pump,
            name="matching-leases",
            holder=node.holder,
            interval_seconds=SWEEP_SECONDS,
            limit=SWEEP_LIMIT,
            recovered=self._count_expiry,
        )
        self.asking = join_asking(node)
        self._dispatcher = _dispatcher(node, self.asking)
        self._lookout = Lookout(
            node.database,
            self.broker,
            interval_seconds=settings.polling.poll_interval_ms / 1000,
            on_service_calls=self._dispatcher.wake,
        )

    def _make_broker(self, metrics: Metrics) -> Broker:
        self.broker = Broker(
            metrics,
            probe=self._probe,
            release=self._release,
            hung_up=self._hung_up,
            rules=admission_rules(self._settings),
        )
        return self.broker

    def _probe(self, keys: Iterable[WakeKey]) -> None:
        keys = set(keys)
        queries = {key for key in keys if key.kind.is_asked}
        self._query_claimer.probe(queries)
        self.node.pump.probe(keys - queries)

    def _hung_up(self, namespace: str, worker_id: str) -> None:
        self.query_recovery.suspect(namespace, worker_id)

    def _left(self, worker: tuple[str, str]) -> None:
        """A worker has been drained or is not registered any more; then it holds no sessions either."""
        self.broker.end_polls_of(*worker)
        self.session_recovery.look_soon()

    def _release(self, claimed: Grant) -> None:
        """A task was granted to a poll whose client had gone: give it back at once."""
        if isinstance(claimed, ClaimedQuery):
            self._in_background(self.query_tasks.release(claimed.task))
            return
        task = claimed.task
        assert task.lease_owner is not None
        change = ReleaseClaim(
            run_id=task.run_id,
            task_number=task.task_number,
            activity_sequence=task.activity_sequence,
            attempt=task.attempt,
            lease_owner=task.lease_owner,
        )
        self._in_background(self.node.pump.submit(change))

    def _in_background(self, work: Coroutine[Any, Any, object]) -> None:
        release = asyncio.get_running_loop().create_task(work)
        self._releases.add(release)
        release.add_done_callback(self._released)

    def _released(self, release: asyncio.Task[object]) -> None:
        self._releases.discard(release)
        if not release.cancelled() and release.exception() is not None:
            log.warning("claim.release_failed", error=type(release.exception()).__name__)

    def _count_expiry(self, row: DueRow) -> None:
        assert row.kind is not None, "a task has a kind"
        self.node.metrics.lease_expiries[METRIC_KIND[TaskKind(row.kind)]].inc()

    def handlers(self) -> Handlers:
        """The handlers of the plane by route name."""
        settings = self.node.settings
        polls = WorkerHandlers(
            registry=self.registry,
            workflow_tasks=self.workflow_tasks,
            polls=MultiplexedPolls(self.broker, self.workflow_tasks, self.validations),
            settings=WorkerSettings(
                poll_timeout_seconds=settings.polling.poll_timeout_seconds,
                heartbeat_interval_seconds=settings.workers.heartbeat_interval_seconds,
                stale_after_seconds=settings.workers.stale_after_seconds,
                history_page_size=settings.protocol.history_page_size_default,
                held_polls_max=settings.polling.long_polls_max,
                query_polls_max=settings.polling.query_polls_max,
                query_poll_seconds=settings.polling.query_poll_timeout_seconds,
                sticky_ttl_seconds=(
                    settings.fleet.sticky_execution_ttl_seconds if settings.fleet.sticky_execution_enabled else 0
                ),
            ),
            new_id=new_id,
        )
        return {
            **polls.by_route(),
            **ActivityTaskHandlers(polls, self.activity_tasks).by_route(),
            **QueryTaskHandlers(polls, self.query_tasks).by_route(),
            **UpdateValidationHandlers(polls, self.validations).by_route(),
            **SessionHandlers(self.sessions).by_route(),
        }

    @property
    def loops(self) -> dict[str, Background]:
        """The loops that must be running."""
        return {
            "registry": self.registry,
            "lookout": self._lookout,
            "sweeper": self.sweeper,
            "tidying": self.tidying,
            "query-claimer": self._query_claimer,
            "query-recovery": self.query_recovery,
            "session-recovery": self.session_recovery,
            "service-dispatcher": self._dispatcher,
        }

    async def open(self) -> None:
        """Open the stores and start the loops."""
        await self.node.open()
        self.registry.start()
        self._query_claimer.start()
        self.query_recovery.start()
        self.session_recovery.start()
        self._lookout.start()
        self.sweeper.start()
        self._dispatcher.start()
        self.tidying.start()

    async def drain(self) -> None:
        """Not ready any more; end every held poll and hold no more; return when nothing is in flight."""
        assert self.node.shell is not None, "drain comes after serve"
        self.node.shell.draining.set()
        self.broker.close()
        await self.node.drain()

    async def close(self) -> None:
        """Stop the loops, finish the pump, close the stores. No request is running any more."""
        await self._dispatcher.stop()
        await self.sweeper.stop()
        await self.tidying.stop()
        await self._lookout.stop()
        await self.registry.stop()
        await self._query_claimer.stop()
        await self.query_recovery.stop()
        await self.session_recovery.stop()
        await asyncio.gather(*self._releases, return_exceptions=True)
        await self.node.close()


def _dispatcher(node: Node, asking: Asking) -> ServiceDispatcher:
    """Who serves the service calls of this process."""
    services = node.settings.services
    targets = HttpTargets(read_networks(services.allowed_networks), services.ca_file)
    dispatcher = ServiceDispatcher(
        node.database,
        node.pump,
        ServiceServer(node.pump, asking, targets, node.limits),
        node.metrics,
        holder=node.holder,
        announce=node.announce,
    )
    node.listen(SERVICE_CALLS, dispatcher.wake)
    return dispatcher
