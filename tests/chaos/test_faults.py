"""Runs under load while processes, connections and stores fail; then the history checker looks at everything."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.chaos.cancelled import request_body, start_body
from tests.chaos.checker import check, open_runs
from tests.chaos.client import Client, Cut, exchange
from tests.chaos.cluster import LEASE_SECONDS, Cluster
from tests.chaos.proxy import Proxy
from tests.chaos.workers import (
    ACTIVITY_TYPE,
    CATALOGUE,
    QUEUE,
    RUNS_OF_A_WORKFLOW,
    SIGNALS,
    WORKFLOW_TYPE,
    Ledger,
    Worker,
)
from tests.harness.databases import migrated_database
from tests.harness.waiting import eventually

SHAPES = {"standalone": ("standalone", "scheduler"), "split": ("api-ingress", "matching", "matching", "scheduler")}
RUNS = 25
STEPS_OF_A_RUN = 10
"""Fewer than a run has: by this the load knows when to start one more."""
EVENTS_BETWEEN_FAULTS = 20
CANCELLED_LATER = 3
"""How many runs that are to be cancelled go on for a while."""


class Load:
    """Clients and workers on one cluster."""

    def __init__(self, cluster: Cluster, rng: random.Random, *, runs: int, width: int, mischief: float) -> None:
        self.ledger = Ledger()
        self._runs = runs
        self._rng = rng
        self.started = 0
        self.is_enough = False
        self._startings: asyncio.Queue[str | None] = asyncio.Queue()
        self._width = width
        self._control = Client(cluster.of("standalone", "api-ingress"), rng, mischief=mischief)
        self.plane = Client(cluster.of("standalone", "matching"), rng, mischief=mischief)
        self.workers = [Worker(f"w{number}", self.plane, rng, self.ledger, mischief=mischief) for number in range(3)]
        self._tasks = [asyncio.create_task(worker.run(width)) for worker in self.workers]
        self._tasks.append(asyncio.create_task(self._signal()))
        self._tasks.append(asyncio.create_task(self._start()))

    @property
    def progress(self) -> int:
        """Grows with every acknowledged step."""
        return len(self.ledger.tasks) + len(self.ledger.attempts)

    async def _start(self) -> None:
        """Fill the catalogue, start the first runs, then as many as keep the workers busy until the faults are over."""
        for path, entry in CATALOGUE:
            answer = await self._control.send("catalogue", path, entry)
            if answer.status not in (201, 409):
                self.ledger.unexpected.append(f"catalogue {answer.status} {answer.body}")
        while self.started < self._runs or not self.is_enough:
            await eventually(self._has_room, "there is room for one more run", 90)
            body = {"workflow_id": f"chaos-{self.started}", "workflow_type": WORKFLOW_TYPE, "task_queue": QUEUE}
            self.started += 1
            answer = await self._control.send("start", "/api/workflows", body)
            if answer.status == 201:
                self.ledger.started[body["workflow_id"]] = answer.body["run_id"]
            if answer.status in (201, 409):
                self._startings.put_nowait(body["workflow_id"])
            else:
                self.ledger.unexpected.append(f"start {answer.status} {answer.body}")
        self._startings.put_nowait(None)

    async def _has_room(self) -> bool:
        open_runs = self.started - self.progress // STEPS_OF_A_RUN
        return open_runs < self._runs or self.is_enough

    async def _signal(self) -> None:
        """Send every run its signals, the last of them as a message of a stream, and before it can have them all an
        update, among those of the others. Beside each start a standalone activity and a run that is asked to cancel,
        at once or later."""
        going_on: list[str] = []
        while (workflow_id := await self._startings.get()) is not None:
            for number in range(SIGNALS):
                if number == 1:
                    await self._update(workflow_id)
                body = {"input": [number], "request_id": f"{workflow_id}-{number}"}
                verb = "signal/go"
                if number == SIGNALS - 1:
                    verb, body = "message-streams/in/messages", {"input": [number], "message_id": f"m{number}"}
                answer = await self._control.send("signal", f"/api/workflows/{workflow_id}/{verb}", body)
                if answer.status in (200, 202):
                    self.ledger.signals.add(answer.body["command_id"])
                else:
                    self.ledger.unexpected.append(f"signal {answer.status} {answer.body}")
            await self._start_alone(f"{workflow_id}-alone")
            going_on.append(await self._start_to_cancel(f"{workflow_id}-cancelled"))
            while len(going_on) > self._rng.randint(0, CANCELLED_LATER):
                await self._cancel(going_on.pop(0))
        for name in going_on:
            await self._cancel(name)

    async def _start_alone(self, activity_id: str) -> None:
        """Start a standalone activity that is retried until it succeeds."""
        named = {"activity_id": activity_id, "activity_type": ACTIVITY_TYPE, "task_queue": QUEUE}
        answer = await self._control.send(
            "activity", "/api/activities", named | {"retry_policy": {"backoff_seconds": [0]}}
        )
        if answer.status == 201:
            self.ledger.started[activity_id] = answer.body["workflow_run_id"]
        elif list(answer.body.get("errors", ())) != ["activity_id"]:  # the id of a start that is repeated is taken
            self.ledger.unexpected.append(f"activity {answer.status} {answer.body}")

    async def _start_to_cancel(self, workflow_id: str) -> str:
        answer = await self._control.send("start-cancelled", "/api/workflows", start_body(workflow_id, QUEUE))
        if answer.status == 201:
            self.ledger.started[workflow_id] = answer.body["run_id"]
        elif answer.status != 409:
            self.ledger.unexpected.append(f"start {answer.status} {answer.body}")
        return workflow_id

    async def _cancel(self, workflow_id: str) -> None:
        path = f"/api/workflows/{workflow_id}/request-cancellation"
        answer = await self._control.send("cancel", path, request_body())
        if answer.status not in (200, 202) and answer.body.get("reason") != "run_not_active":
            self.ledger.unexpected.append(f"cancel {answer.status} {answer.body}")

    async def _update(self, workflow_id: str) -> None:
        body = {"input": [1], "request_id": f"{workflow_id}-update"}
        answer = await self._control.send("update", f"/api/workflows/{workflow_id}/update/edit", body)
        if answer.status in (200, 202):
            self.ledger.updates.add(answer.body["update_id"])
        else:
            self.ledger.unexpected.append(f"update {answer.status} {answer.body}")

    async def stop(self) -> None:
        """End the workers; what they still hold is left to its lease."""
        for worker in self.workers:
            worker.is_over = True
        self.plane.is_over = self._control.is_over = True
        await asyncio.gather(*self._tasks)

    async def all_started(self) -> None:
        """Start no more; return when every workflow id and every signal has been answered for."""
        self.is_enough = True
        await asyncio.gather(*self._tasks[-2:])


class Faults:
    """What can go wrong, one method each; every fault has ended when its method returns, except what processes must
    recover from by themselves."""

    def __init__(self, cluster: Cluster, rng: random.Random, postgres: Proxy, redis: Proxy) -> None:
        self._cluster = cluster
        self._rng = rng
        self._postgres = postgres
        self._redis = redis

    def all(self) -> list[Callable[[], Awaitable[None]]]:
        """Every fault."""
        return [
            self.kill,
            self.restart,
            self.pause,
            self.cut_database,
            self.lose_commits,
            self.lose_database,
            self.lose_redis,
        ]

    async def kill(self) -> None:
        """A process dies and is started again."""
        process = self._rng.choice(self._cluster.processes)
        process.kill()
        process.start()

    async def restart(self) -> None:
        """A process is drained under load and started again."""
        process = self._rng.choice(self._cluster.processes)

        async def is_serving() -> bool:
            try:
                return (await exchange(process.port, "GET", "/livez", b"", {})).status == 200
            except Cut:
                return False

        await eventually(is_serving, f"{process.role} serves")
        process.send(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0, f"{process.role} did not end politely"
        process.start()

    async def pause(self) -> None:
        """A process stands still for longer than the leases it has granted."""
        process = self._rng.choice(self._cluster.of("standalone", "matching"))
        process.send(signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        until = loop.time() + 1.5 * LEASE_SECONDS

        async def has_passed() -> bool:
            return loop.time() > until

        await eventually(has_passed, "the leases have run out")
        process.send(signal.SIGCONT)

    async def cut_database(self) -> None:
        """Every connection to the database breaks."""
        self._postgres.cut()

    async def lose_commits(self) -> None:
        """Statements reach the database, their answers do not come back."""
        self._postgres.cut_answers(self._rng.randint(1, 5))

    async def lose_database(self) -> None:
        """The database is away for a while."""
        await self._lose(self._postgres)

    async def lose_redis(self) -> None:
        """Redis is away for a while."""
        await self._lose(self._redis)

    async def _lose(self, proxy: Proxy) -> None:
        proxy.is_refusing = True
        before = proxy.refused
        proxy.cut()

        async def was_noticed() -> bool:
            return proxy.refused > before + 2

        await eventually(was_noticed, "processes have tried to connect")
        proxy.is_refusing = False


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy before a store, and the store's URL through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    async with Proxy(parts.hostname, parts.port) as proxy:
        credentials = f"{parts.username or ''}:{parts.password or ''}@" if parts.password else ""
        yield proxy, urlunsplit(parts._replace(netloc=f"{credentials}127.0.0.1:{proxy.port}"))


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_fault_loses_or_doubles_a_step(
    shape: str, postgres_url: str, redis_url: str, tmp_path: Path, rng: random.Random
) -> None:
    with migrated_database(postgres_url) as database_url:
        async with proxied(database_url) as (postgres, seen_database), proxied(redis_url) as (redis, seen_redis):
            roles = SHAPES[shape]
            with Cluster(tmp_path, roles, database_url=seen_database, redis_url=seen_redis) as cluster:
                load = Load(cluster, rng, runs=RUNS, width=6, mischief=0.3)
                faults = Faults(cluster, rng, postgres, redis).all()
                rng.shuffle(faults)
                for fault in faults:
                    seen = load.progress

                    async def has_moved(seen: int = seen) -> bool:
                        return load.progress >= seen + EVENTS_BETWEEN_FAULTS

                    await eventually(has_moved, "work goes on after a fault", 60)
                    await fault()
                await load.all_started()

                async def all_closed() -> bool:
                    return await asyncio.to_thread(open_runs, database_url, QUEUE) == 0

                await eventually(all_closed, "every run ends once the faults are over", 60)
                await load.stop()
                assert check(database_url, QUEUE, load.ledger, complete=True) == RUNS_OF_A_WORKFLOW * load.started
                assert "never retrieved" not in cluster.logs()
                assert "Traceback" not in cluster.logs()
