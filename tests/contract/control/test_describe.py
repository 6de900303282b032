"""Reads of single runs, and of the runs of one workflow id."""

from __future__ import annotations

import psycopg

from dw_core.engine.commands.parsed import CompleteWorkflow, FailWorkflow, ScheduleActivity
from dw_core.engine.inputs import FailWorkflowTask
from dw_core.engine.rows import RetryPolicy
from dw_core.engine.run_rows import Timeouts
from dw_core.payloads.codec import EMPTY_LIST_BLOB, encode_blob
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane

ACTIVITY = ScheduleActivity(
    activity_type="charge",
    queue=None,
    arguments=EMPTY_LIST_BLOB,
    has_retry_policy=False,
    retry_policy=RetryPolicy(),
    timeouts=Timeouts(),
)


async def start(send: Send, **fields: object) -> str:
    answer = await send("POST", "/workflows", {"workflow_type": "orders", "workflow_id": "order-1", **fields})
    run_id = answer.json["run_id"]
    assert isinstance(run_id, str)
    return run_id


async def test_a_new_run_waits_for_its_workflow_task(plane: ControlPlane, send: Send) -> None:
    run_id = await start(
        send,
        input=[{"a": 1}],
        memo={"source": "api"},
        search_attributes={"Customer": "c1", "Gone": None},
        business_key="b-1",
        run_timeout_seconds=600,
        priority=0,
        fairness_key="tenant",
        fairness_weight=3,
    )
    for path in ("/workflows/order-1", f"/workflows/order-1/runs/{run_id}"):
        body = (await send("GET", path)).json
        envelope = body.pop("control_plane")
        assert envelope["operation"] == ("describe" if path.endswith("order-1") else "describe_run")
        assert (body["run_id"], body["run_number"], body["run_count"], body["is_current_run"]) == (run_id, 1, 1, True)
        assert (body["status"], body["status_bucket"], body["is_terminal"]) == ("pending", "running", False)
        assert (body["closed_reason"], body["closed_at"], body["wait_kind"]) == (None, None, "workflow_task")
        assert (body["input"], body["output"], body["output_envelope"]) == ([{"a": 1}], None, None)
        assert (body["memo"], body["search_attributes"]) == ({"source": "api"}, {"Customer": "c1"})
        assert (body["business_key"], body["priority"], body["fairness_key"], body["fairness_weight"]) == (
            "b-1",
            0,
            "tenant",
            3,
        )
        assert (body["run_timeout_seconds"], body["execution_timeout_seconds"]) == (600, None)
        assert body["run_deadline_at"] > body["started_at"] and body["execution_deadline_at"] is None
        assert body["actions"] == {
            "can_signal": True,
            "can_query": True,
            "can_update": True,
            "can_cancel": True,
            "can_terminate": True,
            "can_repair": True,
            "can_archive": False,
        }
        assert (body["failure"], body["error"], body["failures"]) == (None, None, [])
        assert (body["compatibility_status"], body["compatibility_supported_in_fleet"]) == ("compatible", True)


async def test_a_run_whose_task_keeps_failing_says_so(plane: ControlPlane, send: Send, database_url: str) -> None:
    run_id = await start(send)
    task = (await plane.claim("default")).task
    assert task.lease_owner is not None
    await plane.pump.submit(
        FailWorkflowTask(
            run_id=run_id,
            namespace=task.namespace,
            task_number=task.task_number,
            lease_owner=task.lease_owner,
            attempt=task.attempt,
            message="It broke.",
        )
    )
    body = (await send("GET", "/workflows/order-1")).json
    assert (body["wait_kind"], body["wait_reason"]) == (
        "workflow_task",
        "The workflow task has failed 1 time in a row; the log of its worker says why.",
    )
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "UPDATE workflow_runs SET task_failure_count = 5, replay_blocked = true WHERE run_id = %s", (run_id,)
        )
    assert (await send("GET", "/workflows/order-1")).json["wait_reason"] == (
        "Replay is blocked after 5 failures in a row; repair the run, or start workers of another build."
    )


