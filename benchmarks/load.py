"""The closed loop: starters that wait for their workflow, and pollers that do nothing fast."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from typing import Final

from benchmarks.plans import LoadOutcome, LoadPlan
from benchmarks.protocol import Api, poll_body
from benchmarks.wire import Connection

POLLERS_PER_WORKER: Final = 16
POLL_WINDOW_SECONDS: Final = 30
WORKFLOW_SECONDS_MAX: Final = 30
"""A workflow that takes longer counts as lost and ends the benchmark."""


class Load:
    """One run of a :class:`LoadPlan`. Every starter and every poller has a connection of its own.

    The pollers are half as many as the workflows in flight, and two more, of each kind: enough for a free one to be
    waiting whenever a task becomes ready, because a poller is busy only while it completes.
    """

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._api = Api(plan.url)
        self._done: dict[str, asyncio.Event] = {}
        self._latencies: list[float] = []
        self._started_at = 0.0
        self._is_over = False
        self._run = uuid.uuid4().hex[:12]
        self._starters: list[asyncio.Task[None]] = []

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Register the workers and begin the loop in ``group``; return when every connection is open."""
        pollers = self._plan.in_flight // 2 + 2
        workers = [f"bench-{self._run}-{number}" for number in range(-(-pollers // POLLERS_PER_WORKER))]
        registrar = await self._connect()
        for worker in workers:
            await self._api.register(registrar, worker, self._plan.queue)
        registrar.close()
        self._pollers = [
            group.create_task(work(await self._connect(), f"{kind}-{number}", workers[number % len(workers)]))
            for kind, work in (("workflow", self._work_workflows), ("activity", self._work_activities))
            for number in range(pollers)
        ]
        self._starters = [
            group.create_task(self._keep_one_in_flight(await self._connect(), number))
            for number in range(self._plan.in_flight)
        ]

    def begin(self) -> None:
        """The measured window begins."""
        self._latencies = []
        self._started_at = time.perf_counter()

    def end(self) -> LoadOutcome:
        """The measured window ends; nothing more is started."""
        self._is_over = True
        return LoadOutcome(
            seconds=time.perf_counter() - self._started_at,
            latencies_ms=[seconds * 1000 for seconds in self._latencies],
        )

    async def close(self) -> None:
        """Wait for the workflows in flight, then let go of the polls."""
        await asyncio.wait(self._starters)
        for poller in self._pollers:
            poller.cancel()

    async def _connect(self) -> Connection:
        return await Connection.open(self._plan.url)

    async def _keep_one_in_flight(self, connection: Connection, starter: int) -> None:
        for number in itertools.count():
            if self._is_over:
                return
            workflow_id = f"bench-{self._run}-{starter}-{number}"
            done = self._done[workflow_id] = asyncio.Event()
            began = time.perf_counter()
            async with asyncio.timeout(WORKFLOW_SECONDS_MAX):
                await self._api.start(connection, workflow_id, self._plan.queue)
                await done.wait()
            self._latencies.append(time.perf_counter() - began)

    async def _work_workflows(self, connection: Connection, poller: str, worker: str) -> None:
        for number in itertools.count():
            task = await self._api.poll_workflow(connection, self._poll(worker, poller, number))
            if task is None:
                continue
            is_last = task.is_activity_done()
            await self._api.complete_workflow_task(connection, task, is_last=is_last)
            if is_last:
                self._done.pop(task.workflow_id).set()

    async def _work_activities(self, connection: Connection, poller: str, worker: str) -> None:
        for number in itertools.count():
            task = await self._api.poll_activity(connection, self._poll(worker, poller, number))
            if task is not None:
                await self._api.complete_activity_task(connection, task)

    def _poll(self, worker: str, poller: str, number: int) -> dict[str, object]:
        return poll_body(worker, self._plan.queue, f"{poller}-{number}", POLL_WINDOW_SECONDS)
