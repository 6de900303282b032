"""The upgrade that the guide promises, under load, between two builds: docs/how-to/upgrade.md."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from durable_workflow import Client, Worker, activity, workflow
from durable_workflow.workflow import WorkflowContext

from tests.harness.balancer import Balancer
from tests.harness.databases import temporary_database
from tests.harness.servers import TOKEN, Server
from tests.harness.waiting import eventually
from tests.roles.upgrade.builds import ROOT, Build, build, earlier_commit, export

FROM = earlier_commit()
ROLES = {"api-ingress": 2, "matching": 2, "scheduler": 1}
AT_ONCE = 4


@workflow.defn(name="drilled")
class Drilled:
    """Activities, a timer and a signal, so that each role has its part."""

    def __init__(self) -> None:
        self.is_told = False

    @workflow.signal("go")
    def go(self) -> None:
        self.is_told = True

    def run(self, ctx: WorkflowContext, number: int) -> Generator[Any, Any, int]:
        first = yield ctx.schedule_activity("drilled-step", [number, 1])
        yield ctx.sleep(1)
        yield ctx.wait_condition(lambda: self.is_told)
        rest = yield [ctx.schedule_activity("drilled-step", [number, step]) for step in (2, 3)]
        return int(first + sum(rest))


class Load:
    """Applications and a worker that never pause; any exception of a call of theirs ends the drill."""

    def __init__(self, control: Balancer, worker: Balancer) -> None:
        self.finished = 0
        self.ran: Counter[tuple[int, int]] = Counter()
        self._queue = f"q-{uuid.uuid4().hex[:12]}"
        self._urls = (control.url, worker.url)
        self._is_over = asyncio.Event()
        self._started = 0

    async def run(self) -> None:
        """Until :meth:`stop`."""

        @activity.defn(name="drilled-step")
        def step(number: int, which: int) -> int:
            self.ran[number, which] += 1
            return number

        control, plane = self._urls
        async with Client(control, token=TOKEN) as application, Client(plane, token=TOKEN) as serving:
            worker = Worker(serving, task_queue=self._queue, workflows=[Drilled], activities=[step])
            running = asyncio.create_task(worker.run())
            await asyncio.gather(*(self._apply(application) for _ in range(AT_ONCE)))
            await worker.stop()
            await running

    async def _apply(self, application: Client) -> None:
        while not self._is_over.is_set():
            number = self._started
            self._started += 1
            handle = await application.start_workflow(
                workflow_type="drilled", workflow_id=f"{self._queue}-{number}", task_queue=self._queue, input=[number]
            )
            await handle.signal("go")
            assert await handle.result(timeout=60) == 3 * number
            self.finished += 1

    def stop(self) -> None:
        """Start nothing more."""
        self._is_over.set()


class Drill:
    """The processes of both builds, and what leads to them."""

    def __init__(self, folder: Path, environ: dict[str, str], stack: AsyncExitStack) -> None:
        self._folder = folder
        self._environ = environ
        self._stack = stack
        self._begun = time.monotonic()
        self.control, self.worker = Balancer(), Balancer()
        self.running: dict[str, list[Server]] = {}

    def say(self, what: str) -> None:
        """Report how far the drill has come."""
        print(f"{time.monotonic() - self._begun:6.1f} s  {what}")

    async def start(self, role: str, of: Build) -> Server:
        """One more ready process of a role."""
        server = Server(role, self._folder, self._environ | of.environ)
        self._stack.callback(server.process.kill)
        await asyncio.to_thread(server.wait_until_ready)
        self._targets(role).append(server)
        return server

    def _targets(self, role: str) -> list[Server]:
        balancer = {"api-ingress": self.control, "matching": self.worker}.get(role)
        return self.running.setdefault(role, []) if balancer is None else balancer.targets

    async def replace(self, role: str, old: Server, new: Build) -> None:
        """As a cluster does it: the new one is ready before the old one loses its place and is told to end."""
        await self.start(role, new)
        self._targets(role).remove(old)
        old.terminate()
        assert await asyncio.to_thread(old.exit_code, 40) == 0, old.log
        self.say(f"{role}: one process replaced")


async def beside(load: asyncio.Task[None], step: Awaitable[None]) -> None:
    """Carry out a step; a failed call of the load ends it at once."""
    doing = asyncio.ensure_future(step)
    await asyncio.wait((load, doing), return_when=asyncio.FIRST_COMPLETED)
    if not doing.done():
        doing.cancel()
    if load.done():
        load.result()
    await doing


async def carry_out(drill: Drill, load: Load, old: Build, new: Build, environ: dict[str, str]) -> None:
    """Expand, roll and contract, with finished workflows before, between and after."""

    async def more(count: int, when: str) -> None:
        wanted = load.finished + count

        async def is_reached() -> bool:
            return load.finished >= wanted

        await eventually(is_reached, f"{count} more workflows {when}", 90)
        drill.say(f"{load.finished} workflows are done, {when}")

    await more(8, "old code on the old schema")
    await asyncio.to_thread(new.run, "migrate", "expand", **environ)
    drill.say("expanded")
    await more(8, "old code on the new schema")
    outgoing = {"api-ingress": [*drill.control.targets], "matching": [*drill.worker.targets], **drill.running}
    for role in ROLES:
        for server in list(outgoing[role]):
            await drill.replace(role, server, new)
    await more(8, "new code")
    await asyncio.to_thread(new.run, "migrate", "contract", **environ)
    drill.say("contracted")
    await more(8, "after the contract step")


@pytest.mark.skipif(FROM is None, reason="the history of git does not go back to the build before")
async def test_an_upgrade_under_load_fails_no_call_of_any_client(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    assert FROM is not None
    old, new = await asyncio.gather(
        asyncio.to_thread(lambda: build(export(FROM, tmp_path / "earlier"), tmp_path / "old")),
        asyncio.to_thread(build, ROOT, tmp_path / "new"),
    )
    for one in (old, new):
        assert all(path.startswith(str(one.folder)) for path in one.modules().split()), "each runs its own code"
    with temporary_database(postgres_url) as url:
        environ = {"DATABASE_URL": url, "REDIS_URL": redis_url, "DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution"}
        await asyncio.to_thread(old.run, "bootstrap", DW_AUTH_TOKEN=TOKEN, **environ)
        assert "pending" in await asyncio.to_thread(new.run, "migrate", "status", **environ), "the schema will change"
        async with AsyncExitStack() as stack:
            drill = Drill(tmp_path, environ, stack)
            await stack.enter_async_context(drill.control)
            await stack.enter_async_context(drill.worker)
            await asyncio.gather(*(drill.start(role, old) for role, count in ROLES.items() for _ in range(count)))
            drill.say(f"the build of {FROM[:12]} serves")
            load = Load(drill.control, drill.worker)
            running = asyncio.create_task(load.run())
            await beside(running, carry_out(drill, load, old, new, environ))
            load.stop()
            await running
            drill.say(f"{load.finished} workflows, no failed call")
    assert set(load.ran.values()) == {1}, "no activity ran twice"
    assert len(load.ran) == 3 * load.finished
