"""Postgres goes away under load and comes back; its connections run out; a process leaves in the middle of commits."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from dw_runtime.store.migrate import expand
from dw_standalone.embedded.postgres import EmbeddedPostgres
from tests.chaos.proxy import Proxy
from tests.harness.servers import TOKEN, Server, serving
from tests.harness.waiting import eventually
from tests.harness.wire import Wire, wired
from tests.roles.split.conftest import SHAPE, SHORT_LEASES, NewSplit

RECOVERY_SECONDS = 10
HELD = 100
COMMITS = 50
WORKFLOWS = 30


def postmaster(folder: Path) -> int:
    """The process id of the Postgres in ``folder``."""
    return int((folder / "cluster" / "postmaster.pid").read_text().split()[0])


class Outage:
    """A Postgres of its own behind a proxy, so that it has one address however often it is started.

    It is a durable one: with the fast settings of other tests it may forget what it has acknowledged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres = EmbeddedPostgres(folder)
        self._proxy: Proxy | None = None
        self.url = ""

    async def begin(self) -> None:
        """Start both, and make the schema."""
        parts = urlsplit(await asyncio.to_thread(self._postgres.start))
        assert parts.port is not None
        self._proxy = await Proxy("127.0.0.1", parts.port).__aenter__()
        credentials = f"{parts.username}:{parts.password}"
        self.url = urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{self._proxy.port}"))
        await expand(self.url)
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(
                "INSERT INTO workflow_namespaces (name, retention_days, created_at, updated_at) "
                "VALUES ('default', 30, now(), now())"
            )

    def kill(self) -> None:
        """End the server without a chance to clean up."""
        os.kill(postmaster(self._folder), signal.SIGKILL)

    async def start_again(self) -> None:
        """Start it on the same data; it accepts connections when this returns."""
        assert self._proxy is not None
        self._postgres = EmbeddedPostgres(self._folder)
        port = urlsplit(await asyncio.to_thread(self._postgres.start)).port
        assert port is not None
        self._proxy.target = ("127.0.0.1", port)

    async def end(self) -> None:
        """Stop both."""
        if self._proxy is not None:
            await self._proxy.__aexit__()
        await asyncio.to_thread(self._postgres.stop)


@asynccontextmanager
async def outage(folder: Path) -> AsyncIterator[Outage]:
    """A Postgres that can be taken away."""
    postgres = Outage(folder)
    try:
        await postgres.begin()
        yield postgres
    finally:
        await postgres.end()


@asynccontextmanager
async def running(folder: Path, environ: dict[str, str]) -> AsyncIterator[list[Server]]:
    """The three roles; the event loop, which carries the proxy, goes on while they start and stop."""
    roles = serving(folder, environ, "api-ingress", "matching", "scheduler")
    servers = await asyncio.to_thread(roles.__enter__)
    try:
        yield servers
    finally:
        await asyncio.to_thread(roles.__exit__, None, None, None)


@activity.defn(name="outlasting-step")
def step(number: int) -> int:
    return number + 1


def steps(begun: threading.Event) -> type:
    """A workflow of ten steps in turn that says when one of its kind has begun."""

    @workflow.defn(name="outlasting")
    class Outlasting:
        def run(self, ctx: WorkflowContext) -> Generator[Any, Any, Any]:
            number = 0
            for _ in range(10):
                number = yield ctx.schedule_activity("outlasting-step", [number])
                begun.set()
            return number

    return Outlasting


async def test_postgres_is_killed_under_load_and_everything_goes_on(tmp_path: Path, queue: str) -> None:
    begun = threading.Event()
    async with outage(tmp_path / "postgres") as postgres:
        environ = {"DATABASE_URL": postgres.url, **SHAPE, **SHORT_LEASES}
        async with running(tmp_path, environ) as servers:
            ingress, matching, _ = servers
            async with (
                Client(ingress.url, token=TOKEN) as application,
                Client(matching.url, token=TOKEN) as connection,
                wired(ingress.url) as wire,
            ):
                worker = Worker(connection, task_queue=queue, workflows=[steps(begun)], activities=[step])
                working = asyncio.create_task(worker.run())
                handles = [
                    await application.start_workflow(
                        workflow_type="outlasting", workflow_id=f"{queue}-{number}", task_queue=queue
                    )
                    for number in range(WORKFLOWS)
                ]
                assert await asyncio.to_thread(begun.wait, 30)
                postgres.kill()
                await eventually(partial(answers, wire, 503), "requests are refused")
                refused = await wire.control("GET", "/workflows")
                assert refused.json()["reason"] in ("backend_unavailable", "workflow_v2_blocked")
                assert int(refused.headers["retry-after"]) > 0
                assert (await asyncio.to_thread(ingress.get, "/livez"))[0] == 200
                await postgres.start_again()
                await eventually(partial(answers, wire, 200), "requests are served again", RECOVERY_SECONDS)
                for server in servers:
                    await eventually(partial(is_ready, server), f"{server.command} is ready", RECOVERY_SECONDS)
                results = [await application.get_result(one, poll_interval=0.1, timeout=60) for one in handles]
                await worker.stop()
                await working
                assert results == [10] * WORKFLOWS
                for handle in handles:
                    events = Counter(
                        e["event_type"] for e in await wire.events(handle.workflow_id, handle.run_id or "")
                    )
                    assert (events["ActivityCompleted"], events["WorkflowCompleted"]) == (10, 1)
            assert [server.process.poll() for server in servers] == [None] * 3, "no process has ended"


