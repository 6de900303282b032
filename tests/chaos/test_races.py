"""Requests that race through several processes: one of them wins, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.chaos.checker import check, leased_tasks
from tests.chaos.client import HEADERS, PAYLOAD, Answer, Cut, Json, exchange
from tests.chaos.cluster import Cluster, Process
from tests.chaos.workers import WORKFLOW_TYPE, Ledger, schedule
from tests.harness.databases import migrated_database
from tests.harness.waiting import eventually

LONG_LEASES = {"DW_WORKFLOW_TASK_TIMEOUT": "300", "DW_ACTIVITY_TASK_TIMEOUT": "300"}


class Site:
    """Two control planes and two worker planes on one database."""

    def __init__(self, cluster: Cluster, database_url: str) -> None:
        self.database_url = database_url
        self.control = cluster.of("api-ingress")
        self.matching = cluster.of("matching")

    async def post(self, process: Process, path: str, body: Json) -> Answer:
        """One request."""
        return await exchange(process.port, "POST", path, body, HEADERS)

    async def start(self, process: Process, workflow_id: str, queue: str, **more: Any) -> Answer:
        """Start a workflow."""
        body = {"workflow_id": workflow_id, "workflow_type": WORKFLOW_TYPE, "task_queue": queue} | more
        return await self.post(process, "/api/workflows", body)

    async def register(self, name: str, queue: str) -> None:
        """Register a worker of the queue."""
        body = {
            "worker_id": name,
            "task_queue": queue,
            "runtime": "python",
            "supported_workflow_types": [WORKFLOW_TYPE],
            "max_concurrent_workflow_tasks": 1000,
            "supported_activity_types": ["chaos.activity"],
        }
        assert (await self.post(self.matching[0], "/api/worker/register", body)).status == 201

    async def poll(self, process: Process, name: str, queue: str, seconds: int = 30, **more: Any) -> Answer:
        """Hold a workflow poll."""
        body = {"worker_id": name, "task_queue": queue, "timeout_seconds": seconds} | more
        return await self.post(process, "/api/worker/workflow-tasks/poll", body)

    async def complete(self, process: Process, task: Json, *commands: Json) -> Answer:
        """Complete a workflow task."""
        body = {
            "lease_owner": task["lease_owner"],
            "workflow_task_attempt": task["workflow_task_attempt"],
            "commands": list(commands),
        }
        return await self.post(process, f"/api/worker/workflow-tasks/{task['task_id']}/complete", body)

    async def ready(self) -> None:
        """Return when every process is."""

        async def is_ready(process: Process) -> bool:
            try:
                return (await exchange(process.port, "GET", "/api/ready", b"", HEADERS)).status == 200
            except Cut:
                return False

        for process in [*self.control, *self.matching]:
            await eventually(partial(is_ready, process), f"{process.role} is ready", 30)


@pytest.fixture(scope="module")
def site(postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The processes, ready to serve, shared by the tests of this module."""
    roles = ("api-ingress", "api-ingress", "matching", "matching")
    folder = tmp_path_factory.mktemp("site")
    with (
        migrated_database(postgres_url) as database_url,
        Cluster(folder, roles, database_url=database_url, redis_url=redis_url, environ=LONG_LEASES) as cluster,
    ):
        site = Site(cluster, database_url)
        asyncio.run(site.ready())
        yield site
        assert "Traceback" not in cluster.logs()
        assert "never retrieved" not in cluster.logs()


@pytest.mark.parametrize(("policy", "status"), [("fail", 409), ("use-existing", 200)])
async def test_starts_of_one_workflow_id_make_one_run(site: Site, policy: str, status: int) -> None:
    for number in range(10):
        workflow_id = f"{policy}-{number}"
        answers = await asyncio.gather(
            *(
                site.start(site.control[turn % 2], workflow_id, f"starts-{policy}", duplicate_policy=policy)
                for turn in range(8)
            )
        )
        assert Counter(answer.status for answer in answers) == {201: 1, status: 7}
        assert len({answer.body["run_id"] for answer in answers}) == 1
    assert check(site.database_url, f"starts-{policy}", Ledger(), complete=False) == 10


