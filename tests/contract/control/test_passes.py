"""Repair and activity timeouts by hand (control-plane §22)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.worker.client import QUEUE, Client
from tests.harness.worker_plane import ServedPlane

TIMEOUTS = "/system/activity-timeouts"


@pytest.fixture
async def client(served: ServedPlane) -> Client:
    """A client with a registered worker."""
    client = Client(served)
    await client.register()
    return client


async def overdue(client: Client, served: ServedPlane, workflow_id: str, **fields: Any) -> str:
    """A running activity whose ``start_to_close`` has passed; its execution id."""
    activity = await client.running_activity(workflow_id, start_to_close_timeout=600, **fields)
    await served.execute(
        "UPDATE workflow_tasks SET start_to_close_at = dw_now() - interval '1 second',"
        " sweep_at = dw_now() - interval '1 second' WHERE run_id = %s AND kind = 1",
        activity["run_id"],
    )
    execution_id: str = activity["activity_execution_id"]
    return execution_id


async def test_expired_activities_are_shown_and_ended_once(client: Client, served: ServedPlane) -> None:
    last = await overdue(client, served, "last")
    again = await overdue(client, served, "again", retry_policy={"max_attempts": 2, "backoff_seconds": [5]})
    shown = (await client.control("GET", TIMEOUTS)).json
    assert (shown["expired_count"], shown["scan_limit"], shown["scan_pressure"]) == (2, 100, False)
    assert set(shown["expired_execution_ids"]) == {last, again}
    assert (await client.control("GET", f"{TIMEOUTS}?limit=1")).json["scan_pressure"] is True
    done = await client.control("POST", f"{TIMEOUTS}/pass", {})
    body = done.json
    assert (done.status, body["processed"], body["enforced"], body["failed"]) == (200, 2, 2, 0)
    retried = {result["execution_id"]: result["has_retry"] for result in body["results"]}
    assert retried == {last: False, again: True}
    assert (await client.control("POST", f"{TIMEOUTS}/pass", {})).json["processed"] == 0
    run_id = last.partition(".")[0]
    assert (await client.events("last", run_id)).count("ActivityTimedOut") == 1


async def test_named_activities_are_skipped_with_a_reason(client: Client, served: ServedPlane) -> None:
    running = (await client.running_activity("running"))["activity_execution_id"]
    expired = await overdue(client, served, "expired")
    closed = await client.running_activity("closed")
    await client.control("POST", "/workflows/closed/terminate", {})
    asked = [running, expired, closed["activity_execution_id"], "nothing", f"{'0' * 26}.a1", running]
    body = (await client.control("POST", f"{TIMEOUTS}/pass", {"execution_ids": asked})).json
    assert {result["execution_id"]: (result["outcome"], result["reason"]) for result in body["results"]} == {
        running: ("skipped", "no_deadline_expired"),
        expired: ("enforced", None),
        closed["activity_execution_id"]: ("skipped", "execution_already_terminal"),
        "nothing": ("skipped", "execution_not_found"),
        f"{'0' * 26}.a1": ("skipped", "execution_not_found"),
    }
    assert (body["processed"], body["enforced"], body["skipped"], body["failed"]) == (5, 1, 4, 0)


async def test_activities_of_other_namespaces_are_out_of_reach(
    client: Client, served: ServedPlane, database_url: str
) -> None:
    expired = await overdue(client, served, "mine")
    elsewhere = f"{served.namespace}-other"
    await served.plane.node.database.rows("ensure_namespace", elsewhere, "Another one.", 30)
    other = Client(ServedPlane(served.app, served.plane, elsewhere, served._connection))
    assert (await other.control("GET", TIMEOUTS)).json["expired_count"] == 0
    body = (await other.control("POST", f"{TIMEOUTS}/pass", {"execution_ids": [expired]})).json
    assert body["results"][0]["reason"] == "execution_not_found"


async def test_a_repair_pass_ends_lapsed_leases_and_wakes_queues(client: Client, served: ServedPlane) -> None:
    await client.start("lapsed")
    task = await client.take()
    await served.expire_lease(task["task_id"])
    late = await client.start("late", task_queue="other")
    await served.execute(
        "UPDATE workflow_tasks SET available_at = dw_now() - interval '1 minute' WHERE run_id = %s", late
    )
    shown = (await client.control("GET", "/system/repair")).json
    assert shown["policy"]["scan_limit"] == 25
    assert shown["candidates"]["existing_task_candidates"] >= 2
    done = await client.control("POST", "/system/repair/pass", {})
    report = done.json
    assert (done.status, report["throttled"], report["respect_throttle"]) == (200, False, False)
    assert (report["selected_existing_task_candidates"], report["repaired_existing_tasks"]) == (2, 1)
    assert (report["dispatched_tasks"], report["existing_task_failures"]) == (2, [])
    again = await client.take()
    assert (again["task_id"], again["workflow_task_attempt"]) == (task["task_id"], 2)
    throttled = (await client.control("POST", "/system/repair/pass", {"respect_throttle": True})).json
    assert (throttled["throttled"], throttled["selected_existing_task_candidates"]) == (True, 0)


async def test_a_repair_pass_keeps_to_what_it_is_asked_for(client: Client, served: ServedPlane) -> None:
    runs = [await client.start(f"w-{number}") for number in range(3)]
    tasks = {task["run_id"]: task for task in [await client.take() for _ in runs]}
    for task in tasks.values():
        await served.expire_lease(task["task_id"])

    async def repaired(**asked: Any) -> int:
        report = (await client.control("POST", "/system/repair/pass", asked)).json
        count: int = report["repaired_existing_tasks"]
        return count

    assert await repaired(queue="other") == 0
    assert await repaired(connection="redis") == 0
    assert await repaired(run_ids=["nothing"], instance_id="w-1") == 0
    assert await repaired(run_ids=[runs[0]]) == 1
    assert await repaired(instance_id="w-1") == 1
    assert await repaired(queue=QUEUE, connection="default") == 1
    assert await repaired() == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("repair/pass", {"run_ids": ["r"] * 101}),
        ("repair/pass", {"run_ids": ["r" * 129]}),
        ("activity-timeouts/pass", {"limit": 101}),
        ("activity-timeouts/pass", {"execution_ids": ["e"] * 101}),
    ],
)
async def test_a_pass_has_bounds(client: Client, path: str, body: dict[str, Any]) -> None:
    assert (await client.control("POST", f"/system/{path}", body)).status == 422
    assert (await client.control("GET", f"{TIMEOUTS}?limit=101")).status == 422