async def answers(wire: Wire, status: int) -> bool:
    """Whether a listing is answered with this status."""
    return (await wire.control("GET", "/workflows")).status_code == status


async def is_ready(server: Server) -> bool:
    """Whether the process says that it is ready."""
    return (await asyncio.to_thread(server.get, "/api/ready"))[0] == 200


async def test_requests_that_find_no_connection_are_told_to_come_again(new_split: NewSplit) -> None:
    with new_split(DW_DB_POOL_SIZE="2") as split:
        url = split.ingress.environ["DATABASE_URL"]
        async with wired(split.ingress.url) as wire:
            with psycopg.connect(url) as blocker:
                blocker.execute("LOCK TABLE workflow_run_summaries IN ACCESS EXCLUSIVE MODE")
                found = await asyncio.gather(*(wire.control("GET", "/workflows") for _ in range(20)))
            assert {answer.status_code for answer in found} == {503}
            assert {answer.json()["reason"] for answer in found} == {"backend_unavailable"}
            assert all(int(answer.headers["retry-after"]) > 0 for answer in found)
            await eventually(partial(answers, wire, 200), "requests are served again", RECOVERY_SECONDS)
        assert split.ingress.process.poll() is None


async def test_a_process_that_leaves_finishes_the_commits_it_has_begun(new_split: NewSplit, queue: str) -> None:
    """A hundred polls are held and fifty completions are on their way when the process is told to leave."""
    with new_split() as split:
        leaving, staying = split.matching
        async with wired(split.ingress.url) as application, wired(leaving.url) as wire:
            await wire.register("w", queue, supported_activity_types=["step"])
            runs = [await start(application, queue, f"{queue}-{number}") for number in range(COMMITS)]
            tasks = [await wire.poll("workflow", "w", queue) for _ in runs]
            body = {"worker_id": "w", "task_queue": f"{queue}-other", "timeout_seconds": 60}
            await wire.register("idle", f"{queue}-other")
            polls = [
                asyncio.create_task(wire.worker("POST", "/workflow-tasks/poll", body | {"worker_id": "idle"}))
                for _ in range(HELD)
            ]
            await eventually(partial(leaving.holds, HELD), "the polls are held")
            commits = [
                asyncio.create_task(wire.complete(task, {"type": "complete_workflow"}))
                for task in tasks
                if task is not None
            ]
            done, _ = await asyncio.wait(commits, return_when=asyncio.FIRST_COMPLETED)
            leaving.terminate()
            ended = await asyncio.gather(*commits, return_exceptions=True)
            held = await asyncio.wait_for(asyncio.gather(*polls), 10)
            assert await asyncio.to_thread(leaving.exit_code, 10) == 0, leaving.log
            assert done and len(commits) == COMMITS
            # A connection that was refused has carried no request; everything else has been answered.
            assert {type(one) for one in ended} <= {httpx.Response, httpx.ConnectError}
            answered = [one for one in ended if isinstance(one, httpx.Response)]
            assert [one.status_code for one in answered] == [200] * len(answered)
            assert [(one.status_code, one.json()["poll_status"]) for one in held] == [(200, "empty")] * HELD
            shown = [(await application.control("GET", f"/workflows/{one['workflow_id']}")).json() for one in runs]
            assert sum(run["status"] == "completed" for run in shown) == len(answered)
        with psycopg.connect(split.ingress.environ["DATABASE_URL"]) as connection:
            held_by = connection.execute("SELECT holder FROM service_leases").fetchall()
        assert not [holder for (holder,) in held_by if f":{leaving.process.pid}:" in holder]
        assert staying.process.poll() is None


async def start(application: Wire, queue: str, workflow_id: str) -> dict[str, Any]:
    """The answer to a start."""
    body = {"workflow_id": workflow_id, "workflow_type": "raw", "task_queue": queue}
    answer: dict[str, Any] = (await application.control("POST", "/workflows", body)).json()
    return answer
