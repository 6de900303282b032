"""The diagnosis of a run (control-plane §10.4)."""

from __future__ import annotations

from typing import Any

from tests.contract.worker.client import COMPLETE, QUEUE, Client, fence, schedule
from tests.harness.worker_plane import ServedPlane


async def diagnose(client: Client, workflow_id: str = "w", query: str = "") -> dict[str, Any]:
    answer = await client.control("GET", f"/workflows/{workflow_id}/debug{query}")
    assert answer.status == 200, answer.json
    body: dict[str, Any] = answer.json
    return body


async def deliver(client: Client, task: dict[str, Any], request_id: str, sequence: int, kind: str) -> Any:
    body = fence(task) | {"request_id": request_id, "sequence": sequence, "call_kind": kind}
    return await client.post(f"/workflow-tasks/{task['task_id']}/deliver-cancellation", body)


def codes(document: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in document["findings"]]


async def test_a_run_without_workers_says_so(client: Client) -> None:
    run_id = await client.start()
    found = await diagnose(client)
    assert (found["run_id"], found["diagnostic_status"], codes(found)) == (
        run_id,
        "needs_attention",
        ["no_active_pollers"],
    )
    assert found["execution"]["liveness_state"] == "workflow_task_ready"
    assert found["pending_workflow_tasks"][0]["status"] == "ready"
    assert (found["task_queue"]["name"], found["task_queue"]["pollers"]) == (QUEUE, [])
    assert found["execution"]["last_event"]["event_type"] == "WorkflowStarted"
    assert "payload_preview" not in found["execution"]["last_event"]
    assert found["control_plane"]["operation"] == "debug_workflow"
    named = (await client.control("GET", f"/workflows/w/runs/{run_id}/debug?include_last_event_payload=true")).json
    assert 0 < len(named["execution"]["last_event"]["payload_preview"].encode()) <= 4096


async def test_the_life_of_a_run_as_its_diagnosis_tells_it(client: Client, served: ServedPlane) -> None:
    await client.register()
    await client.start()
    assert (await diagnose(client))["diagnostic_status"] == "pending_work"
    task = await client.take()
    assert (await diagnose(client))["diagnostic_status"] == "running"
    await served.expire_lease(task["task_id"])
    lapsed = await diagnose(client)
    assert (lapsed["diagnostic_status"], codes(lapsed)) == ("needs_attention", ["expired_leases"])
    assert lapsed["execution"]["task_problem_badge"] == "lease_expired"
    await served.sweep()
    task = await client.take()
    commands = [schedule(start_to_close_timeout=30), schedule(queue="nowhere")]
    assert (await client.complete(task, *commands)).status == 200
    open_activities = await diagnose(client)
    assert [(item["activity_type"], item["status"]) for item in open_activities["pending_activities"]] == [
        ("charge", "pending"),
        ("charge", "pending"),
    ]
    assert codes(open_activities) == ["no_active_pollers"]
    assert open_activities["execution"]["wait_kind"] == "activity"
    activity = await client.take("activity")
    running = (await diagnose(client))["pending_activities"][0]
    assert (running["status"], running["current_attempt_id"]) == ("running", activity["activity_attempt_id"])
    assert running["close_deadline_at"] is not None
    await client.report(activity, "fail", failure={"message": "x" * 9000, "type": "CardDeclined"})
    failed = (await diagnose(client))["recent_failures"]
    assert (failed[0]["event_type"], failed[0]["exception_type"]) == ("ActivityFailed", "CardDeclined")
    assert len(failed[0]["message"]) <= 4096
    await client.complete(await client.take(), COMPLETE)
    done = await diagnose(client)
    assert (done["diagnostic_status"], done["findings"], done["execution"]["next_scheduled_event"]) == (
        "terminal",
        [],
        None,
    )


async def test_a_task_that_fails_again_and_again_is_a_problem(client: Client) -> None:
    await client.register()
    await client.start()
    task = await client.take()
    failure = {"failure": {"message": "broken", "type": "RuntimeError"}}
    assert (await client.post(f"/workflow-tasks/{task['task_id']}/fail", fence(task) | failure)).status == 200
    found = await diagnose(client)
    assert (found["diagnostic_status"], codes(found)) == ("needs_attention", ["task_problem"])
    assert found["execution"]["task_problem_badge"] == "failing"
    assert found["execution"]["liveness_state"] in ("workflow_task_backing_off", "workflow_task_ready")


