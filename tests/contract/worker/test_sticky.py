"""What a worker that keeps histories is sent (worker-plane §8.1, §8.8, engine §4.8)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.worker.client import WORKER, Client, schedule, side_effect
from tests.harness.worker_plane import worker_plane


def keeping(task: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The completion member of a worker that keeps this run."""
    metrics = {"hit": 0, "miss": 1, "eviction": 0, "forced_cold_replay": 0}
    cache = {
        "worker_id": task["lease_owner"],
        "workflow_id": task["workflow_id"],
        "run_id": task["run_id"],
        "build_id": "b-1",
        "ttl_seconds": 60,
        "metrics": metrics,
    }
    return {"sticky_cache": cache | changes}


async def kept(client: Client, *, events: int = 0) -> dict[str, Any]:
    """A run that ``w-1`` keeps, with that many side effects and an activity that has been done."""
    await client.start()
    task = await client.take()
    answer = await client.complete(task, *[side_effect()] * events, schedule(), **keeping(task))
    assert answer.status == 200, answer.json
    await client.report(await client.take("activity"), "complete")
    return task


async def test_a_task_says_whose_cache_keeps_its_run(client: Client) -> None:
    first = await kept(client)
    assert "sticky_replay_mode" not in first
    task = await client.take()
    assert (task["sticky_worker_id"], task["sticky_replay_mode"]) == (WORKER, "sticky_hit_expected")
    assert task["sticky_until"].endswith("Z")
    assert [event["sequence"] for event in task["history_events"]] == list(range(1, task["last_history_sequence"] + 1))


async def test_a_long_history_that_is_kept_is_not_sent_again(client: Client) -> None:
    await kept(client, events=30)
    task = await client.take(history_page_size=10)
    assert [event["event_type"] for event in task["history_events"]] == ["StartAccepted", "WorkflowStarted"]
    assert task["total_history_events"] == task["last_history_sequence"] > 30
    page = await client.post(
        f"/workflow-tasks/{task['task_id']}/history",
        {
            "lease_owner": WORKER,
            "workflow_task_attempt": task["workflow_task_attempt"],
            "next_history_page_token": task["next_history_page_token"],
            "history_page_size": 1000,
        },
    )
    assert [event["sequence"] for event in page.json["history_events"]] == list(
        range(3, task["last_history_sequence"] + 1)
    )


async def test_a_waiting_poll_of_another_worker_gets_the_task_when_its_keeper_stays_away(client: Client) -> None:
    await client.register("w-2")
    await kept(client)
    held = asyncio.create_task(client.take(worker_id="w-2"))
    task = await held
    assert (task["lease_owner"], task["sticky_replay_mode"]) == ("w-2", "cold_replay")


async def test_a_cache_of_another_worker_is_refused(client: Client) -> None:
    await client.start()
    task = await client.take()
    answer = await client.complete(task, schedule(), **keeping(task, worker_id="w-2"))
    body = answer.json
    assert (answer.status, body["reason"], body["recorded"]) == (409, "sticky_cache_identity_mismatch", False)
    assert (body["capability"], body["minimum_protocol_version"]) == ("sticky_execution", "1.18")
    twice = [(await client.complete(task, schedule(), **keeping(task))).json for _ in range(2)]
    assert twice[0] == twice[1]


async def test_switched_off_it_is_not_advertised_and_does_nothing(database_url: str, unique_namespace: str) -> None:
    environ = {"DW_V2_STICKY_EXECUTION_ENABLED": "false"}
    async with worker_plane(database_url, unique_namespace, environ) as served:
        client = Client(served)
        registered = await client.register()
        assert registered.json["server_capabilities"]["sticky_execution"]["supported"] is False
        await client.register("w-2")
        await kept(client)
        task = await client.take(worker_id="w-2")
        assert "sticky_worker_id" not in task
