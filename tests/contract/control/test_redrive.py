"""``POST …/runs/{run_id}/redrive``: its refusals; what it does is seen with the published worker."""

from __future__ import annotations

from tests.contract.control.conftest import Send


async def test_only_the_current_run_and_only_a_failed_one_is_redriven(send: Send) -> None:
    answer = await send("POST", "/workflows", {"workflow_id": "w", "workflow_type": "t", "run_timeout_seconds": 3600})
    run_id = answer.json["run_id"]
    refused = await send("POST", f"/workflows/w/runs/{run_id}/redrive", {"request_id": "r"})
    assert (refused.status, refused.json["reason"]) == (409, "run_not_failed")
    assert (refused.json["outcome"], refused.json["command_status"]) == ("rejected_run_not_failed", "rejected")
    assert refused.json["control_plane"]["operation"] == "redrive"
    again = await send("POST", f"/workflows/w/runs/{run_id}/redrive", {"request_id": "r"})
    assert (again.status, again.json["retained"]) == (409, True)
    await send("POST", "/workflows/w/terminate")
    terminated = await send("POST", f"/workflows/w/runs/{run_id}/redrive")
    assert (terminated.status, terminated.json["reason"]) == (409, "run_not_failed")
    assert (await send("POST", "/workflows/w/runs/none/redrive")).json["reason"] == "run_not_found"
    assert (await send("POST", "/workflows/none/runs/none/redrive")).json["reason"] == "instance_not_found"
    assert (await send("POST", "/workflows/w/redrive")).status == 404
