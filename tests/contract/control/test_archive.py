"""``POST …/archive`` at both levels."""

from __future__ import annotations

import psycopg

from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane


async def started(send: Send, workflow_id: str = "w") -> str:
    answer = await send("POST", "/workflows", {"workflow_id": workflow_id, "workflow_type": "t"})
    return str(answer.json["run_id"])


async def test_a_closed_run_is_archived_once(send: Send) -> None:
    run_id = await started(send)
    await send("POST", "/workflows/w/terminate")
    before = (await send("GET", "/workflows/w")).json
    assert before["actions"]["can_archive"] is True
    first = await send("POST", "/workflows/w/archive", {"reason": "audit"})
    assert (first.status, first.json["outcome"], first.json["command_status"]) == (200, "archived", "accepted")
    assert (first.json["run_id"], first.json["control_plane"]["operation"]) == (run_id, "archive")
    again = await send("POST", f"/workflows/w/runs/{run_id}/archive")
    assert (again.status, again.json["outcome"], again.json["target_scope"]) == (200, "archive_not_needed", "run")
    after = (await send("GET", "/workflows/w")).json
    assert after["actions"]["can_archive"] is False
    assert (after["status"], after["failure"], after["output"]) == (before["status"], before["failure"], None)
    bundle = (await send("GET", f"/workflows/w/runs/{run_id}/history/export")).json
    assert bundle["workflow"]["archived_at"] is not None
    events = (await send("GET", f"/workflows/w/runs/{run_id}/history")).json["events"][-2:]
    command_id = first.json["command_id"]
    common = {"workflow_command_id": command_id, "workflow_instance_id": "w", "workflow_run_id": run_id}
    assert [(event["event_type"], event["payload"]) for event in events] == [
        ("ArchiveRequested", common | {"command_type": "archive", "outcome": "archived", "reason": "audit"}),
        ("WorkflowArchived", common | {"archive_command_id": command_id, "reason": "audit"}),
    ]


async def test_a_repeated_request_gets_the_first_answer(send: Send) -> None:
    await started(send)
    await send("POST", "/workflows/w/terminate")
    body = {"request_id": "r-1", "reason": "audit"}
    first = (await send("POST", "/workflows/w/archive", body)).json
    second = (await send("POST", "/workflows/w/archive", body)).json
    assert (second["command_id"], second["outcome"], second["retained"]) == (first["command_id"], "archived", True)
    other = await send("POST", "/workflows/w/archive", body | {"reason": "other"})
    assert (other.status, other.json["reason"]) == (409, "request_id_conflict")


async def test_an_open_run_is_not_archived(send: Send) -> None:
    run_id = await started(send)
    for path in ("/workflows/w/archive", f"/workflows/w/runs/{run_id}/archive"):
        answer = await send("POST", path, {})
        assert (answer.status, answer.json["reason"]) == (409, "run_not_closed")
        assert (answer.json["outcome"], answer.json["command_status"]) == ("rejected_run_not_closed", "rejected")
    assert (await send("POST", "/workflows/none/archive")).json["reason"] == "instance_not_found"
    assert (await send("POST", "/workflows/w/runs/none/archive")).json["reason"] == "run_not_found"
    bundle = (await send("GET", f"/workflows/w/runs/{run_id}/history/export")).json
    assert [(c["type"], c["status"]) for c in bundle["commands"]] == [
        ("start", "accepted"),
        ("archive", "rejected"),
        ("archive", "rejected"),
    ]


async def test_retention_passes_archived_runs_by(send: Send, plane: ControlPlane, database_url: str) -> None:
    run_ids = [await started(send, name) for name in ("kept", "gone")]
    for name in ("kept", "gone"):
        await send("POST", f"/workflows/{name}/terminate")
    await send("POST", "/workflows/kept/archive")
    with psycopg.connect(database_url) as connection:
        for table in ("workflow_runs", "workflow_run_summaries"):
            connection.execute(
                f"UPDATE {table} SET closed_at = closed_at - interval '400 days' WHERE namespace = %s".encode(),
                [plane.namespace],
            )
    assert (await send("GET", "/system/retention")).json["expired_run_ids"] == [run_ids[1]]
    results = (await send("POST", "/system/retention/pass", {"run_ids": run_ids})).json["results"]
    assert {r["run_id"]: (r["outcome"], r["reason"]) for r in results} == {
        run_ids[0]: ("skipped", "run_archived"),
        run_ids[1]: ("pruned", None),
    }
    assert (await send("GET", "/workflows/kept")).status == 200