async def test_two_worker_planes_hand_out_every_task_once(site: Site) -> None:
    queue, count = "claims", 300
    await site.register("claimer", queue)
    for first in range(0, count, 50):
        await asyncio.gather(*(site.start(site.control[n % 2], f"claims-{n}", queue) for n in range(first, first + 50)))
    taken: Counter[str] = Counter()

    async def take(process: Process) -> None:
        while (task := (await site.poll(process, "claimer", queue, seconds=0)).body["task"]) is not None:
            taken[task["task_id"]] += 1

    await asyncio.gather(*(take(site.matching[turn % 2]) for turn in range(16)))
    assert (len(taken), max(taken.values())) == (count, 1)


async def test_a_completion_and_a_terminate_do_not_both_win(site: Site, rng: random.Random) -> None:
    queue, count = "terminates", 20
    await site.register("finisher", queue)
    for number in range(count):
        await site.start(site.control[0], f"terminates-{number}", queue)
    for _ in range(count):
        task = (await site.poll(site.matching[0], "finisher", queue)).body["task"]
        terminate = site.post(rng.choice(site.control), f"/api/workflows/{task['workflow_id']}/terminate", {})
        command = rng.choice([{"type": "complete_workflow", "result": PAYLOAD}, schedule()])
        both = [site.complete(site.matching[1], task, command), terminate]
        rng.shuffle(both)
        await asyncio.gather(*both)
    assert check(site.database_url, queue, Ledger(), complete=False) == count


async def test_a_deregistered_worker_is_given_nothing_more(site: Site) -> None:
    queue = "leavers"
    await site.register("leaver", queue)
    polls = [asyncio.create_task(site.poll(process, "leaver", queue, seconds=60)) for process in site.matching]

    async def are_held() -> bool:
        metrics = [await exchange_text(process, "/metrics") for process in site.matching]
        return all('dw_poll_waiters{kind="workflow_task"} 1.0' in text for text in metrics)

    await eventually(are_held, "both polls are held")
    answer = await exchange(site.matching[0].port, "DELETE", "/api/worker/registrations/leaver", b"", HEADERS)
    assert answer.status == 200
    ended = await asyncio.wait_for(asyncio.gather(*polls), 15)
    assert [poll.body["task"] for poll in ended] == [None, None]
    await site.start(site.control[0], "leavers-1", queue)
    again = await asyncio.gather(*(site.poll(process, "leaver", queue, seconds=1) for process in site.matching))
    assert [poll.body["reason"] for poll in again] == ["worker_not_registered"] * 2
    assert leased_tasks(site.database_url, queue) == {}


async def exchange_text(process: Process, path: str) -> str:
    """The body of a GET as text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read()).decode()
    finally:
        writer.transport.abort()


async def test_a_drain_keeps_no_task_that_nobody_was_given(site: Site) -> None:
    queue = "drains"
    await site.register("stayer", queue)
    process = site.matching[1]
    given: set[str] = set()

    async def work(number: int) -> None:
        turn = 0
        while process.is_running:
            turn += 1
            try:
                answer = await site.poll(process, "stayer", queue, poll_request_id=f"{number}-{turn}")
            except Cut:
                return
            if answer.status == 200 and answer.body["task"] is not None:
                given.add(answer.body["task"]["task_id"])

    workers = [asyncio.create_task(work(number)) for number in range(20)]
    starts = [asyncio.create_task(site.start(site.control[n % 2], f"drains-{n}", queue)) for n in range(200)]
    await asyncio.wait(starts, return_when=asyncio.FIRST_COMPLETED)
    process.send(signal.SIGTERM)
    await asyncio.gather(*starts)
    assert await asyncio.to_thread(process.wait) == 0
    await asyncio.gather(*workers)
    assert set(leased_tasks(site.database_url, queue)) == given
    process.start()
    await site.ready()


async def test_workers_may_choose_the_same_request_ids(site: Site) -> None:
    queue = "same-ids"
    first: dict[str, str] = {}
    for number in range(12):
        name = f"same-{number}"
        await site.register(name, queue)
        await site.start(site.control[0], f"same-ids-{number}", queue)
        task = (await site.poll(site.matching[0], name, queue, poll_request_id="1")).body["task"]
        first[name] = task["task_id"]
    assert len(set(first.values())) == 12
    for process in site.matching:
        again = await asyncio.gather(
            *(site.poll(process, name, queue, seconds=5, poll_request_id="1") for name in first)
        )
        assert [answer.body["task"]["task_id"] for answer in again] == list(first.values())
