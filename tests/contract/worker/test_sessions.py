"""Worker sessions: the verbs with their refusals, and who is given the activities of a session (worker-plane §15)."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.shell_client import Answer
from tests.contract.worker.client import COMPLETE, NULL, Client, schedule
from tests.harness.worker_plane import ServedPlane, worker_plane
from tests.unit.engine.commands import group

SESSION = {"session_id": "gpu/1"}


async def create(client: Client, worker_id: str = "w-1", **options: Any) -> Answer:
    return await client.post("/sessions", {"worker_id": worker_id, **SESSION, **options})


async def renew(client: Client, worker_id: str = "w-1", session_id: str = "gpu/1", **fields: Any) -> Answer:
    return await client.post(f"/sessions/{quote(session_id, safe='')}/heartbeat", {"worker_id": worker_id, **fields})


async def close(client: Client, worker_id: str = "w-1", session_id: str = "gpu/1") -> Answer:
    body = {"worker_id": worker_id, "reason": "worker_shutdown"}
    return await client.send("DELETE", f"/sessions/{quote(session_id, safe='')}", body)


async def age(served: ServedPlane, column: str) -> None:
    """Let a time of every session pass, and let the pass find that."""
    await served.execute(f"UPDATE worker_sessions SET {column} = dw_now() - interval '1 second' WHERE namespace = %s",
                         served.namespace)  # fmt: skip


async def schedule_in_session(client: Client, count: int = 1, workflow_id: str = "w", **options: Any) -> None:
    """Start a workflow that runs this many activities in the session at a time."""
    await client.start(workflow_id)
    session = SESSION | options
    one = schedule(worker_session=session)
    commands = [one] if count == 1 else [leaf | one for leaf in group(1, ["charge"] * count)]
    for command in commands:
        command.pop("queue", None)
    answer = await client.complete(await client.take(), *commands)
    assert answer.status == 200, answer.json


async def nothing(client: Client, worker_id: str) -> None:
    answer = await client.poll("activity", worker_id, timeout_seconds=0)
    # A queue is looked at in another way once activities of sessions have been seen on it.
    if answer.json["task"] is None:
        answer = await client.poll("activity", worker_id, timeout_seconds=0)
    assert answer.json["task"] is None, answer.json


@pytest.fixture(autouse=True)
async def workers(client: Client) -> None:
    for worker_id in ("w-1", "w-2"):
        await client.register(worker_id, capabilities=["gpu"], max_concurrent_worker_sessions=2)


async def test_a_session_is_created_reused_renewed_and_closed_and_each_verb_may_be_repeated(
    client: Client, served: ServedPlane
) -> None:
    created = await create(client, requirements=["gpu"], lease_seconds=60)
    body = created.json
    assert created.status == 201
    assert (body["admitted"], body["outcome"], body["status"], body["reason"]) == (True, "created", 201, None)
    session = body["session"]
    assert session["session_id"] == "gpu/1"
    assert session["namespace"] == served.namespace
    assert (session["status"], session["lease_owner"], session["failure_reason"]) == ("active", "w-1", None)
    assert (session["lease_seconds"], session["ttl_seconds"], session["max_concurrent_activities"]) == (60, 1800, 1)
    assert session["requirements"] == ["gpu"]
    assert (session["holder"]["worker_id"], session["holder"]["is_stale"]) == ("w-1", False)
    assert session["active_activity_count"] == 0
    again = await create(client, requirements=["gpu"])
    assert (again.status, again.json["outcome"]) == (200, "reused")
    assert again.json["session"]["created_at"] == session["created_at"]
    renewed = await renew(client, lease_seconds=90)
    assert (renewed.status, renewed.json["outcome"], renewed.json["admitted"]) == (200, "heartbeat_recorded", True)
    assert renewed.json["session"]["lease_expires_at"] > again.json["session"]["lease_expires_at"]
    for outcome in ("closed", "already_closed"):
        closed = await close(client)
        assert (closed.status, closed.json["outcome"], closed.json["session"]["status"]) == (200, outcome, "closed")
    refused = await create(client)
    assert (refused.status, refused.json["reason"], refused.json["admitted"]) == (409, "session_closed", False)
    assert (await renew(client)).json["reason"] == "session_closed"


@pytest.mark.parametrize(
    ("options", "reason", "status"),
    [
        ({"session_id": ""}, "invalid_worker_session", 422),
        ({"session_id": "x" * 256}, "invalid_worker_session", 422),
        ({"lease_seconds": 0}, "invalid_worker_session", 422),
        ({"ttl_seconds": 10**9}, "invalid_worker_session", 422),
        ({"requirements": ["a", "a"]}, "invalid_worker_session", 422),
        ({"create_if_missing": "yes"}, "invalid_worker_session", 422),
        ({"worker_id": "nobody"}, "worker_not_registered", 412),
        ({"queue": "other"}, "session_queue_mismatch", 409),
        ({"requirements": ["gpu", "tpu"]}, "session_requirements_not_met", 409),
        ({"create_if_missing": False}, "session_missing", 404),
    ],
)
async def test_a_session_that_cannot_be_had_is_refused_by_name_and_nothing_is_stored(
    client: Client, served: ServedPlane, options: dict[str, Any], reason: str, status: int
) -> None:
    refused = await create(client, **options)
    assert (refused.status, refused.json["reason"]) == (status, reason)
    assert (refused.json["admitted"], refused.json["status"]) == (False, status)
    if reason == "session_requirements_not_met":
        assert refused.json["missing_requirements"] == ["tpu"]
    assert await served.execute("SELECT 1 FROM worker_sessions WHERE namespace = %s", served.namespace) == []


async def test_a_worker_holds_no_more_sessions_than_it_says(client: Client) -> None:
    for number in (1, 2):
        assert (await create(client, session_id=f"s-{number}")).status == 201
    refused = (await create(client, session_id="s-3")).json
    assert (refused["reason"], refused["max_concurrent_worker_sessions"]) == ("worker_session_limit_exceeded", 2)
    await close(client, session_id="s-1")
    assert (await create(client, session_id="s-3")).status == 201


async def test_a_held_session_is_nobody_elses(client: Client) -> None:
    await create(client)
    assert (await create(client, "w-2")).json["reason"] == "session_owned_by_another_worker"
    assert (await renew(client, "w-2")).json["reason"] == "session_owner_mismatch"
    assert (await close(client, "w-2")).json["reason"] == "session_owner_mismatch"
    assert (await renew(client, session_id="other")).json["reason"] == "session_not_found"
    assert (await renew(client, "nobody")).json["reason"] == "worker_not_registered"


@pytest.mark.parametrize(
    ("column", "may_return", "status", "failure", "next_outcome"),
    [
        ("lease_expires_at", True, "expired", "lease_expired", "reacquired"),
        ("lease_expires_at", False, "failed", "lease_expired", "session_reacquire_disallowed"),
        ("ttl_expires_at", True, "closed", "ttl_expired", "session_closed"),
    ],
)
async def test_a_session_whose_time_runs_out_is_lost(
    client: Client,
    served: ServedPlane,
    column: str,
    may_return: bool,
    status: str,
    failure: str,
    next_outcome: str,
) -> None:
    await create(client, allow_reacquire_after_failure=may_return)
    await age(served, column)
    await served.plane.session_recovery.pass_once()
    stored = await served.execute(
        "SELECT status, failure_reason FROM worker_sessions WHERE namespace = %s", served.namespace
    )
    assert stored == [(status, failure)]
    body = (await create(client, "w-2")).json
    assert (body.get("outcome") or body["reason"]) == next_outcome
    reason = (await renew(client)).json["reason"]
    assert reason == ("session_owner_mismatch" if next_outcome == "reacquired" else
                      "session_closed" if column == "ttl_expires_at" else "session_not_active")  # fmt: skip


async def test_a_worker_that_leaves_orphans_its_sessions(client: Client, served: ServedPlane) -> None:
    await create(client)
    await client.send("DELETE", "/registrations/w-1")
    await served.plane.session_recovery.pass_once()
    body = (await create(client, "w-2")).json
    assert (body["outcome"], body["session"]["status"], body["session"]["lease_owner"]) == (
        "reacquired",
        "active",
        "w-2",
    )
    assert body["session"]["failure_reason"] is None


async def test_the_activities_of_a_session_go_to_its_holder_and_no_more_than_it_allows_at_a_time(
    client: Client, served: ServedPlane
) -> None:
    await schedule_in_session(client, 3, max_concurrent_activities=2, lease_seconds=60)
    first = await client.take("activity", "w-1")
    session = first["worker_session"]
    assert (session["session_id"], session["status"], session["lease_owner"]) == ("gpu/1", "active", "w-1")
    assert (session["lease_seconds"], session["ttl_seconds"]) == (60, 1800)
    assert session["lease_expires_at"] and session["ttl_expires_at"]
    await nothing(client, "w-2")
    second = await client.take("activity", "w-1")
    await nothing(client, "w-1")
    assert (await create(client)).json["session"]["active_activity_count"] == 2
    for task in (first, second):
        assert (await client.report(task, "complete", result=NULL)).status == 200
    await nothing(client, "w-2")
    third = await client.take("activity", "w-1")
    assert third["activity_execution_id"] not in (first["activity_execution_id"], second["activity_execution_id"])


async def test_a_held_poll_of_the_holder_is_woken_when_its_session_has_room_again(client: Client) -> None:
    await schedule_in_session(client, 2)
    first = await client.take("activity", "w-1")
    waiting = asyncio.create_task(client.take("activity", "w-1"))
    await client.report(first, "complete", result=NULL)
    assert (await asyncio.wait_for(waiting, 5))["worker_session"]["lease_owner"] == "w-1"


async def test_an_activity_waits_for_a_worker_with_what_its_session_requires(client: Client) -> None:
    await client.register("w-3", capabilities=[])
    await schedule_in_session(client, requirements=["gpu"])
    await nothing(client, "w-3")
    assert (await client.take("activity", "w-2"))["worker_session"]["lease_owner"] == "w-2"


async def test_a_full_worker_leaves_new_sessions_to_others_and_keeps_its_own_and_plain_activities(
    client: Client,
) -> None:
    for number in (1, 2):
        await create(client, session_id=f"s-{number}")
    await schedule_in_session(client)
    await client.start("plain")
    await client.complete(await client.take(), schedule())
    assert "worker_session" not in await client.take("activity", "w-1")
    await nothing(client, "w-1")
    assert (await client.take("activity", "w-2"))["worker_session"]["lease_owner"] == "w-2"


async def test_a_heartbeat_of_an_activity_renews_its_session(client: Client, served: ServedPlane) -> None:
    await schedule_in_session(client)
    activity = await client.take("activity", "w-1")
    body = (await client.report(activity, "heartbeat")).json
    assert body["worker_session"]["lease_expires_at"] > activity["worker_session"]["lease_expires_at"]
    stored = await create(client)
    assert stored.json["session"]["lease_expires_at"] >= body["worker_session"]["lease_expires_at"]
    status = (await client.report(activity, "status")).json
    assert (status["worker_session"]["status"], status["worker_session"]["lease_owner"]) == ("active", "w-1")


async def test_losing_a_session_leaves_the_attempt_its_lease_and_tells_its_worker(
    client: Client, served: ServedPlane
) -> None:
    await schedule_in_session(client, 2)
    lost = await client.take("activity", "w-1")
    await age(served, "lease_expires_at")
    other = await client.take("activity", "w-2")
    assert other["worker_session"]["lease_owner"] == "w-2"
    answer = await client.report(lost, "heartbeat")
    assert (answer.status, answer.json["reason"]) == (409, "session_owner_mismatch")
    assert answer.json["heartbeat_recorded"] is True
    assert answer.json["worker_session_renewal"]["admitted"] is False
    assert (await client.report(lost, "complete", result=NULL)).status == 200
    assert (await client.report(other, "complete", result=NULL)).status == 200
    task = await client.take()
    assert (await client.complete(task, COMPLETE)).status == 200


async def test_a_retry_stays_in_its_session(client: Client) -> None:
    await client.start()
    policy = {"max_attempts": 2, "backoff_seconds": [0]}
    await client.complete(await client.take(), schedule(worker_session=SESSION, retry_policy=policy))
    first = await client.take("activity", "w-1")
    await client.report(first, "fail", failure={"message": "Not yet.", "type": "Busy"})
    await nothing(client, "w-2")
    assert (await client.take("activity", "w-1"))["attempt_number"] == 2


async def test_a_repeated_poll_is_given_its_lease_with_the_session(client: Client) -> None:
    await schedule_in_session(client)
    first = await client.take("activity", "w-1", poll_request_id="p-1")
    again = await client.take("activity", "w-1", poll_request_id="p-1")
    assert again["task_id"] == first["task_id"]
    assert again["worker_session"] == first["worker_session"]


async def test_the_queue_of_a_session_is_the_queue_of_its_activities(client: Client) -> None:
    await client.start()
    task = await client.take()
    refused = await client.complete(task, schedule(queue="a", worker_session=SESSION | {"queue": "b"}))
    assert (refused.status, list(refused.json["errors"])) == (422, ["commands.0.worker_session.queue"])
    refused = await client.complete(task, schedule(worker_session={"session_id": 7}))
    assert list(refused.json["errors"]) == ["commands.0.worker_session.session_id"]
    await client.complete(task, schedule(worker_session=SESSION | {"queue": "elsewhere"}))
    await client.register("w-4", task_queue="elsewhere")
    assert (await client.take("activity", "w-4", task_queue="elsewhere"))["task_queue"] == "elsewhere"


async def test_two_processes_never_split_a_session_between_them(
    client: Client, served: ServedPlane, database_url: str
) -> None:
    await client.start()
    activities = [schedule(worker_session={"session_id": f"s-{number % 8}"}) for number in range(24)]
    commands = [leaf | one for leaf, one in zip(group(1, ["charge"] * 24), activities, strict=True)]
    for command in commands:
        command.pop("queue", None)
    assert (await client.complete(await client.take(), *commands)).status == 200
    for worker_id in ("w-1", "w-2"):
        await client.register(worker_id, max_concurrent_worker_sessions=8)
    owners: dict[str, set[str]] = {}
    running: set[str] = set()
    done: list[str] = []

    async def work(at: Client, worker_id: str) -> None:
        while len(done) < len(commands):
            task = (await at.poll("activity", worker_id, timeout_seconds=0)).json["task"]
            if task is None:
                continue
            session_id = task["worker_session"]["session_id"]
            assert session_id not in running, "one activity of a session at a time"
            running.add(session_id)
            owners.setdefault(session_id, set()).add(worker_id)
            await asyncio.sleep(0)
            running.remove(session_id)
            assert (await at.report(task, "complete", result=NULL)).status == 200
            done.append(task["activity_execution_id"])

    async with worker_plane(database_url, served.namespace) as other:
        elsewhere = Client(other)
        await asyncio.wait_for(
            asyncio.gather(*(work(at, worker) for at in (client, elsewhere) for worker in ("w-1", "w-2"))), 60
        )
    assert len(set(done)) == len(commands)
    assert len(owners) == 8
    assert all(len(holders) == 1 for holders in owners.values()), owners
