"""Standalone activities: start, describe, list, and how they end (control-plane §15, engine §5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.shell_client import Answer
from tests.contract.worker.client import HI_BOB, QUEUE, Client
from tests.harness.worker_plane import ServedPlane

FAILURE: dict[str, Any] = {"message": "No funds.", "type": "CardDeclined", "class": "shop.CardDeclined"}


@pytest.fixture
async def client(served: ServedPlane) -> Client:
    client = Client(served)
    assert (await client.register()).status == 201
    return client


async def start(client: Client, activity_id: str = "job", **fields: Any) -> Answer:
    body = {"activity_type": "charge", "task_queue": QUEUE, "activity_id": activity_id, **fields}
    return await client.control("POST", "/activities", body)


async def describe(client: Client, activity_id: str = "job") -> dict[str, Any]:
    answer = await client.control("GET", f"/activities/{activity_id}")
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def history(client: Client, run_id: str) -> list[dict[str, Any]]:
    answer = await client.control("GET", f"/workflows/job/runs/{run_id}/history?page_size=100")
    events: list[dict[str, Any]] = answer.json["events"]
    return events


async def test_a_start_says_what_was_started(client: Client, served: ServedPlane) -> None:
    answer = await start(client, input=HI_BOB, business_key="b", activity_class="shop.Charge")
    body = answer.json
    assert answer.status == 201
    run_id = body.pop("workflow_run_id")
    assert body.pop("started_at").endswith("Z")
    assert {key: body[key] for key in body if key != "control_plane"} == {
        "activity_id": "job",
        "activity_execution_id": f"{run_id}.a1",
        "workflow_id": "job",
        "workflow_type": "dw.standalone_activity",
        "activity_type": "charge",
        "activity_class": "shop.Charge",
        "task_queue": QUEUE,
        "namespace": served.namespace,
        "status": "running",
        "payload_codec": "avro",
        "schedule_to_start_deadline_at": None,
        "schedule_to_close_deadline_at": None,
        "command_status": "accepted",
        "command_source": "control_plane",
    }
    described = await describe(client)
    assert (described["status"], described["activity_status"], described["attempt_count"]) == ("running", "pending", 0)
    assert (described["activity_class"], described["business_key"], described["result"]) == ("shop.Charge", "b", None)


async def test_an_activity_is_done_by_a_worker_and_never_has_a_workflow_task(client: Client) -> None:
    run_id = (await start(client, input=HI_BOB, heartbeat_timeout_seconds=30)).json["workflow_run_id"]
    task = await client.take("activity")
    assert (task["workflow_id"], task["run_id"], task["arguments"]) == ("job", run_id, HI_BOB)
    assert (await describe(client))["activity_status"] == "running"
    assert (await client.report(task, "heartbeat", details={"at": 1})).json["heartbeat_recorded"] is True
    assert (await describe(client))["last_heartbeat_at"] is not None
    first, again = [(await client.report(task, "complete", result=HI_BOB)).json for _ in range(2)]
    assert first == again
    assert (first["recorded"], first["next_task_id"]) == (True, None)
    described = await describe(client)
    assert (described["status"], described["activity_status"], described["closed_reason"]) == ("completed",) * 3
    assert (described["result"], described["attempt_count"]) == (HI_BOB, 1)
    assert [event["event_type"] for event in await history(client, run_id)] == [
        "StartAccepted",
        "WorkflowStarted",
        "ActivityScheduled",
        "ActivityStarted",
        "ActivityHeartbeatRecorded",
        "ActivityCompleted",
        "WorkflowCompleted",
    ]
    assert (await client.poll(timeout_seconds=0)).json["task"] is None


async def test_a_failure_is_retried_and_then_fails_the_run(client: Client) -> None:
    policy = {"max_attempts": 2, "backoff_seconds": [0]}
    run_id = (await start(client, retry_policy=policy)).json["workflow_run_id"]
    for attempt in (1, 2):
        task = await client.take("activity")
        assert task["attempt_number"] == attempt
        await client.report(task, "fail", failure=FAILURE)
    described = await describe(client)
    assert (described["status"], described["activity_status"], described["attempt_count"]) == ("failed", "failed", 2)
    last = (await history(client, run_id))[-1]
    assert (last["event_type"], last["payload"]["exception_type"]) == ("WorkflowFailed", "CardDeclined")
    assert (last["payload"]["source_kind"], last["payload"]["source_id"]) == ("activity_execution", f"{run_id}.a1")


async def test_a_timeout_shows_as_timed_out(client: Client, served: ServedPlane) -> None:
    run_id = (await start(client, start_to_close_timeout_seconds=60)).json["workflow_run_id"]
    task = await client.take("activity")
    await served.execute(
        "UPDATE workflow_tasks SET start_to_close_at = dw_now() - interval '1 second' WHERE run_id = %s", run_id
    )
    assert (await client.report(task, "complete")).status == 409
    described = await describe(client)
    assert (described["status"], described["activity_status"]) == ("failed", "timed_out")


async def test_terminating_the_host_cancels_the_activity(client: Client) -> None:
    await start(client)
    task = await client.take("activity")
    assert (await client.control("POST", "/workflows/job/terminate")).status == 200
    assert (await client.report(task, "heartbeat")).json["reason"] == "run_terminated"
    described = await describe(client)
    assert (described["status"], described["activity_status"]) == ("terminated", "cancelled")


@pytest.mark.parametrize("command", ["request-cancellation", "repair", "signal/go"])
async def test_no_command_gives_the_host_a_workflow_task(client: Client, served: ServedPlane, command: str) -> None:
    run_id = (await start(client)).json["workflow_run_id"]
    assert (await client.control("POST", f"/workflows/job/{command}", {})).status in (200, 202)
    tasks = await served.execute("SELECT kind FROM workflow_tasks WHERE run_id = %s", run_id)
    assert tasks == [(1,)]
    await client.report(await client.take("activity"), "complete", result=HI_BOB)
    assert (await describe(client))["status"] == "completed"


async def test_an_update_of_the_host_is_refused_by_name_as_often_as_it_is_sent(client: Client) -> None:
    await start(client)
    for _ in range(2):
        answer = await client.control("POST", "/workflows/job/update/set", {"request_id": "u-1"})
        assert (answer.status, answer.json["reason"]) == (404, "unknown_update")
        assert answer.json["outcome"] == "rejected_unknown_update"
    await client.report(await client.take("activity"), "complete", result=HI_BOB)
    assert (await describe(client))["status"] == "completed"


async def test_an_id_is_used_once_by_activities_and_workflows_together(client: Client, served: ServedPlane) -> None:
    await start(client)
    await client.start("w")
    before = await served.dump()
    for activity_id in ("job", "w"):
        answer = await start(client, activity_id)
        assert (answer.status, list(answer.json["errors"])) == (422, ["activity_id"])
    body = {"workflow_id": "job", "workflow_type": "order", "task_queue": QUEUE}
    assert await served.dump() == before
    assert (await client.control("POST", "/workflows", body)).status == 409
    assert (await client.control("GET", "/activities/w")).json["reason"] == "activity_not_found"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"activity_type": ""}, "activity_type"),
        ({"activity_id": "a b"}, "activity_id"),
        ({"heartbeat_timeout_seconds": 0}, "heartbeat_timeout_seconds"),
        ({"heartbeat_timeout_seconds": 9, "start_to_close_timeout_seconds": 3}, "heartbeat_timeout_seconds"),
        ({"retry_policy": {"max_attempts": 0}}, "retry_policy.max_attempts"),
        ({"retry_policy": {"backoff_seconds": [-1]}}, "retry_policy.backoff_seconds.0"),
        ({"input": {"codec": "json", "blob": "AA=="}}, "input.codec"),
    ],
)
async def test_a_bad_start_names_the_field_and_changes_nothing(
    client: Client, served: ServedPlane, fields: dict[str, Any], name: str
) -> None:
    before = await served.dump()
    answer = await start(client, **fields)
    assert (answer.status, list(answer.json["errors"])) == (422, [name])
    assert await served.dump() == before


async def test_the_type_of_hosts_is_reserved(client: Client) -> None:
    reserved = {"workflow_type": "dw.standalone_activity"}
    answer = await client.control("POST", "/workflows", reserved)
    assert (answer.status, list(answer.json["errors"])) == (422, ["workflow_type"])
    await client.start()
    task = await client.take()
    child = await client.complete(task, {"type": "start_child_workflow", **reserved})
    assert (child.status, list(child.json["errors"])) == (422, ["commands.0.workflow_type"])


async def test_activities_are_listed_newest_first_by_page_and_by_status(client: Client) -> None:
    for number in range(3):
        await start(client, f"job-{number}")
    await client.start("a-workflow")
    await client.report(await client.take("activity"), "complete")

    async def page(query: str) -> dict[str, Any]:
        answer = await client.control("GET", f"/activities?{query}")
        body: dict[str, Any] = answer.json
        return body

    first = await page("page_size=2")
    second = await page(f"page_size=2&next_page_token={first['next_page_token']}")
    assert [row["activity_id"] for row in first["activities"] + second["activities"]] == ["job-2", "job-1", "job-0"]
    assert (first["activity_count"], second["activity_count"], second["next_page_token"]) == (2, 1, None)
    completed = await page("status=completed")
    assert [row["activity_id"] for row in completed["activities"]] == ["job-0"]
    assert (await client.control("GET", "/activities?status=nonsense")).status == 422
