"""Who is handed what first: priority, fair shares, caps on leases and dispatches (worker-plane §7.6, topology §5.8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.contract.worker.client import COMPLETE, QUEUE, WORKER, Client, schedule
from tests.harness.worker_plane import worker_plane

OVERRIDES = "DW_TASK_QUEUE_ADMISSION_OVERRIDES"


async def started(client: Client, *starts: dict[str, Any]) -> None:
    """One workflow per start, oldest first."""
    for number, fields in enumerate(starts):
        await client.start(f"{fields.get('fairness_key', 'none')}-{fields.get('priority', 5)}-{number}", **fields)


async def order(client: Client, count: int) -> list[str]:
    """What the next polls are given, one after the other, by the head of the workflow id."""
    return [(await client.take())["workflow_id"].rsplit("-", 1)[0] for _ in range(count)]


async def test_a_lower_number_goes_first_and_within_it_the_older(client: Client) -> None:
    await started(client, *({"priority": priority} for priority in (5, 9, 0, 5, 0, 3)))
    ids = [(await client.take())["workflow_id"] for _ in range(6)]
    assert ids == ["none-0-2", "none-0-4", "none-3-5", "none-5-0", "none-5-3", "none-9-1"]


async def test_activities_inherit_the_priority_and_the_share_of_their_run(client: Client) -> None:
    for workflow_id, priority in (("late", 7), ("early", 1)):
        await client.start(workflow_id, priority=priority, fairness_key="k")
        await client.complete(await client.take(), schedule())
    activities = [await client.take("activity") for _ in range(2)]
    assert [activity["workflow_id"] for activity in activities] == ["early", "late"]


async def test_a_share_that_comes_late_does_not_wait_for_the_backlog_of_another(client: Client) -> None:
    await started(client, *({"fairness_key": "a"} for _ in range(12)), *({"fairness_key": "b"} for _ in range(4)))
    assert await order(client, 8) == ["a-5", "b-5"] * 4
    assert await order(client, 8) == ["a-5"] * 8


async def test_weights_say_how_much_a_share_gets(client: Client) -> None:
    heavy, light = {"fairness_key": "h", "fairness_weight": 3}, {"fairness_key": "l"}
    await started(client, *[light] * 8, *[heavy] * 12)
    assert Counter(await order(client, 8)) == {"h-5": 6, "l-5": 2}


async def test_tasks_without_a_key_are_one_more_share(client: Client) -> None:
    await started(client, *[{"fairness_key": "a"}] * 6, *[{}] * 3)
    assert Counter(await order(client, 6)) == {"a-5": 3, "none-5": 3}


async def test_priority_comes_before_fairness(client: Client) -> None:
    await started(client, *[{"fairness_key": "a", "priority": 1}] * 3, *[{"fairness_key": "b", "priority": 2}] * 2)
    assert await order(client, 5) == ["a-1"] * 3 + ["b-2"] * 2


async def test_polls_that_wait_share_what_comes(client: Client) -> None:
    await client.start("first", fairness_key="a")
    assert (await client.take())["workflow_id"] == "first"
    polls = [asyncio.create_task(client.take()) for _ in range(6)]
    await asyncio.gather(*(client.start(f"{key}-{n}", fairness_key=key) for key in "ab" for n in range(3)))
    tasks = await asyncio.gather(*polls)
    assert Counter(task["workflow_id"][0] for task in tasks) == {"a": 3, "b": 3}


@asynccontextmanager
async def replicas(
    database_url: str, namespace: str, environ: dict[str, str] | None = None, *, count: int = 2
) -> AsyncIterator[list[Client]]:
    """Several worker planes on one database, without any signal between them."""
    async with AsyncExitStack() as stack:
        yield [
            Client(await stack.enter_async_context(worker_plane(database_url, namespace, environ)))
            for _ in range(count)
        ]


async def burst(clients: list[Client], polls: int, *, seconds: float = 0, kind: str = "workflow") -> Counter[str]:
    """The statuses of many polls at once, spread over the replicas."""
    answers = await asyncio.gather(
        *(clients[n % len(clients)].poll(kind, f"w-{n}", timeout_seconds=seconds) for n in range(polls))
    )
    return Counter(answer.json["poll_status"] for answer in answers)


async def register(client: Client, count: int, **fields: Any) -> None:
    for number in range(count):
        assert (await client.register(f"w-{number}", **fields)).status == 201


async def test_shares_hold_across_replicas(database_url: str, unique_namespace: str) -> None:
    async with replicas(database_url, unique_namespace) as clients:
        await register(clients[0], 8)
        await started(clients[0], *[{"fairness_key": "a"}] * 40, *[{"fairness_key": "b", "fairness_weight": 3}] * 40)
        seen: Counter[str] = Counter()
        for _ in range(4):
            polls = (clients[n % 2].poll(worker_id=f"w-{n}") for n in range(8))
            for answer in await asyncio.gather(*polls):
                seen[answer.json["task"]["workflow_id"][0]] += 1
            assert seen["b"] == 3 * seen["a"]


async def test_a_worker_is_not_given_more_than_it_takes_at_a_time(client: Client) -> None:
    await client.register("small", max_concurrent_workflow_tasks=2, max_concurrent_activity_tasks=1)
    await started(client, *[{}] * 4)
    tasks = [await client.take(worker_id="small") for _ in range(2)]
    answer = await client.poll(worker_id="small", timeout_seconds=0)
    assert (answer.status, answer.json["poll_status"], answer.json["task"]) == (200, "throttled", None)
    await client.complete(tasks[0], COMPLETE)
    assert (await client.take(worker_id="small"))["workflow_id"] == "none-5-2"
    assert (await client.take(worker_id=WORKER))["workflow_id"].startswith("none")


async def test_a_waiting_poll_is_served_when_its_worker_has_room_again(client: Client) -> None:
    await client.register("small", max_concurrent_workflow_tasks=1)
    await started(client, *[{}] * 2)
    task = await client.take(worker_id="small")
    held = asyncio.create_task(client.take(worker_id="small"))
    await client.complete(task, COMPLETE)
    assert (await held)["workflow_id"] == "none-5-1"


@pytest.mark.parametrize("kind", ["workflow", "activity"])
async def test_a_cap_on_the_leases_of_a_queue_holds_across_replicas(
    database_url: str, unique_namespace: str, kind: str
) -> None:
    cap = {f"DW_{kind.upper()}_TASK_MAX_ACTIVE_LEASES_PER_QUEUE": "3"}
    async with replicas(database_url, unique_namespace, cap) as clients:
        await register(clients[0], 8)
        await started(clients[0], *[{}] * (8 if kind == "workflow" else 1))
        if kind == "activity":
            await clients[0].complete(await clients[0].take(worker_id="w-0"), *[schedule() for _ in range(8)])
        assert await burst(clients, 8, kind=kind) == {"leased": 3, "throttled": 5}
        assert await burst(clients, 8, kind=kind) == {"throttled": 8}


async def test_a_cap_on_the_leases_of_a_namespace_spans_its_queues(database_url: str, unique_namespace: str) -> None:
    cap = {"DW_WORKFLOW_TASK_MAX_ACTIVE_LEASES_PER_NAMESPACE": "3"}
    async with replicas(database_url, unique_namespace, cap) as (client, other):
        await client.register("w-1")
        await client.register("w-2", task_queue="second")
        for number in range(4):
            await client.start(f"a-{number}")
            await client.start(f"b-{number}", task_queue="second")
        polls = [client.poll(worker_id="w-1", timeout_seconds=0) for _ in range(3)]
        polls += [other.poll(worker_id="w-2", task_queue="second", timeout_seconds=0) for _ in range(3)]
        statuses = Counter(answer.json["poll_status"] for answer in await asyncio.gather(*polls))
        assert statuses == {"leased": 3, "throttled": 3}


async def test_a_dispatch_budget_is_spent_once_whoever_dispatches(database_url: str, unique_namespace: str) -> None:
    budget = {"DW_WORKFLOW_TASK_MAX_DISPATCHES_PER_MINUTE": "4"}
    async with replicas(database_url, unique_namespace, budget) as clients:
        await register(clients[0], 8)
        await started(clients[0], *[{}] * 8)
        assert await burst(clients, 8) == {"leased": 4, "throttled": 4}
        counted = (
            await clients[0].served.execute(
                "SELECT sum(dispatched), min(scope) FROM task_dispatch_counters WHERE namespace = %s", unique_namespace
            )
        )[0]
        assert counted == (4, f"queue:{QUEUE}")
        await clients[0].served.execute(
            "UPDATE task_dispatch_counters SET minute = minute - interval '1 minute' WHERE namespace = %s",
            unique_namespace,
        )
        assert await burst(clients, 8) == {"leased": 4, "throttled": 4}


async def test_queues_of_a_budget_group_spend_one_budget(database_url: str, unique_namespace: str) -> None:
    caps = '{"workflow_tasks": {"budget_group": "g", "max_dispatches_per_minute_per_budget_group": 3}}'
    environ = {OVERRIDES: f'{{"{QUEUE}": {caps}, "second": {caps}}}'}
    async with replicas(database_url, unique_namespace, environ, count=1) as (client,):
        await client.register("w-1")
        await client.register("w-2", task_queue="second")
        for number in range(3):
            await client.start(f"a-{number}")
            await client.start(f"b-{number}", task_queue="second")
        polls = [client.poll(worker_id="w-1", timeout_seconds=0) for _ in range(2)]
        polls += [client.poll(worker_id="w-2", task_queue="second", timeout_seconds=0) for _ in range(2)]
        statuses = Counter(answer.json["poll_status"] for answer in await asyncio.gather(*polls))
        assert statuses == {"leased": 3, "throttled": 1}


async def test_a_throttled_poll_is_held_for_its_window_and_served_when_a_lease_ends(
    database_url: str, unique_namespace: str
) -> None:
    cap = {"DW_WORKFLOW_TASK_MAX_ACTIVE_LEASES_PER_QUEUE": "1"}
    async with replicas(database_url, unique_namespace, cap) as (client, other):
        await register(client, 2)
        await started(client, *[{}] * 2)
        task = await client.take(worker_id="w-0")
        held = asyncio.create_task(other.take(worker_id="w-1"))
        assert (await other.poll(worker_id="w-1", timeout_seconds=1)).json["poll_status"] == "throttled"
        assert not held.done()
        await client.complete(task, COMPLETE)
        assert (await held)["workflow_id"] == "none-5-1"
