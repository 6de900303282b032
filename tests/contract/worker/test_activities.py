"""The activity task object, and complete, fail, heartbeat and status with their guard (worker-plane §12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.worker.client import HI_BOB, NULL, QUEUE, WORKER, Client, attempt, schedule
from tests.harness.worker_plane import ServedPlane, worker_plane

VERBS = ("complete", "fail", "heartbeat", "status", "renew-lease")
FAILURE: dict[str, Any] = {"message": "No funds.", "type": "CardDeclined", "class": "shop.CardDeclined"}
RETRY = {"max_attempts": 2, "backoff_seconds": [0]}


def needed(verb: str) -> dict[str, Any]:
    """What a report needs beyond its fence."""
    return {"failure": FAILURE} if verb == "fail" else {}


async def test_the_task_has_everything_a_worker_runs_with(client: Client, served: ServedPlane) -> None:
    policy = {"max_attempts": 3, "backoff_seconds": [1, 5], "non_retryable_error_types": ["CardDeclined"]}
    activity = await client.running_activity(
        arguments=HI_BOB, retry_policy=policy, start_to_close_timeout=30, heartbeat_timeout=10
    )
    deadlines = activity.pop("deadlines")
    assert deadlines.keys() == {"start_to_close", "heartbeat"}
    assert all(deadline.endswith("Z") for deadline in deadlines.values())
    run_id = activity["run_id"]
    assert activity.pop("lease_expires_at") > activity.pop("leased_at")
    assert activity == {
        "task_id": activity["task_id"],
        "workflow_id": "w",
        "run_id": run_id,
        "activity_execution_id": f"{run_id}.a1",
        "activity_attempt_id": f"{run_id}.a1.1",
        "attempt_number": 1,
        "attempt": 1,
        "activity_type": "charge",
        "idempotency_key": f"{run_id}.a1",
        "namespace": served.namespace,
        "task_queue": QUEUE,
        "connection": None,
        "payload_codec": "avro",
        "arguments": HI_BOB,
        "retry_policy": {
            "snapshot_version": 1,
            **policy,
            "start_to_close_timeout": 30,
            "heartbeat_timeout": 10,
            "schedule_to_start_timeout": None,
            "schedule_to_close_timeout": None,
        },
        "lease_owner": WORKER,
        "last_heartbeat_details": None,
    }


@pytest.mark.parametrize("result", [HI_BOB, HI_BOB["blob"], None])
async def test_a_result_is_recorded_unchanged(client: Client, result: Any) -> None:
    activity = await client.running_activity()
    answer = await client.report(activity, "complete", result=result)
    body = answer.json
    assert (answer.status, body["outcome"], body["recorded"], body["reason"]) == (200, "completed", True, None)
    task = await client.take()
    assert body["next_task_id"] == task["task_id"]
    event = task["history_events"][-1]
    assert (event["event_type"], event["payload"]["payload_codec"]) == ("ActivityCompleted", "avro")
    assert event["payload"]["result"] == (HI_BOB if result else NULL)["blob"]


@pytest.mark.parametrize(
    ("verb", "fields", "field"),
    [
        ("complete", {"result": {"codec": "json", "blob": "AA=="}}, "result.codec"),
        ("complete", {"result": {"codec": "avro", "blob": "AA=="}}, "result.blob"),
        ("complete", {"result": 7}, "result"),
        ("fail", {"failure": {**FAILURE, "details": {"codec": "json", "blob": "AA=="}}}, "failure.details.codec"),
        ("fail", {"failure": {"type": "X"}}, "failure.message"),
        ("fail", {"failure": {**FAILURE, "kind": "bad luck"}}, "failure.kind"),
        ("heartbeat", {"details": "half"}, "details"),
        ("heartbeat", {"details": {"note": "\0"}}, "details.note"),
        ("heartbeat", {"details": {"note": "x" * 65_537}}, "details"),
        ("heartbeat", {"lease_owner": ""}, "lease_owner"),
        ("status", {"activity_attempt_id": None}, "activity_attempt_id"),
    ],
)
async def test_a_report_that_is_refused_changes_nothing(
    client: Client, served: ServedPlane, verb: str, fields: dict[str, Any], field: str
) -> None:
    activity = await client.running_activity()
    before = await served.dump()
    answer = await client.report(activity, verb, **needed(verb) | fields)
    assert (answer.status, list(answer.json["errors"])) == (422, [field])
    assert await served.dump() == before


async def test_a_failure_keeps_its_neutral_fields_and_its_payload(client: Client) -> None:
    activity = await client.running_activity()
    failure = {**FAILURE, "code": 402, "details": HI_BOB, "diagnostics": {"line": 7}, "stack_trace": "secret"}
    answer = await client.report(activity, "fail", failure=failure)
    body = answer.json
    assert (answer.status, body["outcome"], body["recorded"]) == (200, "failed", True)
    task = await client.take()
    assert body["next_task_id"] == task["task_id"]
    payload = task["history_events"][-1]["payload"]
    assert (payload["failure_category"], payload["exception_type"]) == ("activity", "CardDeclined")
    assert (payload["message"], payload["code"], payload["non_retryable"]) == ("No funds.", 402, False)
    assert payload["exception"]["details"] == HI_BOB
    assert (payload["exception"]["details_payload_codec"], payload["exception"]["diagnostics"]) == ("avro", {"line": 7})
    assert "secret" not in str(payload)


async def test_a_failure_that_may_be_retried_is_a_new_task_and_attempt(client: Client) -> None:
    first = await client.running_activity(retry_policy=RETRY)
    answer = await client.report(first, "fail", failure=FAILURE)
    second = await client.take("activity")
    assert answer.json["next_task_id"] == second["task_id"] != first["task_id"]
    assert second["activity_execution_id"] == first["activity_execution_id"]
    assert (second["attempt_number"], second["activity_attempt_id"]) == (2, f"{first['run_id']}.a1.2")
    assert (await client.poll(timeout_seconds=0)).json["task"] is None
    await client.report(second, "fail", failure=FAILURE)
    assert (await client.take())["workflow_event_type"] == "ActivityFailed"


@pytest.mark.parametrize(
    ("policy", "failure"),
    [
        (RETRY, {**FAILURE, "non_retryable": True}),
        (RETRY, {**FAILURE, "retryable": False}),
        ({**RETRY, "non_retryable_error_types": ["CardDeclined"]}, FAILURE),
        ({**RETRY, "non_retryable_error_types": ["shop.CardDeclined"]}, FAILURE),
    ],
)
async def test_a_failure_that_may_not_be_retried_ends_the_activity(
    client: Client, policy: dict[str, Any], failure: dict[str, Any]
) -> None:
    await client.report(await client.running_activity(retry_policy=policy), "fail", failure=failure)
    assert (await client.take())["workflow_event_type"] == "ActivityFailed"


async def test_a_heartbeat_moves_the_lease_and_its_own_deadline(client: Client) -> None:
    activity = await client.running_activity(heartbeat_timeout=10, start_to_close_timeout=60)
    answer = await client.report(activity, "heartbeat", details={"at": 3}, message="half way")
    body = answer.json
    assert (answer.status, body["can_continue"], body["cancel_requested"]) == (200, True, False)
    assert (body["heartbeat_recorded"], body["reason"], body["worker_session"]) == (True, None, None)
    assert (body["run_closed_reason"], body["run_closed_at"]) == (None, None)
    assert body["lease_expires_at"] > activity["lease_expires_at"]
    assert body["last_heartbeat_at"].endswith("Z")
    status = (await client.report(activity, "status")).json
    assert status["deadlines"]["heartbeat"] > activity["deadlines"]["heartbeat"]
    assert status["deadlines"]["start_to_close"] == activity["deadlines"]["start_to_close"]


async def test_progress_reaches_the_next_attempt(client: Client) -> None:
    activity = await client.running_activity(retry_policy=RETRY)
    await client.report(activity, "heartbeat", details={"at": 3})
    await client.report(activity, "fail", failure=FAILURE)
    assert (await client.take("activity"))["last_heartbeat_details"] == {"details": {"at": 3}}


async def test_status_says_all_and_changes_nothing(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity()
    before = await served.dump()
    body = (await client.report(activity, "status")).json
    assert (body["can_continue"], body["heartbeat_recorded"], body["lease_owner"]) == (True, False, WORKER)
    assert (body["run_status"], body["activity_status"]) == ("waiting", "running")
    assert (body["attempt_status"], body["task_status"], body["deadlines"]) == ("running", "leased", {})
    assert body["lease_expires_at"] == activity["lease_expires_at"]
    assert await served.dump() == before
    await served.expire_lease(activity["task_id"])
    assert (await client.report(activity, "status")).json["can_continue"] is False


@pytest.mark.parametrize("verb", VERBS)
class TestGuard:
    """The guard of worker-plane §12.2."""

    async def test_an_unknown_task_is_not_found(self, client: Client, verb: str, database_url: str) -> None:
        activity = await client.running_activity()
        for task_id in ("nothing", f"{'0' * 26}.t1", f"{activity['run_id']}.t99"):
            answer = await client.report(activity | {"task_id": task_id}, verb, **needed(verb))
            assert (answer.status, answer.json["reason"], answer.json["task_id"]) == (404, "task_not_found", task_id)
        async with worker_plane(database_url, f"{client.served.namespace}-b") as other:
            answer = await Client(other).report(activity, verb, **needed(verb))
            assert (answer.status, answer.json["reason"]) == (404, "task_not_found")

    async def test_an_unknown_attempt_is_not_found(self, client: Client, verb: str) -> None:
        activity = await client.running_activity()
        for unknown in ("nothing", f"{activity['run_id']}.a1.2", f"{activity['run_id']}.a9.1"):
            answer = await client.report(activity | {"activity_attempt_id": unknown}, verb, **needed(verb))
            assert (answer.status, answer.json["reason"]) == (404, "attempt_not_found")
            assert answer.json["activity_attempt_id"] == unknown

    async def test_an_attempt_of_another_task_is_a_mismatch(self, client: Client, verb: str) -> None:
        await client.start()
        await client.complete(await client.take(), schedule(), schedule())
        first, second = await client.take("activity"), await client.take("activity")
        elsewhere = await client.running_activity("w-2")
        for task_id in (second["task_id"], elsewhere["task_id"]):
            answer = await client.report(first | {"task_id": task_id}, verb, **needed(verb))
            assert (answer.status, answer.json["reason"]) == (409, "task_mismatch")
            assert answer.json["task_id"] == task_id

    async def test_another_owner_is_told_who_holds_it(self, client: Client, verb: str) -> None:
        activity = await client.running_activity()
        answer = await client.report(activity | {"lease_owner": "w-2"}, verb, **needed(verb))
        assert (answer.status, answer.json["reason"]) == (409, "lease_owner_mismatch")
        assert answer.json["lease_owner"] == WORKER
        assert {"error", "message", "activity_attempt_id"} <= answer.json.keys()

    async def test_a_terminated_run_stops_the_attempt(self, client: Client, verb: str) -> None:
        activity = await client.running_activity()
        await client.control("POST", "/workflows/w/terminate")
        answer = await client.report(activity, verb, **needed(verb))
        body = answer.json
        assert (body["reason"], body["cancel_requested"]) == ("run_terminated", True)
        assert (body["can_continue"], body["run_closed_reason"]) == (False, "terminated")
        assert body["run_closed_at"].endswith("Z")
        if verb in ("heartbeat", "status"):
            assert (answer.status, body["heartbeat_recorded"]) == (200, False)
        elif verb == "renew-lease":
            assert (answer.status, body["lease_renewed"], body["run_status"]) == (409, False, "terminated")
        else:
            assert (answer.status, body["outcome"], body["recorded"]) == (409, "ignored", False)
            assert (body["run_status"], body["attempt_status"]) == ("terminated", "cancelled")
            assert {"activity_status", "task_status", "lease_owner", "lease_expires_at"} <= body.keys()

    async def test_a_superseded_attempt_is_stale(self, client: Client, served: ServedPlane, verb: str) -> None:
        lost = await client.running_activity()
        await served.expire_lease(lost["task_id"])
        await served.sweep()
        current = await client.take("activity")
        assert (current["task_id"], current["attempt_number"]) == (lost["task_id"], 2)
        before = await served.dump()
        answer = await client.report(lost, verb, **needed(verb))
        body = answer.json
        if verb in ("heartbeat", "status"):
            assert (answer.status, body["can_continue"], body["reason"]) == (200, False, "attempt_closed")
            assert body["cancel_requested"] is False
        elif verb == "renew-lease":
            assert (answer.status, body["lease_renewed"], body["reason"]) == (409, False, "stale_attempt")
        else:
            assert (answer.status, body["recorded"], body["reason"]) == (409, False, "stale_attempt")
        assert await served.dump() == before


async def test_a_report_after_its_lease_may_win_until_the_task_has_moved_on(
    client: Client, served: ServedPlane
) -> None:
    activity = await client.running_activity()
    await served.expire_lease(activity["task_id"])
    assert (await client.report(activity, "complete", result=HI_BOB)).json["recorded"] is True
    await served.sweep()
    assert (await client.take())["workflow_event_type"] == "ActivityCompleted"
    assert (await client.poll("activity", timeout_seconds=0)).json["task"] is None


async def test_a_passed_deadline_is_enforced_before_a_late_report(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity(start_to_close_timeout=60)
    await served.execute(
        "UPDATE workflow_tasks SET start_to_close_at = dw_now() - interval '1 second' WHERE run_id = %s AND kind = 1",
        activity["run_id"],
    )
    answer = await client.report(activity, "complete", **attempt(activity))
    assert (answer.status, answer.json["reason"], answer.json["recorded"]) == (409, "stale_attempt", False)
    task = await client.take()
    assert task["workflow_event_type"] == "ActivityTimedOut"
    assert task["history_events"][-1]["payload"]["timeout_kind"] == "start_to_close"
