"""The workflow task object, and complete, fail and heartbeat with their guard (worker-plane §8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.contract.worker.client import COMPLETE, HI_BOB, QUEUE, WAITING, WORKER, Client, fence, schedule, side_effect
from tests.harness.worker_plane import ServedPlane, worker_plane

VERBS = ("history", "heartbeat", "complete", "fail")
FAILURE = {"failure": {"message": "It broke.", "type": "ValueError"}}


async def report(client: Client, task: dict[str, Any], verb: str, **fields: Any) -> Any:
    """One report on a workflow task that is right in everything but the given fields."""
    needed: dict[str, dict[str, Any]] = {
        "history": {"next_history_page_token": "MA=="},
        "heartbeat": {},
        "complete": {"commands": [COMPLETE]},
        "fail": FAILURE,
    }
    task_id = fields.pop("task_id", task["task_id"])
    return await client.post(f"/workflow-tasks/{task_id}/{verb}", {**fence(task), **needed[verb], **fields})


async def test_the_first_task_has_everything_a_worker_replays_from(client: Client, served: ServedPlane) -> None:
    run_id = await client.start(input=HI_BOB)
    task = await client.take()
    events = task.pop("history_events")
    assert [(event["sequence"], event["event_type"]) for event in events] == [
        (1, "StartAccepted"),
        (2, "WorkflowStarted"),
    ]
    assert all(event["recorded_at"].endswith("Z") for event in events)
    expiry = task.pop("lease_expires_at")
    assert len(expiry) == len("2026-11-30T18:05:00.000000Z")
    command = task.pop("workflow_command_id")
    assert command
    assert task == {
        "task_kind": "workflow",
        "task_id": task["task_id"],
        "workflow_id": "w",
        "run_id": run_id,
        "workflow_type": "order",
        "workflow_task_attempt": 1,
        "namespace": served.namespace,
        "task_queue": QUEUE,
        "connection": None,
        "compatibility": None,
        "payload_codec": "avro",
        "arguments": HI_BOB,
        "run_status": "pending",
        "last_history_sequence": 2,
        "total_history_events": 2,
        "next_history_page_token": None,
        "lease_owner": WORKER,
        "cancel_requested": False,
        "history_size_bytes": task["history_size_bytes"],
        "history_fan_out": 0,
        "continue_as_new_recommended": False,
        "history_budget_pressure": "ok",
        "history_budget_pressure_dimensions": [],
        **dict.fromkeys(
            (
                "workflow_wait_kind",
                "open_wait_id",
                "resume_source_kind",
                "resume_source_id",
                "workflow_update_id",
                "workflow_signal_id",
                "signal_name",
                "signal_wait_id",
                "activity_execution_id",
                "activity_attempt_id",
                "activity_type",
                "child_call_id",
                "child_workflow_run_id",
                "timer_id",
                "condition_wait_id",
                "condition_key",
                "condition_definition_fingerprint",
                "workflow_sequence",
                "workflow_event_type",
            )
        ),
    }


async def test_a_completion_schedules_and_the_next_task_says_what_woke_it(client: Client) -> None:
    run_id = await client.start()
    task = await client.take()
    answer = await client.complete(task, schedule(arguments=HI_BOB))
    body = answer.json
    assert (answer.status, body["outcome"], body["recorded"], body["reason"]) == (200, "completed", True, None)
    assert (body["run_id"], body["run_status"], body["workflow_task_attempt"]) == (run_id, "waiting", 1)
    activity = await client.take("activity")
    assert body["created_task_ids"] == [activity["task_id"]]
    done = await client.report(activity, "complete", result=HI_BOB)
    resumed = await client.take()
    assert done.json["next_task_id"] == resumed["task_id"]
    assert (resumed["workflow_wait_kind"], resumed["resume_source_kind"]) == ("activity", "activity_execution")
    assert resumed["resume_source_id"] == resumed["activity_execution_id"] == activity["activity_execution_id"]
    assert resumed["open_wait_id"] == f"activity:{activity['activity_execution_id']}"
    assert (resumed["workflow_event_type"], resumed["workflow_sequence"]) == ("ActivityCompleted", 1)
    sequences = [
        event["payload"]["sequence"]
        for event in resumed["history_events"]
        if event["event_type"].startswith("Activity")
    ]
    assert sequences == [1, 1, 1]
    assert (await client.complete(resumed, COMPLETE)).json["run_status"] == "completed"
    assert await client.events("w", run_id) == [
        "StartAccepted",
        "WorkflowStarted",
        "ActivityScheduled",
        "ActivityStarted",
        "ActivityCompleted",
        "WorkflowCompleted",
    ]


async def test_nothing_to_do_is_acknowledged_and_makes_no_task(client: Client) -> None:
    await client.start()
    await client.complete(await client.take(), schedule(), schedule())
    first, second = await client.take("activity"), await client.take("activity")
    await client.report(first, "complete")
    task = await client.take()
    before = await client.events("w", task["run_id"])
    answer = await client.post(f"/workflow-tasks/{task['task_id']}/fail", {**fence(task), **WAITING})
    body = answer.json
    assert (answer.status, body["outcome"], body["recorded"]) == (200, "waiting_for_history", True)
    assert (body["next_task_id"], body["reason"]) == (None, None)
    assert (await client.poll(timeout_seconds=0)).json["task"] is None
    assert await client.events("w", task["run_id"]) == before
    await client.report(second, "complete")
    assert (await client.take())["activity_execution_id"] == second["activity_execution_id"]


async def test_a_failed_task_comes_back_after_a_pause(client: Client, served: ServedPlane) -> None:
    await client.start()
    task = await client.take()
    answer = await client.post(f"/workflow-tasks/{task['task_id']}/fail", {**fence(task), **FAILURE})
    body = answer.json
    assert (answer.status, body["outcome"], body["recorded"]) == (200, "failed", True)
    assert (await client.poll(timeout_seconds=0)).json["task"] is None
    ((seconds,),) = await served.execute(
        "SELECT extract(epoch FROM available_at - created_at) FROM workflow_tasks WHERE run_id = %s", task["run_id"]
    )
    assert seconds == 3
    again = await client.take()
    assert again["task_id"] == body["next_task_id"]
    assert await client.status() == "pending"


async def test_the_log_says_which_task_failed_and_why(client: Client) -> None:
    await client.start()
    task = await client.take()
    with capture_logs() as logs:
        await client.post(f"/workflow-tasks/{task['task_id']}/fail", {**fence(task), **FAILURE})
    assert [line for line in logs if line["event"] == "workflow_task.failed"] == [
        {
            "event": "workflow_task.failed",
            "log_level": "warning",
            "run_id": task["run_id"],
            "task_number": 1,
            "worker_id": WORKER,
            "failure_type": "ValueError",
            "message": "It broke.",
        }
    ]


async def test_the_log_says_which_commands_were_refused(client: Client) -> None:
    await client.start()
    task = await client.take()
    with capture_logs() as logs:
        answer = await client.complete(task, {"type": "nonsense"})
    assert [line for line in logs if line["event"] == "workflow_task.refused"] == [
        {
            "event": "workflow_task.refused",
            "log_level": "warning",
            "run_id": task["run_id"],
            "task_number": 1,
            "worker_id": WORKER,
            "reason": "validation_failed",
            "errors": answer.json["errors"],
        }
    ]


async def test_a_heartbeat_renews_the_lease(client: Client) -> None:
    await client.start()
    task = await client.take()
    answer = await client.post(f"/workflow-tasks/{task['task_id']}/heartbeat", fence(task))
    body = answer.json
    assert (answer.status, body["renewed"], body["reason"]) == (200, True, None)
    assert (body["run_status"], body["task_status"], body["lease_owner"]) == ("pending", "leased", WORKER)
    assert body["lease_expires_at"] > task["lease_expires_at"]


@pytest.mark.parametrize("verb", VERBS)
class TestGuard:
    """The ownership guard of worker-plane §8.5: each condition, and that the earlier one wins."""

    async def test_an_unknown_task_is_not_found(self, client: Client, verb: str, database_url: str) -> None:
        await client.start()
        task = await client.take()
        for task_id in ("nothing", f"{'0' * 26}.t1", f"{task['run_id']}.t99", f"{task['run_id']}.t0"):
            answer = await report(client, task, verb, task_id=task_id)
            assert (answer.status, answer.json["reason"], answer.json["task_id"]) == (404, "task_not_found", task_id)
        async with worker_plane(database_url, f"{client.served.namespace}-b") as other:
            answer = await report(Client(other), task, verb)
            assert (answer.status, answer.json["reason"]) == (404, "task_not_found")

    async def test_a_run_that_was_terminated_says_so_to_the_lease_holder(self, client: Client, verb: str) -> None:
        await client.start()
        task = await client.take()
        await client.control("POST", "/workflows/w/terminate")
        answer = await report(client, task, verb)
        body = answer.json
        assert (answer.status, body["reason"], body["stop_reason"]) == (409, "run_closed", "run_terminated")
        assert (body["cancel_requested"], body["can_continue"]) == (True, False)
        assert (body["run_status"], body["run_closed_reason"]) == ("terminated", "terminated")
        assert body["run_closed_at"].endswith("Z")
        assert (body["task_status"], body["lease_owner"], body["lease_expires_at"]) == ("cancelled", WORKER, None)
        assert "outcome" not in body
        foreign = await report(client, task, verb, lease_owner="w-2")
        assert foreign.json["reason"] == "lease_owner_mismatch"
        stale = await report(client, task, verb, workflow_task_attempt=7)
        assert (stale.json["reason"], stale.json["current_attempt"]) == ("workflow_task_attempt_mismatch", 1)

    async def test_a_task_that_is_ready_again_is_not_leased(
        self, client: Client, served: ServedPlane, verb: str
    ) -> None:
        await client.start()
        task = await client.take()
        await served.expire_lease(task["task_id"])
        await served.sweep()
        answer = await report(client, task, verb)
        assert (answer.status, answer.json["reason"], answer.json["task_status"]) == (409, "task_not_leased", "ready")

    async def test_an_expired_lease_says_when_it_ended(self, client: Client, served: ServedPlane, verb: str) -> None:
        await client.start()
        task = await client.take()
        await served.expire_lease(task["task_id"])
        answer = await report(client, task, verb, lease_owner="w-2", workflow_task_attempt=7)
        body = answer.json
        assert (answer.status, body["reason"], body["task_status"]) == (409, "lease_expired", "leased")
        assert (body["lease_owner"], body["workflow_task_attempt"]) == (WORKER, 7)
        assert body["lease_expires_at"] < task["lease_expires_at"]

    async def test_another_owner_is_told_before_another_attempt(self, client: Client, verb: str) -> None:
        await client.start()
        task = await client.take()
        answer = await report(client, task, verb, lease_owner="w-2", workflow_task_attempt=7)
        assert (answer.status, answer.json["reason"]) == (409, "lease_owner_mismatch")
        assert answer.json["lease_owner"] == WORKER
        answer = await report(client, task, verb, workflow_task_attempt=7)
        assert (answer.status, answer.json["reason"]) == (409, "workflow_task_attempt_mismatch")
        assert answer.json["current_attempt"] == 1
        assert {"error", "message", "task_id", "workflow_task_attempt"} <= answer.json.keys()


async def test_an_expired_lease_is_recovered_by_the_report_that_finds_it(client: Client, served: ServedPlane) -> None:
    await client.start()
    task = await client.take()
    await served.expire_lease(task["task_id"])
    assert (await report(client, task, "complete")).json["reason"] == "lease_expired"
    again = await client.take()
    assert (again["task_id"], again["workflow_task_attempt"]) == (task["task_id"], 2)
    late = await report(client, task, "complete")
    assert late.json["reason"] == "workflow_task_attempt_mismatch"


async def test_the_guard_comes_before_the_commands(client: Client) -> None:
    await client.start()
    task = await client.take()
    answer = await report(client, task, "complete", lease_owner="w-2", commands=[{"type": "nonsense"}])
    assert (answer.status, answer.json["reason"]) == (409, "lease_owner_mismatch")


@pytest.mark.parametrize(
    ("commands", "field"),
    [
        ([], "commands"),
        ([{"type": "nonsense"}], "commands.0.type"),
        ([side_effect(), schedule("")], "commands.1.activity_type"),
        ([schedule(start_to_close_timeout=0)], "commands.0.start_to_close_timeout"),
        ([schedule(delay_seconds=1)], "commands.0.delay_seconds"),
        ([schedule(arguments={"codec": "json", "blob": "AA=="})], "commands.0.arguments"),
        ([schedule(arguments={"codec": "avro", "blob": "AA=="})], "commands.0.arguments"),
        ([COMPLETE, side_effect()], "commands.0.type"),
        ([{"type": "fail_workflow", "message": ""}], "commands.0.message"),
    ],
)
async def test_a_refused_batch_changes_nothing_and_the_lease_stays(
    client: Client, served: ServedPlane, commands: list[Any], field: str
) -> None:
    await client.start()
    task = await client.take()
    before = await served.dump()
    answer = await client.complete(task, *commands)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert list(answer.json["errors"]) == list(answer.json["validation_errors"]) == [field]
    assert await served.dump() == before
    assert (await client.complete(task, COMPLETE)).status == 200


async def test_a_batch_over_a_structural_limit_is_refused_with_its_numbers(client: Client, served: ServedPlane) -> None:
    await client.start()
    task = await client.take()
    before = await served.dump()
    answer = await client.complete(task, *[side_effect()] * 1001)
    body = answer.json
    assert (answer.status, body["reason"], body["outcome"]) == (422, "structural_limit_exceeded", "rejected")
    assert (body["limit_kind"], body["current_value"], body["configured_limit"]) == ("command_batch_size", 1001, 1000)
    assert await served.dump() == before


async def test_a_run_past_its_deadline_refuses_and_is_closed(client: Client, served: ServedPlane) -> None:
    await client.start(run_timeout_seconds=60)
    task = await client.take()
    await served.execute(
        "UPDATE workflow_runs SET run_deadline_at = dw_now() - interval '1 second' WHERE run_id = %s", task["run_id"]
    )
    answer = await client.complete(task, COMPLETE)
    body = answer.json
    assert (answer.status, body["reason"], body["recorded"]) == (409, "run_timed_out", False)
    assert await client.status() == "failed"
    late = await client.complete(task, COMPLETE)
    assert (late.json["reason"], late.json["stop_reason"]) == ("run_closed", "run_closed")
    assert late.json["cancel_requested"] is False


async def test_a_task_is_leased_to_one_of_many_polls(client: Client) -> None:
    polls = [asyncio.create_task(client.poll(timeout_seconds=2)) for _ in range(5)]
    await client.start()
    answers = await asyncio.gather(*polls)
    assert sum(answer.json["task"] is not None for answer in answers) == 1