async def test_a_run_with_open_activities_waits_for_them(plane: ControlPlane, send: Send) -> None:
    await start(send)
    await plane.complete(await plane.claim("default"), ACTIVITY, ACTIVITY)
    body = (await send("GET", "/workflows/order-1")).json
    assert (body["status"], body["wait_kind"], body["wait_reason"]) == (
        "waiting",
        "activity",
        "2 activities are open.",
    )


async def test_a_completed_run_shows_its_output(plane: ControlPlane, send: Send) -> None:
    await start(send)
    blob = encode_blob({"total": 3})
    await plane.complete(await plane.claim("default"), CompleteWorkflow(result=blob))
    body = (await send("GET", "/workflows/order-1")).json
    assert (body["status"], body["status_bucket"], body["closed_reason"]) == ("completed", "completed", "completed")
    assert (body["output"], body["output_envelope"]) == ({"total": 3}, {"codec": "avro", "blob": blob})
    assert (body["wait_kind"], body["is_terminal"]) == (None, True)
    assert [name for name, allowed in body["actions"].items() if allowed] == ["can_query", "can_archive"]


async def test_a_failed_run_shows_its_failure(plane: ControlPlane, send: Send) -> None:
    run_id = await start(send)
    command = FailWorkflow(message="no stock", exception_type="OutOfStock", non_retryable=True)
    await plane.complete(await plane.claim("default"), command)
    body = (await send("GET", "/workflows/order-1")).json
    failure = body["failure"]
    assert (body["status"], body["error"]) == ("failed", "no stock")
    assert (failure["exception_type"], failure["failure_category"], failure["non_retryable"]) == (
        "OutOfStock",
        "application",
        True,
    )
    assert (failure["source_kind"], failure["source_id"], failure["event_sequence"]) == ("workflow_run", run_id, 3)
    assert body["exception"] == {"type": "OutOfStock", "message": "no stock"}
    assert [f["message"] for f in body["failures"]] == ["no stock"]


async def test_a_large_payload_is_shown_as_its_envelope_only(send: Send) -> None:
    await start(send, input=["x" * 300_000])
    body = (await send("GET", "/workflows/order-1")).json
    assert (body["input"], body["payload_previews"]["input_omitted"]) == (None, True)
    assert len(body["input_envelope"]["blob"]) > body["payload_previews"]["max_encoded_bytes"]


async def test_a_pinned_run_without_its_build_in_the_fleet_says_so(send: Send) -> None:
    await start(send, build_id="build-7")
    body = (await send("GET", "/workflows/order-1")).json
    assert (body["compatibility"], body["compatibility_status"]) == ("build-7", "no_compatible_worker")
    assert "build-7" in body["compatibility_fleet_reason"]


async def test_unknown_ids_are_told_apart(send: Send) -> None:
    run_id = await start(send)
    await send("POST", "/workflows", {"workflow_type": "orders", "workflow_id": "order-2"})
    for path, reason in (
        ("/workflows/nobody", "instance_not_found"),
        (f"/workflows/nobody/runs/{run_id}", "instance_not_found"),
        ("/workflows/order-1/runs/nothing", "run_not_found"),
        (f"/workflows/order-2/runs/{run_id}", "run_not_found"),
        ("/workflows/nobody/runs", "instance_not_found"),
        ("/workflows/order-1/runs/nothing/history", "run_not_found"),
        ("/workflows/nobody/runs/nothing/history", "instance_not_found"),
        ("/workflows/order-1%00", "not_found"),
    ):
        answer = await send("GET", path)
        assert (path, answer.status, answer.json["reason"]) == (path, 404, reason)


async def test_the_runs_of_a_workflow_are_listed(send: Send) -> None:
    run_id = await start(send)
    body = (await send("GET", "/workflows/order-1/runs")).json
    assert (body["workflow_id"], body["run_count"], body["control_plane"]["operation"]) == ("order-1", 1, "list_runs")
    (row,) = body["runs"]
    assert (row["run_id"], row["run_number"], row["is_current_run"], row["status"]) == (run_id, 1, True, "pending")
