"""Long polls: who may poll, for how long, and what a poll is given (worker-plane §7)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.contract.worker.client import QUEUE, WORKER, Client, schedule
from tests.harness.waiting import eventually
from tests.harness.worker_plane import ServedPlane, worker_plane

KINDS = ("workflow", "activity")
DRAIN = "INSERT INTO build_id_rollouts (namespace, task_queue, build_id, drain_intent) VALUES (%s, %s, %s, 'draining')"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_checks_of_a_poll_come_in_their_order(client: Client, served: ServedPlane, kind: str) -> None:
    await client.register("w-b", build_id="b-1")
    await served.execute(DRAIN, served.namespace, QUEUE, "b-1")
    wrong: dict[str, Any] = {"task_queue": "other", "build_id": "b-2"}

    unknown = await client.poll(kind, "nobody", **wrong)
    assert (unknown.status, unknown.json["reason"], unknown.json["worker_id"]) == (
        412,
        "worker_not_registered",
        "nobody",
    )
    queue = await client.poll(kind, "w-b", **wrong)
    assert (queue.status, queue.json["reason"]) == (409, "task_queue_mismatch")
    assert (queue.json["registered_task_queue"], queue.json["requested_task_queue"]) == (QUEUE, "other")
    build = await client.poll(kind, "w-b", build_id="b-2")
    assert (build.status, build.json["reason"]) == (409, "build_id_mismatch")
    assert (build.json["registered_build_id"], build.json["requested_build_id"]) == ("b-1", "b-2")
    drained = await client.poll(kind, "w-b")
    body = drained.json
    assert (drained.status, body["reason"], body["task"], body["poll_status"]) == (
        409,
        "worker_draining",
        None,
        "draining",
    )
    assert (body["worker_status"], body["drain_intent"], body["task_queue"]) == ("draining", "draining", QUEUE)
    assert body["registered_build_id"] == "b-1"
    for answer in (unknown, queue, build):
        assert (answer.json["task"], answer.json["poll_status"]) == (None, "unavailable")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_build_id_counts_only_where_both_sides_have_one(client: Client, kind: str) -> None:
    await client.register("w-b", build_id="b-1")
    for worker_id, build_id in ((WORKER, "b-1"), ("w-b", None), ("w-b", "")):
        assert (await client.poll(kind, worker_id, build_id=build_id, timeout_seconds=0)).status == 200


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seconds", [0, 0.9])
async def test_a_window_of_nothing_is_one_look(client: Client, kind: str, seconds: float) -> None:
    answer = await client.poll(kind, timeout_seconds=seconds)
    assert (answer.status, answer.json["task"], answer.json["poll_status"]) == (200, None, "empty")


async def test_one_look_finds_what_is_ready(client: Client) -> None:
    await client.start()
    assert (await client.take(timeout_seconds=0))["workflow_id"] == "w"


@pytest.mark.parametrize("seconds", [-1, -0.5, "10", True])
async def test_a_window_that_is_none_is_refused(client: Client, seconds: Any) -> None:
    answer = await client.poll(timeout_seconds=seconds)
    assert (answer.status, list(answer.json["errors"])) == (422, ["timeout_seconds"])
    assert (answer.json["task"], answer.json["poll_status"]) == (None, "unavailable")


@pytest.mark.parametrize("seconds", [None, 61, 1e9])
async def test_any_other_window_holds_the_poll_until_work_comes(
    client: Client, served: ServedPlane, seconds: float | None
) -> None:
    poll = asyncio.create_task(client.poll(timeout_seconds=seconds))
    await is_held(served, 1)
    await client.start()
    assert (await poll).json["task"]["workflow_id"] == "w"


async def test_a_held_poll_ends_empty_when_its_window_is_over(client: Client) -> None:
    began = time.monotonic()
    answer = await client.poll(timeout_seconds=1.7)
    assert (answer.status, answer.json["poll_status"]) == (200, "empty")
    assert time.monotonic() - began >= 1


async def test_a_workflow_poll_takes_the_types_it_lists_and_an_activity_poll_only_those(client: Client) -> None:
    await client.register("w-cat", supported_workflow_types=["cat"], supported_activity_types=[])
    await client.start()
    assert (await client.poll(worker_id="w-cat", timeout_seconds=0)).json["task"] is None
    task = await client.take()
    await client.complete(task, schedule())
    assert (await client.poll("activity", "w-cat", timeout_seconds=0)).json["task"] is None
    assert (await client.take("activity"))["activity_type"] == "charge"


async def test_a_pinned_run_goes_only_to_its_build(client: Client) -> None:
    await client.register("w-b", build_id="b-1")
    await client.start(build_id="b-1")
    assert (await client.poll(timeout_seconds=0)).json["task"] is None
    assert (await client.take(worker_id="w-b"))["compatibility"] == "b-1"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_repeated_poll_gets_the_same_lease_again(
    client: Client, served: ServedPlane, database_url: str, kind: str
) -> None:
    await client.start()
    if kind == "activity":
        await client.complete(await client.take(), schedule())
    first = await client.take(kind, poll_request_id="poll-1")
    before = await served.dump()
    async with worker_plane(database_url, served.namespace) as elsewhere:
        for again in (client, Client(elsewhere)):
            repeated = await again.take(kind, poll_request_id="poll-1")
            assert repeated == first
    assert await served.dump() == before
    other = await client.poll(kind, poll_request_id="poll-2", timeout_seconds=0)
    assert other.json["task"] is None


async def test_a_request_id_of_another_worker_or_queue_is_another_poll(client: Client) -> None:
    await client.register("w-2")
    await client.start()
    await client.take(poll_request_id="poll-1")
    answer = await client.poll(worker_id="w-2", poll_request_id="poll-1", timeout_seconds=0)
    assert answer.json["task"] is None


async def test_a_request_id_is_forgotten_when_its_task_ends(client: Client) -> None:
    await client.start()
    first = await client.take(poll_request_id="poll-1")
    await client.complete(first, schedule())
    activity = await client.take("activity")
    await client.report(activity, "complete")
    second = await client.take(poll_request_id="poll-1")
    assert second["task_id"] != first["task_id"]


async def test_a_repeat_of_a_held_poll_takes_its_place(client: Client, served: ServedPlane) -> None:
    old = asyncio.create_task(client.poll(poll_request_id="poll-1"))
    await is_held(served, 1)
    new = asyncio.create_task(client.poll(poll_request_id="poll-1"))
    assert (await old).json["poll_status"] == "empty"
    await client.start()
    assert (await new).json["task"]["workflow_id"] == "w"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_poll_whose_client_has_gone_takes_nothing(client: Client, served: ServedPlane, kind: str) -> None:
    if kind == "activity":
        await client.start("first")
        await client.complete(await client.take(), schedule())
        await client.report(await client.take("activity"), "complete")
    gone = asyncio.Event()
    body = {"worker_id": WORKER, "task_queue": QUEUE, "timeout_seconds": 30}
    poll = asyncio.create_task(client.send("POST", f"/{kind}-tasks/poll", body, hang_up=gone))
    await is_held(served, 1)
    gone.set()
    assert (await poll).json["poll_status"] == "empty"
    if kind == "workflow":
        await client.start("second")
    else:
        await client.complete(await client.take(), schedule())
    task = await client.take(kind)
    assert task["workflow_task_attempt" if kind == "workflow" else "attempt_number"] == 1


async def test_a_lease_granted_to_a_client_that_has_gone_is_given_back(client: Client, served: ServedPlane) -> None:
    """The claim is committing while the poll is left: its task must come back, as a later attempt, without a sweep."""
    broker = served.plane.broker
    broker_settle = broker.settle

    def leave_first(*arguments: Any, **named: Any) -> None:
        for want in arguments[0]:
            broker.leave(want.token)
        broker.settle = broker_settle  # type: ignore[method-assign]
        broker_settle(*arguments, **named)

    poll = asyncio.create_task(client.poll())
    await is_held(served, 1)
    broker.settle = leave_first  # type: ignore[method-assign]
    await client.start()
    assert (await poll).json["poll_status"] == "empty"
    assert (await client.take())["workflow_task_attempt"] == 2


async def test_draining_the_process_ends_held_polls_politely(client: Client, served: ServedPlane) -> None:
    polls = [asyncio.create_task(client.poll(kind, timeout_seconds=60)) for kind in KINDS for _ in range(3)]
    await is_held(served, 6)
    await served.plane.drain()
    for answer in await asyncio.gather(*polls):
        assert (answer.status, answer.json["task"], answer.json["poll_status"]) == (200, None, "empty")
    late = await client.poll(timeout_seconds=60)
    assert (late.status, late.json["poll_status"]) == (200, "empty")


async def test_draining_a_cohort_releases_its_held_polls(client: Client, served: ServedPlane) -> None:
    await client.register("w-b", build_id="b-1")
    drained = asyncio.create_task(client.poll(worker_id="w-b", timeout_seconds=60))
    kept = asyncio.create_task(client.poll(timeout_seconds=60))
    await is_held(served, 2)
    await served.execute(DRAIN, served.namespace, QUEUE, "b-1")
    answer = await drained
    assert (answer.status, answer.json["reason"], answer.json["poll_status"]) == (409, "worker_draining", "draining")
    assert not kept.done()
    await client.start()
    assert (await kept).json["poll_status"] == "leased"


async def test_a_poll_is_proof_of_life(client: Client, served: ServedPlane) -> None:
    await served.execute(
        "UPDATE worker_registrations SET last_heartbeat_at = dw_now() - interval '1 hour' WHERE namespace = %s",
        served.namespace,
    )
    poll = asyncio.create_task(client.poll(timeout_seconds=60))

    async def is_fresh() -> bool:
        ((seconds,),) = await served.execute(
            "SELECT extract(epoch FROM dw_now() - last_heartbeat_at) FROM worker_registrations WHERE namespace = %s",
            served.namespace,
        )
        return bool(seconds < 60)

    await eventually(is_fresh, "the registration has been refreshed")
    await client.start()
    assert (await poll).json["poll_status"] == "leased"


async def test_more_polls_than_a_process_may_hold_are_told_when_to_come_back(
    database_url: str, unique_namespace: str
) -> None:
    async with worker_plane(database_url, unique_namespace, {"DW_WORKER_LONG_POLL_MAX_CONCURRENT": "1"}) as served:
        client = Client(served)
        await client.register()
        held = asyncio.create_task(client.poll(timeout_seconds=60))
        await is_held(served, 1)
        answer = await client.poll()
        body = answer.json
        assert (answer.status, body["reason"], body["poll_status"]) == (429, *["long_poll_capacity_exhausted"] * 2)
        assert (body["task"], body["task_kind"], body["task_queue"]) == (None, "workflow_task", QUEUE)
        assert (body["namespace"], body["wait_pool"], body["retryable"]) == (served.namespace, "worker", True)
        assert answer.headers["retry-after"] == str(body["retry_after_seconds"]) == "1"
        await client.start()
        assert (await held).json["poll_status"] == "leased"


async def test_a_lost_wake_costs_a_second_and_no_more_than_that(
    client: Client, served: ServedPlane, database_url: str
) -> None:
    """Without Redis another process is not told of new work; the lookout finds it."""
    async with worker_plane(database_url, served.namespace) as elsewhere:
        poll = asyncio.create_task(Client(elsewhere).poll(timeout_seconds=60))
        await is_held(elsewhere, 1)
        await client.start()
        assert (await poll).json["task"]["workflow_id"] == "w"


async def is_held(served: ServedPlane, count: int) -> None:
    """Wait until the process holds this many polls, all of which have looked at their queue in vain."""

    async def holds() -> bool:
        queues = served.plane.broker.queues.values()
        seats = [seat for queue in queues for seat in queue.seats if seat.fit in queue.empty_for]
        return len(seats) == count and not any(seat.is_claiming for seat in seats)

    await eventually(holds, f"{count} polls are held")
