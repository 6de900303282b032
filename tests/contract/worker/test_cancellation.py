"""Cooperative cancellation on the worker plane, features that a worker must declare, blocked runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.worker.client import COMPLETE, Client, fence, schedule
from tests.harness.worker_plane import ServedPlane

COOPERATIVE = ["cooperative_cancellation"]
MEMO = {"type": "upsert_memo", "entries": {"codec": "avro", "blob": "wwHioz3/VYAiNw4CDHJlZ2lvbgoEZXUA"}}
LOCAL = {
    "type": "record_local_activity",
    "activity_type": "norm",
    "outcome": "completed",
    "attempts": [{"attempt_number": 1, "outcome": "completed"}],
}
TYPED = {"type": "upsert_search_attributes", "attributes": {"Stage": "paid"}, "attribute_types": {"Stage": "keyword"}}


async def request(client: Client) -> str:
    """The id of an accepted cancellation request."""
    answer = await client.control("POST", "/workflows/w/request-cancellation", {"reason": "late"})
    assert answer.status == 202, answer.json
    return str(answer.json["cancellation_request"]["request_id"])


async def deliver(client: Client, task: dict[str, Any], request_id: str, **fields: Any) -> Any:
    """Deliver the request into the first call."""
    body = fence(task) | {"request_id": request_id, "sequence": 1, "call_kind": "activity", **fields}
    return await client.post(f"/workflow-tasks/{task['task_id']}/deliver-cancellation", body)


async def test_a_cancellation_from_request_to_acknowledgement(client: Client) -> None:
    await client.register(capabilities=COOPERATIVE)
    activity = await client.running_activity()
    request_id = await request(client)
    task = await client.take()
    assert task["cancellation_request"]["request_id"] == request_id
    assert task["cancel_requested"] is False
    answer = await deliver(client, task, request_id)
    assert (answer.status, answer.json["delivered"], answer.json["call_kind"]) == (200, True, "activity")
    assert answer.json["task_id"] == task["task_id"]
    token = task["cancellation_request"]["history_refresh_page_token"]
    page = await client.post(
        f"/workflow-tasks/{task['task_id']}/history", fence(task) | {"next_history_page_token": token}
    )
    types = [event["event_type"] for event in page.json["history_events"]]
    assert types[-2:] == ["CooperativeCancellationDelivered", "ActivityCancelled"]
    beat = (await client.report(activity, "heartbeat")).json
    assert (beat["can_continue"], beat["cancel_requested"], beat["reason"]) == (False, True, "activity_cancelled")
    status = (await client.report(activity, "status")).json
    assert status["cancellation_acknowledgement"]["callback_state"] == "unknown"
    first = await client.report(activity, "acknowledge-cancellation", request_id=request_id)
    assert (first.status, first.json["acknowledged"], first.json["duplicate"]) == (200, True, False)
    again = await client.report(activity, "acknowledge-cancellation", request_id=request_id)
    assert (again.json["duplicate"], again.json["history_event_id"]) == (True, first.json["history_event_id"])
    other = await client.report(activity, "acknowledge-cancellation", request_id="other")
    assert (other.status, other.json["reason"]) == (409, "activity_cancellation_not_requested")
    renewed = await client.post(f"/workflow-tasks/{task['task_id']}/heartbeat", fence(task))
    assert renewed.json["cancellation_request"]["delivery_sequence"] == 1
    gone = {"type": "fail_workflow", "message": "cancelled", "exception_type": "WorkflowCancelled"}
    assert (await client.complete(task, gone)).json["run_status"] == "cancelled"


async def test_a_cancelled_run_is_not_given_to_a_worker_that_cannot_cancel(client: Client) -> None:
    await client.register("able", capabilities=COOPERATIVE)
    await client.start()
    await request(client)
    assert (await client.poll(timeout_seconds=0)).json["poll_status"] == "empty"
    assert (await client.take(worker_id="able"))["lease_owner"] == "able"


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"request_id": "none"}, 409, "cancellation_not_requested"),
        ({"call_kind": "dance"}, 422, "validation_failed"),
        ({"sequence": 0}, 422, "validation_failed"),
        ({"sequence": 9}, 422, "validation_failed"),
        ({"lease_owner": "eve"}, 409, "lease_owner_mismatch"),
    ],
)
async def test_a_wrong_delivery_is_refused(client: Client, fields: Any, status: int, reason: str) -> None:
    await client.register(capabilities=COOPERATIVE)
    await client.start()
    named = {"request_id": await request(client)} | fields
    answer = await deliver(client, await client.take(), **named)
    assert (answer.status, answer.json["reason"]) == (status, reason)


async def test_the_end_of_the_cleanup_time_is_swept(client: Client, served: ServedPlane) -> None:
    run_id = await client.start()
    await request(client)
    await served.execute(
        "UPDATE workflow_runs SET cleanup_deadline_at = dw_now() - interval '1 second' WHERE run_id = %s", run_id
    )
    await served.sweep()
    assert await client.status() == "cancelled"


@pytest.mark.parametrize(
    ("command", "capability", "reason"),
    [
        (MEMO, "memo_upserts", "workflow_metadata_capability_not_advertised"),
        (TYPED, "typed_search_attributes", "typed_search_attributes_unavailable"),
        (LOCAL, "local_activities", "worker_capability_not_supported"),
        (
            schedule(cancellation_policy="try_cancel"),
            "cooperative_cancellation",
            "activity_cancellation_policy_not_supported",
        ),
    ],
)
async def test_a_feature_must_be_declared_by_the_worker_that_uses_it(
    client: Client, command: dict[str, Any], capability: str, reason: str
) -> None:
    await client.start()
    task = await client.take()
    refused = await client.complete(task, command, COMPLETE)
    assert (refused.status, refused.json["reason"], refused.json["recorded"]) == (409, reason, False)
    await client.register(capabilities=[capability])
    assert (await client.complete(task, command, COMPLETE)).json["run_status"] == "completed"


async def test_what_a_workflow_records_is_described_and_listed(client: Client) -> None:
    await client.register(capabilities=["memo_upserts", "typed_search_attributes"])
    await client.start(memo={"source": "api"}, search_attributes={"Old": 1})
    untyped = {"type": "upsert_search_attributes", "attributes": {"Old": None, "Tags": ["a"]}}
    assert (await client.complete(await client.take(), MEMO, TYPED, untyped, COMPLETE)).status == 200
    shown = (await client.control("GET", "/workflows/w")).json
    (row,) = (await client.control("GET", "/workflows")).json["workflows"]
    for body in (shown, row):
        assert body["memo"] == {"source": "api", "region": "eu"}
        assert body["search_attributes"] == {"Stage": "paid", "Tags": ["a"]}


async def test_two_first_uses_of_one_attribute_agree_on_its_type(client: Client) -> None:
    await client.register(capabilities=["typed_search_attributes"])
    await client.start("a")
    await client.start("b")
    tasks = [await client.take(), await client.take()]
    other = {"type": "upsert_search_attributes", "attributes": {"Stage": 1}, "attribute_types": {"Stage": "int"}}
    assert (await client.complete(tasks[0], TYPED, COMPLETE)).status == 200
    refused = await client.complete(tasks[1], other, COMPLETE)
    assert (refused.status, list(refused.json["errors"])) == (422, ["commands.0.attributes.Stage"])


async def test_a_blocked_run_waits_for_a_worker_of_another_build(client: Client, served: ServedPlane) -> None:
    await client.register(build_id="old")
    run_id = await client.start()
    failure = {"message": "It differs.", "type": "NonDeterministicReplayError"}
    for _ in range(5):
        task = await client.take(build_id="old")
        answer = await client.post(f"/workflow-tasks/{task['task_id']}/fail", fence(task) | {"failure": failure})
        assert answer.status == 200
        await served.execute(
            "UPDATE workflow_tasks SET available_at = dw_now() WHERE run_id = %s AND available_at < 'tomorrow'",
            run_id,
        )
    assert (await client.poll(build_id="old", timeout_seconds=0)).json["poll_status"] == "empty"
    assert "blocked" in (await client.control("GET", "/workflows/w")).json["wait_reason"]
    await client.register("also-old", build_id="old")
    assert (await client.poll(build_id="old", timeout_seconds=0)).json["poll_status"] == "empty"
    await client.register("new", build_id="new")
    task = await client.take(worker_id="new", build_id="new")
    assert (await client.complete(task, COMPLETE)).json["run_status"] == "completed"
