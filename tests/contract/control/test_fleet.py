"""Workers, sessions and task queues as operators see them; promoting and draining builds decides where starts go."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from tests.contract.worker.client import COMPLETE, QUEUE, WORKER, Client
from tests.harness.waiting import eventually
from tests.harness.worker_plane import ServedPlane, worker_plane

BUILDS = f"/task-queues/{QUEUE}/build-ids"


async def read(client: Client, path: str) -> dict[str, Any]:
    answer = await client.control("GET", path)
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def silence(served: ServedPlane, worker_id: str) -> None:
    """Make a worker one that has been silent for an hour."""
    await served.execute(
        "UPDATE worker_registrations SET last_heartbeat_at = last_heartbeat_at - interval '1 hour'"
        " WHERE namespace = %s AND worker_id = %s",
        served.namespace,
        worker_id,
    )


async def test_workers_are_listed_by_status_described_and_removed(client: Client, served: ServedPlane) -> None:
    await client.register("old", build_id="b-1", max_concurrent_workflow_tasks=3)
    await client.register("silent")
    await client.register("new", build_id="b-2")
    await client.control("POST", f"{BUILDS}/drain", {"build_id": "b-1"})
    await silence(served, "silent")
    listed = await read(client, "/workers")
    assert (listed["namespace"], listed["stale_after_seconds"]) == (served.namespace, 125)
    assert {worker["worker_id"]: worker["status"] for worker in listed["workers"]} == {
        "new": "active",
        "old": "draining",
        "silent": "stale",
    }
    stale = await read(client, f"/workers?status=stale&task_queue={QUEUE}")
    assert [worker["worker_id"] for worker in stale["workers"]] == ["silent"]
    one = await read(client, "/workers/old")
    assert (one["build_id"], one["max_concurrent_workflow_tasks"], one["task_slots"]) == ("b-1", 3, {})
    assert one["updated_at"] == one["last_heartbeat_at"]
    removed = [await client.control("DELETE", "/workers/old") for _ in range(2)]
    assert removed[0].json == {"worker_id": "old", "outcome": "deregistered"}
    assert (removed[1].status, removed[1].json["reason"]) == (404, "worker_not_found")
    assert (await client.control("GET", "/workers/old")).json["reason"] == "worker_not_found"
    assert (await client.control("GET", "/workers?status=asleep")).status == 422


async def test_a_queue_shows_what_waits_and_who_holds_what(client: Client) -> None:
    await client.register(max_concurrent_workflow_tasks=2)
    for number in range(3):
        await client.start(f"w-{number}")
    taken = await client.take()
    queue = await read(client, f"/task-queues/{QUEUE}")
    stats, admission = queue["stats"], queue["admission"]["workflow_tasks"]
    assert (stats["approximate_backlog_count"], stats["pollers"]) == (2, {"active_count": 1, "stale_count": 0})
    assert stats["workflow_tasks"] == {"ready_count": 2, "leased_count": 1, "expired_lease_count": 0}
    assert (admission["status"], admission["configured_slot_count"], admission["available_slot_count"]) == (
        "accepting",
        2,
        1,
    )
    assert admission["server_max_active_leases_per_queue"] is None
    assert [poller["worker_id"] for poller in queue["pollers"]] == [WORKER]
    (lease,) = queue["current_leases"]
    assert (lease["task_id"], lease["lease_owner"], lease["task_type"]) == (taken["task_id"], WORKER, "workflow")
    await client.take()
    assert (await read(client, f"/task-queues/{QUEUE}"))["admission"]["workflow_tasks"]["status"] == "saturated"


async def test_an_unknown_queue_has_nothing(client: Client) -> None:
    queue = await read(client, "/task-queues/nowhere")
    assert queue["stats"]["approximate_backlog_count"] == 0
    assert (queue["pollers"], queue["current_leases"]) == ([], [])
    assert queue["admission"]["activity_tasks"]["status"] == "no_active_workers"
    assert queue["admission"]["query_tasks"]["status"] == "accepting"


async def test_queues_are_listed_by_name_wherever_they_are_known_from(client: Client) -> None:
    await client.register()
    await client.start("w-1", task_queue="a-waiting")
    await client.control("POST", "/task-queues/z-drained/build-ids/drain", {"build_id": None})
    listed = await read(client, "/task-queues")
    assert [queue["name"] for queue in listed["task_queues"]] == sorted(["a-waiting", QUEUE, "z-drained"])
    page = await read(client, "/task-queues?page_size=2")
    rest = await read(client, f"/task-queues?page_size=2&next_page_token={page['next_page_token']}")
    names = [queue["name"] for queue in (*page["task_queues"], *rest["task_queues"])]
    assert (names, rest["next_page_token"]) == (sorted(["a-waiting", QUEUE, "z-drained"]), None)


async def test_the_caps_of_a_queue_show_when_they_hold_it_back(database_url: str, unique_namespace: str) -> None:
    environ = {
        "DW_TASK_QUEUE_ADMISSION_OVERRIDES": (
            f'{{"{QUEUE}": {{"workflow_tasks": {{"max_active_leases": 1, "max_dispatches_per_minute": 10}}}}}}'
        )
    }
    async with worker_plane(database_url, unique_namespace, environ) as served:
        client = Client(served)
        await client.register()
        await client.start()
        before = (await read(client, f"/task-queues/{QUEUE}"))["admission"]["workflow_tasks"]
        assert (before["status"], before["server_remaining_active_lease_capacity"]) == ("accepting", 1)
        await client.take()
        after = (await read(client, f"/task-queues/{QUEUE}"))["admission"]["workflow_tasks"]
        assert (after["status"], after["server_remaining_active_lease_capacity"]) == ("throttled", 0)
        assert after["server_budget_source"] == "server_configuration"
        assert (after["server_dispatch_count_this_minute"], after["server_remaining_dispatch_capacity"]) == (1, 9)


async def test_priorities_and_shares_show_what_waits_in_each(client: Client) -> None:
    await client.register()
    for number, key in enumerate(("a", "a", "b")):
        await client.start(f"w-{number}", priority=number, fairness_key=key, fairness_weight=2)
    await client.take()
    shown = await read(client, f"/task-queues/{QUEUE}/priority-fairness")
    assert [(row["priority"], row["ready_count"]) for row in shown["priorities"]] == [(1, 1), (2, 1)]
    (share,) = shown["fairness"]
    assert (share["fairness_key"], share["priority"], share["task_type"]) == ("a", 0, "workflow")


async def test_sessions_are_listed_and_described(client: Client) -> None:
    await client.register(capabilities=["worker_sessions"], max_concurrent_worker_sessions=2)
    made = await client.post("/sessions", {"worker_id": WORKER, "session_id": "s-1"})
    assert made.status in (200, 201), made.json
    every = await read(client, "/worker-sessions")
    (listed,) = every["sessions"]
    assert every["metrics"] == {"total": 1, "active": 1, "closed": 0, "expired": 0, "failed": 0, "orphaned": 0}
    one = (await read(client, "/worker-sessions/s-1"))["session"]
    assert (one["session_id"], one["lease_owner"], one["holder"]["worker_id"]) == ("s-1", WORKER, WORKER)
    assert listed == one
    assert (await client.control("GET", "/worker-sessions/none")).json["reason"] == "session_not_found"


async def test_a_promoted_build_gets_the_new_runs_that_name_none(client: Client) -> None:
    for build in ("b-1", "b-2"):
        await client.register(f"worker-{build}", build_id=build)
    promoted = [(await client.control("POST", f"{BUILDS}/promote", {"build_id": "b-1"})).json for _ in range(2)]
    assert promoted[0] == promoted[1]
    assert (promoted[0]["new_start_selected"], promoted[0]["rolled_back_at"]) == (True, None)
    await client.start("pinned")
    assert (await client.take(worker_id="worker-b-1"))["workflow_id"] == "pinned"
    await client.control("POST", f"{BUILDS}/promote", {"build_id": "b-2"})
    former, current = sorted((await read(client, BUILDS))["build_ids"], key=lambda cohort: cohort["build_id"])
    assert (former["new_start_selected"], former["rolled_back_at"] is not None) == (False, True)
    assert (current["new_start_selected"], current["promoted_at"] is not None) == (True, True)
    await client.start("own", build_id="b-1")
    assert (await client.take(worker_id="worker-b-1"))["workflow_id"] == "own"
    entries = (await read(client, "/system/audit?command=build_id_promote"))["entries"]
    assert [entry["after"]["build_id"] for entry in entries] == ["b-2", "b-1", "b-1", "b-1"]


async def test_what_cannot_run_is_not_promoted(client: Client, served: ServedPlane) -> None:
    await client.register("silent", build_id="silent")
    await silence(served, "silent")
    await client.register("drained", build_id="drained")
    await client.control("POST", f"{BUILDS}/drain", {"build_id": "drained"})
    marks = {"supported_workflow_types": ["order"]}
    for name in ("one", "two"):
        fingerprints = {"order": f"sha256:{name}"}
        await client.register(name, build_id="mixed", workflow_definition_fingerprints=fingerprints, **marks)
    for build, reason in (
        ("unknown", "unknown_deployment"),
        ("silent", "missing_worker_heartbeat"),
        ("drained", "fleet_is_draining"),
        ("mixed", "fingerprint_mismatch"),
    ):
        answer = await client.control("POST", f"{BUILDS}/promote", {"build_id": build})
        body = answer.json
        assert (answer.status, body["reason"], body["outcome"]) == (409, reason, f"rejected_{reason}")
        assert body["blockages"][0]["reason"] == reason
    assert not any(cohort["new_start_selected"] for cohort in (await read(client, BUILDS))["build_ids"])


async def test_a_build_that_is_being_drained_is_not_promoted(
    client: Client, served: ServedPlane, database_url: str
) -> None:
    await client.register("worker", build_id="b-1")
    name = f"builds/{served.namespace}/{QUEUE}"
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
        promoting = asyncio.create_task(client.control("POST", f"{BUILDS}/promote", {"build_id": "b-1"}))

        async def is_waiting() -> bool:
            cursor = await other.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted LIMIT 1")
            return bool(await cursor.fetchall())

        await eventually(is_waiting, "the promotion waits for who drains")
        await other.execute(
            "INSERT INTO build_id_rollouts (namespace, task_queue, build_id, drain_intent, drained_at)"
            " VALUES (%s, %s, 'b-1', 'draining', now())",
            [served.namespace, QUEUE],
        )
    answer = await promoting
    assert (answer.status, answer.json["reason"]) == (409, "fleet_is_draining")


async def test_a_start_that_only_drained_workers_could_take_is_refused(client: Client) -> None:
    await client.register("old", build_id="b-1")
    await client.control("POST", f"{BUILDS}/drain", {"build_id": "b-1"})
    body = {"workflow_id": "w", "workflow_type": "order", "task_queue": QUEUE}
    refused = await client.control("POST", "/workflows", body)
    assert (refused.status, refused.json["reason"]) == (409, "task_queue_draining")
    assert (refused.json["draining_worker_count"], refused.json["draining_build_ids"]) == (1, ["b-1"])
    assert (await client.control("GET", "/workflows/w")).status == 404, "nothing was started"
    await client.register("new", build_id="b-2")
    await client.start()
    pinned = await client.control("POST", "/workflows", body | {"workflow_id": "p", "build_id": "b-1"})
    assert pinned.json["reason"] == "task_queue_draining"
    task = await client.take(worker_id="new")
    assert (await client.complete(task, COMPLETE)).status == 200
