"""``POST …/cancel``, ``…/request-cancellation`` and ``…/repair`` (control-plane §13.5-13.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dw_core.engine.inputs import FailWorkflowTask
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def start(send: Send, workflow_id: str = "w") -> str:
    answer = await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": "t"})
    return str(answer.json["run_id"])


async def test_cancel_closes_the_run_once(send: Send) -> None:
    run_id = await start(send)
    body = {"reason": "enough", "request_id": "r-1"}
    first = await send("POST", "/workflows/w/cancel", body)
    assert (first.status, first.json["outcome"], first.json["run_id"]) == (200, "cancelled", run_id)
    assert first.json["control_plane"]["operation"] == "cancel"
    again = await send("POST", "/workflows/w/cancel", body)
    assert (again.status, again.json["retained"], again.json["command_id"]) == (200, True, first.json["command_id"])
    other = await send("POST", f"/workflows/w/runs/{run_id}/cancel")
    assert (other.status, other.json["reason"]) == (409, "run_not_active")
    shown = (await send("GET", "/workflows/w")).json
    assert (shown["status"], shown["closed_reason"], shown["status_bucket"]) == ("cancelled", "cancelled", "failed")


@pytest.mark.parametrize("verb", ["cancel", "request-cancellation", "repair"])
async def test_what_does_not_exist_is_not_found(send: Send, verb: str) -> None:
    run_id = await start(send)
    await start(send, "other")
    for path, reason in (
        (f"/workflows/nobody/{verb}", "instance_not_found"),
        (f"/workflows/nobody/runs/{run_id}/{verb}", "instance_not_found"),
        (f"/workflows/w/runs/nothing/{verb}", "run_not_found"),
    ):
        answer = await send("POST", path)
        assert (answer.status, answer.json["reason"]) == (404, reason)


async def test_a_cancellation_request_is_accepted_once(send: Send) -> None:
    run_id = await start(send)
    assert (await send("GET", "/workflows/w")).json["cancellation_request"] is None
    first = await send("POST", "/workflows/w/request-cancellation", {"reason": "late", "cleanup_timeout_seconds": 60})
    body = first.json
    assert (first.status, body["accepted"], body["duplicate"], body["run_status"]) == (202, True, False, "pending")
    assert (body["workflow_id"], body["run_id"]) == ("w", run_id)
    request = body["cancellation_request"]
    requested, deadline = (datetime.fromisoformat(request[key]) for key in ("requested_at", "cleanup_deadline_at"))
    assert (deadline - requested).total_seconds() == 60
    again = await send("POST", f"/workflows/w/runs/{run_id}/request-cancellation", {"cleanup_timeout_seconds": 5})
    assert (again.status, again.json["duplicate"], again.json["cancellation_request"]) == (200, True, request)
    assert (await send("GET", "/workflows/w")).json["cancellation_request"] == request


@pytest.mark.parametrize("seconds", [0, 3_601, 1.5, "60"])
async def test_the_time_to_clean_up_has_bounds(send: Send, seconds: object) -> None:
    await start(send)
    answer = await send("POST", "/workflows/w/request-cancellation", {"cleanup_timeout_seconds": seconds})
    assert (answer.status, list(answer.json["errors"])) == (422, ["cleanup_timeout_seconds"])


async def test_a_claim_without_the_capability_keeps_the_request_out(plane: ControlPlane, send: Send) -> None:
    await start(send)
    await plane.claim("default")
    answer = await send("POST", "/workflows/w/request-cancellation")
    assert (answer.status, answer.json["reason"]) == (409, "active_claim_cancellation_not_supported")
    assert answer.json["workflow_task_attempt"] == 1


async def test_a_closed_run_takes_no_request(send: Send) -> None:
    await start(send)
    await send("POST", "/workflows/w/terminate")
    answer = await send("POST", "/workflows/w/request-cancellation")
    assert (answer.status, answer.json["reason"], answer.json["run_status"]) == (409, "run_not_active", "terminated")


async def test_repair_ends_the_pause_of_a_failed_task(plane: ControlPlane, send: Send) -> None:
    run_id = await start(send)
    assert (await send("POST", "/workflows/w/repair")).json["outcome"] == "repair_not_needed"
    task = (await plane.claim("default")).task
    assert task.lease_owner is not None
    fence: dict[str, Any] = {
        "run_id": run_id,
        "namespace": task.namespace,
        "task_number": task.task_number,
        "attempt": task.attempt,
    }
    await plane.pump.submit(FailWorkflowTask(**fence, lease_owner=task.lease_owner, message="It broke."))
    answer = await send("POST", f"/workflows/w/runs/{run_id}/repair", {"request_id": "r-1"})
    assert (answer.status, answer.json["outcome"]) == (200, "repair_dispatched")
    assert answer.json["control_plane"]["operation"] == "repair"
    assert (await plane.claim("default")).task.task_number == task.task_number + 1


async def test_a_description_says_who_a_request_waits_for(send: Send) -> None:
    await send("POST", "/workflows", {"workflow_id": "w", "workflow_type": "t"})
    await send("POST", "/workflows/w/request-cancellation", {"cleanup_timeout_seconds": 60})
    reason = (await send("GET", "/workflows/w")).json["wait_reason"]
    assert "cooperative_cancellation" in reason and "is cancelled at 20" in reason


async def test_a_closed_run_is_not_repaired_and_a_request_id_is_used_once(plane: ControlPlane, send: Send) -> None:
    run_id = (await send("POST", "/workflows", {"workflow_type": "t", "workflow_id": "w"})).json["run_id"]
    await send("POST", "/workflows/w/signal/go", {"request_id": "r-1"})
    for path in ("/workflows/w/repair", f"/workflows/w/runs/{run_id}/repair"):
        taken = await send("POST", path, {"request_id": "r-1"})
        assert (taken.status, taken.json["reason"]) == (409, "request_id_conflict")
    await send("POST", "/workflows/w/terminate")
    for path in ("/workflows/w/repair", f"/workflows/w/runs/{run_id}/repair"):
        closed = await send("POST", path)
        assert (closed.status, closed.json["reason"]) == (409, "run_not_active")