async def test_what_is_not_there_cannot_be_diagnosed(client: Client) -> None:
    await client.start()
    missing = await client.control("GET", "/workflows/none/debug")
    assert (missing.status, missing.json["reason"]) == (404, "instance_not_found")
    other = await client.control("GET", "/workflows/w/runs/none/debug")
    assert (other.status, other.json["reason"]) == (404, "run_not_found")
    assert (await client.control("GET", "/workflows/w/debug?include_last_event_payload=maybe")).status == 422


async def test_how_far_a_cancellation_has_come(client: Client) -> None:
    await client.register(capabilities=["cooperative_cancellation"])
    run_id = await client.start()
    assert (await diagnose(client))["cancellation_cascade"] is None
    assert (await client.complete(await client.take(), schedule())).status == 200
    activity = await client.take("activity")
    asked = await client.control("POST", f"/workflows/w/runs/{run_id}/request-cancellation", {"reason": "late"})
    request_id = asked.json["cancellation_request"]["request_id"]

    async def cascade() -> tuple[str, list[str]]:
        found = (await diagnose(client))["cancellation_cascade"]
        assert (found["request_id"], found["root_request_id"], found["reason"]) == (request_id, request_id, "late")
        (run,) = found["runs"]
        return run["state"], [one["acknowledgement"]["callback_state"] for one in found["activity_attempts"]]

    assert await cascade() == ("requested", [])
    task = await client.take()
    assert (await deliver(client, task, request_id, 1, "activity")).status == 200
    assert await cascade() == ("delivered", ["unknown"])
    await client.report(activity, "acknowledge-cancellation", request_id=request_id)
    assert await cascade() == ("delivered", ["stopped"])
    assert (await client.complete(task, schedule())).status == 200
    assert await cascade() == ("cleaning_up", ["stopped"])
    await client.control("POST", "/workflows/w/terminate")
    assert await cascade() == ("terminated", ["stopped"])


async def test_a_cancellation_is_followed_down_to_the_children(client: Client) -> None:
    await client.register(capabilities=["cooperative_cancellation"])
    await client.start()
    child = {
        "type": "start_child_workflow",
        "workflow_type": "order",
        "queue": QUEUE,
        "cancellation_policy": "wait_cancellation_completed",
    }
    assert (await client.complete(await client.take(), child)).status == 200
    below = await client.take()
    waits = {"type": "start_timer", "delay_seconds": 600}
    assert (await client.complete(below, waits)).status == 200
    asked = await client.control("POST", "/workflows/w/request-cancellation", {"cleanup_timeout_seconds": 60})
    request_id = asked.json["cancellation_request"]["request_id"]
    task = await client.take()
    assert (await deliver(client, task, request_id, 1, "child")).status == 200

    async def states() -> list[str]:
        return [run["state"] for run in (await diagnose(client))["cancellation_cascade"]["runs"]]

    told = await client.take()
    assert (told["run_id"], await states()) == (below["run_id"], ["requested", "requested"])
    (parent, under) = (await diagnose(client))["cancellation_cascade"]["runs"]
    assert (under["parent_run_id"], under["cleanup_deadline_at"]) == (parent["run_id"], parent["cleanup_deadline_at"])
    assert (await deliver(client, told, under["request_id"], 1, "timer")).status == 200
    gone = {"type": "fail_workflow", "message": "cancelled", "exception_type": "WorkflowCancelled"}
    assert (await client.complete(told, gone)).json["run_status"] == "cancelled"
    assert (await states())[1:] == ["cancelled"]
    own = (await diagnose(client, told["workflow_id"]))["cancellation_cascade"]
    assert (own["root_request_id"], own["parent_request_id"]) == (request_id, request_id)


async def test_a_run_that_did_not_clean_up_in_time_says_so(client: Client, served: ServedPlane) -> None:
    await client.start()
    await client.control("POST", "/workflows/w/request-cancellation", {"cleanup_timeout_seconds": 1})
    late = (
        "UPDATE workflow_runs SET cleanup_deadline_at = dw_now(),"
        " cancellation = jsonb_set(cancellation::jsonb, '{cleanup_deadline_at}', to_jsonb(dw_now()))::json"
        " WHERE namespace = %s"
    )
    await served.execute(late, served.namespace)
    await served.sweep()
    found = await diagnose(client)
    assert (found["execution"]["status"], found["diagnostic_status"]) == ("cancelled", "terminal")
    assert found["cancellation_cascade"]["runs"][0]["state"] == "deadline_expired"
