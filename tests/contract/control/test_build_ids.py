"""Build cohorts of a queue: list, drain, resume; what workers hear of it (control-plane §19.3, worker-plane §6.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.worker.client import COMPLETE, QUEUE, Client
from tests.harness.waiting import eventually
from tests.harness.worker_plane import ServedPlane

BUILDS = f"/task-queues/{QUEUE}/build-ids"


async def send(client: Client, verb: str, build_id: str | None) -> dict[str, Any]:
    answer = await client.control("POST", f"{BUILDS}/{verb}", {"build_id": build_id})
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def builds(client: Client) -> list[dict[str, Any]]:
    answer = await client.control("GET", BUILDS)
    assert answer.status == 200, answer.json
    found: list[dict[str, Any]] = answer.json["build_ids"]
    return found


async def test_draining_twice_keeps_its_time_and_resuming_clears_it(client: Client, served: ServedPlane) -> None:
    first, again = await send(client, "drain", "b-1"), await send(client, "drain", "b-1")
    assert first == again
    assert first["drained_at"].endswith("Z")
    resumed = [await send(client, "resume", "b-1") for _ in range(2)]
    assert resumed[0] == resumed[1] == first | {"drain_intent": "active", "drained_at": None}
    assert (first["namespace"], first["task_queue"], first["build_id"]) == (served.namespace, QUEUE, "b-1")


async def test_a_drained_cohort_takes_nothing_and_ends_what_it_has(client: Client) -> None:
    for worker_id, build_id in (("old", "b-1"), ("new", "b-2")):
        await client.register(worker_id, build_id=build_id)
    await client.start("w-1")
    leased = await client.take(worker_id="old")
    held = asyncio.create_task(client.poll(worker_id="old", timeout_seconds=20))
    await send(client, "drain", "b-1")
    answer = await held
    assert (answer.status, answer.json["reason"], answer.json["poll_status"]) == (409, "worker_draining", "draining")
    beat = (await client.post("/heartbeat", {"worker_id": "old"})).json
    assert (beat["status"], beat["drain_intent"]) == ("draining", "draining")
    assert (await client.complete(leased, COMPLETE)).status == 200
    await client.start("w-2")
    assert (await client.take(worker_id="new"))["workflow_id"] == "w-2"
    await send(client, "resume", "b-1")
    await client.start("w-3")

    async def is_served() -> bool:
        return bool((await client.poll(worker_id="old", timeout_seconds=1)).json["poll_status"] == "leased")

    await eventually(is_served, "the resumed cohort is given work")


async def test_an_intent_outlives_the_workers_and_awaits_new_ones(client: Client) -> None:
    await client.register("old", build_id="b-1")
    await send(client, "drain", "b-1")
    await client.send("DELETE", "/registrations/old")
    (cohort,) = await builds(client)
    assert (cohort["rollout_status"], cohort["total_worker_count"]) == ("no_workers", 0)
    assert (await client.register("next", build_id="b-1")).json["drain_intent"] == "draining"


async def test_cohorts_are_listed_active_first_and_named_before_unversioned(
    client: Client, served: ServedPlane
) -> None:
    marks = {"supported_workflow_types": ["order"]}
    await client.register("plain")
    await client.register("one", build_id="b-1", workflow_definition_fingerprints={"order": "sha256:1"}, **marks)
    await client.register("two", build_id="b-1", workflow_definition_fingerprints={"order": "sha256:2"}, **marks)
    await client.register("gone", build_id="b-0")
    await served.execute(
        "UPDATE worker_registrations SET last_heartbeat_at = dw_now() - interval '1 hour' WHERE worker_id = 'gone'"
    )
    await client.register("slow", build_id="b-2")
    await send(client, "drain", "b-2")
    found = await builds(client)
    assert [(row["build_id"], row["rollout_status"]) for row in found] == [
        ("b-1", "active"),
        (None, "active"),
        ("b-2", "draining"),
        ("b-0", "stale_only"),
    ]
    one = found[0]
    assert (one["active_worker_count"], one["total_worker_count"], one["runtimes"]) == (2, 2, ["python"])
    assert one["workflow_definition_fingerprint_count"] == 1
    assert one["workflow_definition_fingerprint_conflicts"] == ["order"]
    assert (found[2]["draining_worker_count"], found[2]["active_worker_count"]) == (1, 0)


@pytest.mark.parametrize("body", [{}, {"build_id": 7}, {"build_id": "b" * 256}])
async def test_the_build_id_must_be_named(client: Client, body: dict[str, Any]) -> None:
    answer = await client.control("POST", f"{BUILDS}/drain", body)
    assert (answer.status, list(answer.json["errors"])) == (422, ["build_id"])
    assert await builds(client) == []
