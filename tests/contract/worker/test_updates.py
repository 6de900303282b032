"""Updates from their caller's and their worker's side (control-plane §13.3, worker-plane §9.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dw_core.payloads.codec import EMPTY_LIST_BLOB
from tests.contract.shell_client import Answer, call
from tests.contract.worker.client import COMPLETE, HI_BOB, NULL, WAITING, Client, fence, schedule
from tests.harness.waiting import eventually
from tests.harness.worker_plane import ServedPlane

WAIT = {"type": "open_condition_wait", "condition_key": "ready"}


async def waiting_run(client: Client, **fields: Any) -> str:
    """A run that waits for a condition."""
    run_id = await client.start(**fields)
    assert (await client.complete(await client.take(), WAIT)).status == 200
    return run_id


async def update(client: Client, name: str = "set", run_id: str | None = None, **body: Any) -> Answer:
    """Send an update."""
    run = "" if run_id is None else f"/runs/{run_id}"
    return await client.control("POST", f"/workflows/w{run}/update/{name}", body)


def apply(task: dict[str, Any], result: Any = HI_BOB) -> dict[str, Any]:
    """The command that completes the update of a task."""
    return {"type": "complete_update", "update_id": task["workflow_update_id"], "result": result}


def refuse(task: dict[str, Any], message: str = "no") -> dict[str, Any]:
    """The command that fails the update of a task."""
    return {"type": "fail_update", "update_id": task["workflow_update_id"], "message": message}


async def test_an_update_is_accepted_and_described(client: Client) -> None:
    run_id = await waiting_run(client)
    answer = await update(client, "set", run_id, input=[1], request_id="r")
    body = answer.json
    assert answer.status == 202
    control = body.pop("control_plane")
    command_id, accepted_at = body.pop("command_id"), body.pop("accepted_at")
    assert (control["operation"], control["operation_name"], control["update_id"]) == (
        "update",
        "set",
        f"{command_id}.u",
    )
    assert accepted_at is not None
    assert body == {
        "workflow_id": "w",
        "run_id": run_id,
        "requested_run_id": run_id,
        "resolved_run_id": run_id,
        "target_scope": "run",
        "workflow_type": "order",
        "command_sequence": 2,
        "command_source": "control_plane",
        "command_status": "accepted",
        "request_id": "r",
        "retained": False,
        "intent_verified": True,
        "validation_errors": {},
        "update_id": f"{command_id}.u",
        "update_name": "set",
        "update_status": "accepted",
        "outcome": None,
        "reason": None,
        "rejection_reason": None,
        "message": None,
        "workflow_sequence": None,
        "result": None,
        "result_envelope": None,
        "failure_id": None,
        "failure_message": None,
        "applied_at": None,
        "rejected_at": None,
        "closed_at": None,
        "wait_for": "accepted",
        "wait_timed_out": False,
        "wait_timeout_seconds": None,
    }


async def test_a_caller_waits_for_completion(client: Client) -> None:
    run_id = await waiting_run(client)
    asked = asyncio.create_task(update(client, wait_for="completed"))
    task = await client.take()
    assert task["resume_source_kind"] == "workflow_update"
    assert [e for e in await client.events("w", run_id) if e == "UpdateAccepted"] == ["UpdateAccepted"]
    assert (await client.complete(task, apply(task))).status == 200
    answer = await asked
    assert (answer.status, answer.json["update_status"], answer.json["outcome"]) == (
        200,
        "completed",
        "update_completed",
    )
    assert (answer.json["result"], answer.json["result_envelope"]) == ("hi bob", HI_BOB)
    assert answer.json["workflow_sequence"] == 1
    assert answer.json["applied_at"] == answer.json["closed_at"]
    follow_up = await client.take()
    assert follow_up["workflow_update_id"] is None
    assert (await client.complete(follow_up, COMPLETE)).status == 200


async def test_a_failed_update_is_told_with_its_message(client: Client) -> None:
    await waiting_run(client)
    asked = asyncio.create_task(update(client, wait_for="completed"))
    task = await client.take()
    assert (await client.complete(task, refuse(task, "not today"))).status == 200
    answer = await asked
    assert (answer.status, answer.json["reason"], answer.json["update_status"]) == (422, "update_failed", "failed")
    assert (answer.json["failure_message"], answer.json["message"]) == ("not today", "not today")
    assert answer.json["failure_id"] == f"{answer.json['update_id']}.f"
    assert answer.json["control_plane"]["update_id"] == answer.json["update_id"]


async def test_the_end_of_the_wait_is_no_error(client: Client) -> None:
    await waiting_run(client)
    answer = await update(client, wait_for="completed", wait_timeout_seconds=1)
    assert (answer.status, answer.json["update_status"]) == (202, "accepted")
    assert (answer.json["wait_timed_out"], answer.json["wait_timeout_seconds"]) == (True, 1)


async def test_an_update_sent_again_tells_its_present_state(client: Client) -> None:
    await waiting_run(client)
    first = await update(client, input=[1], request_id="r")
    task = await client.take()
    waiting = asyncio.create_task(update(client, input=[1], request_id="r", wait_for="completed"))
    assert (await client.complete(task, apply(task, NULL))).status == 200
    answer = await waiting
    assert (answer.status, answer.json["retained"], answer.json["update_id"]) == (200, True, first.json["update_id"])
    again = await update(client, input=[1], request_id="r")
    assert (again.status, again.json["update_status"], again.json["result_envelope"]) == (200, "completed", NULL)
    other = await update(client, input=[2], request_id="r")
    assert (other.status, other.json["reason"]) == (409, "request_id_conflict")
    assert other.json["retained_command_type"] == "update"


async def test_a_waiting_caller_is_released_when_the_run_closes(client: Client) -> None:
    await waiting_run(client)
    asked = asyncio.create_task(update(client, wait_for="completed"))
    await client.take()
    assert (await client.control("POST", "/workflows/w/terminate")).status == 200
    answer = await asked
    assert (answer.status, answer.json["update_status"]) == (422, "failed")
    assert "closed as terminated before accepted update set" in answer.json["failure_message"]
    described = (await client.control("GET", "/workflows/w")).json
    assert described["status"] == "terminated"
    late = await update(client)
    assert (late.status, late.json["reason"], late.json["outcome"]) == (409, "run_not_active", "rejected_not_active")


async def test_a_failed_run_with_an_open_update_is_described_by_its_own_failure(client: Client) -> None:
    await client.start()
    task = await client.take()
    await update(client)
    failed = {"type": "fail_workflow", "message": "broken"}
    assert (await client.complete(task, failed)).status == 200
    described = (await client.control("GET", "/workflows/w")).json
    assert (described["status"], described["failure"]["message"]) == ("failed", "broken")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"wait_for": "applied"}, "wait_for"),
        ({"wait_policy": "completed"}, "wait_policy"),
        ({"wait_timeout_seconds": 0}, "wait_timeout_seconds"),
        ({"request_id": ""}, "request_id"),
        ({"input": 5}, "input"),
    ],
)
async def test_a_bad_request_changes_nothing(
    client: Client, served: ServedPlane, body: dict[str, Any], field: str
) -> None:
    await client.start()
    before = await served.dump()
    answer = await update(client, **body)
    assert (answer.status, answer.json["reason"], list(answer.json["errors"])) == (422, "validation_failed", [field])
    assert await served.dump() == before


async def test_who_does_not_exist_takes_no_update(client: Client) -> None:
    assert (await update(client)).json["reason"] == "instance_not_found"
    await client.start()
    assert (await update(client, run_id="nothing")).json["reason"] == "run_not_found"


async def test_a_report_on_another_update_is_refused_and_changes_nothing(client: Client, served: ServedPlane) -> None:
    await waiting_run(client)
    await update(client)
    task = await client.take()
    before = await served.dump()
    for commands in ([apply(task) | {"update_id": "x"}], [apply(task), refuse(task)], [COMPLETE], [schedule()]):
        answer = await client.complete(task, *commands)
        assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
        assert all(key.startswith("commands.") for key in answer.json["errors"])
    assert await served.dump() == before
    first = await client.complete(task, apply(task))
    again = await client.complete(task, apply(task))
    assert (first.status, again.status, again.json["outcome"]) == (200, 200, "completed")


async def test_the_declared_contract_guards_signals_and_updates(client: Client, served: ServedPlane) -> None:
    parameter = {"name": "amount", "position": 0, "required": True, "type": "int", "allows_null": False}
    handler = [{"name": "set", "parameters": [parameter]}]
    contract = {"signals": ["set"], "signal_contracts": handler, "updates": ["set"], "update_contracts": handler}
    await client.register(supported_workflow_types=["order"], workflow_command_contracts={"order": contract})
    await client.register("w-2", supported_activity_types=["charge"])
    await client.start()
    before = await client.events("w", (await client.control("GET", "/workflows/w")).json["run_id"])
    for kind in ("signal", "update"):
        unknown = await client.control("POST", f"/workflows/w/{kind}/other", {"request_id": f"{kind}-1"})
        assert (unknown.status, unknown.json["reason"]) == (404, f"unknown_{kind}")
        assert unknown.json[f"declared_{kind}s"] == ["set"]
        misfit = await client.control("POST", f"/workflows/w/{kind}/set", {"input": {"sum": 1}})
        assert (misfit.status, misfit.json["reason"]) == (422, f"invalid_{kind}_arguments")
        assert misfit.json["validation_errors"] == {"sum": ["is not a declared parameter"]}
        assert misfit.json["outcome"] == "rejected_invalid_arguments"
        fits = await client.control("POST", f"/workflows/w/{kind}/set", {"input": {"amount": 1}})
        assert fits.status == 202
    run_id = (await client.control("GET", "/workflows/w")).json["run_id"]
    assert (await client.events("w", run_id))[len(before) :] == ["SignalReceived", "UpdateAccepted"]


async def test_a_limit_of_open_updates_is_a_conflict(client: Client, served: ServedPlane) -> None:
    await waiting_run(client)
    for _ in range(3):
        await update(client)
    await served.execute("UPDATE workflow_runs SET open_update_count = 500 WHERE namespace = %s", served.namespace)
    answer = await update(client)
    assert (answer.status, answer.json["reason"], answer.json["limit_kind"]) == (
        409,
        "structural_limit_exceeded",
        "pending_update_count",
    )
    await served.execute("UPDATE workflow_runs SET open_update_count = 3 WHERE namespace = %s", served.namespace)


async def test_a_caller_that_hangs_up_leaves_its_update(client: Client) -> None:
    await waiting_run(client)
    gone = asyncio.Event()
    sent = {"x-durable-workflow-control-plane-version": "2", "x-namespace": client.served.namespace}
    body = {"wait_for": "completed", "wait_timeout_seconds": 30}
    asked = asyncio.create_task(
        call(client.served.app, "POST", "/api/workflows/w/update/set", headers=sent, body=body, hang_up=gone)
    )
    task = await client.take()
    gone.set()
    await asked
    assert (await client.complete(task, apply(task))).status == 200


async def test_a_plain_task_comes_before_an_update_that_follows_a_signal(client: Client) -> None:
    await client.start()
    await client.complete(await client.take(), schedule())
    await client.control("POST", "/workflows/w/signal/go")
    await update(client)
    plain = await client.take()
    assert plain["workflow_update_id"] is None
    assert (await client.post(f"/workflow-tasks/{plain['task_id']}/fail", {**fence(plain), **WAITING})).status == 200
    task = await client.take()
    assert task["workflow_update_id"] is not None
    applied = [e["payload"] for e in task["history_events"] if e["event_type"] == "UpdateAccepted"]
    assert applied[0]["arguments"] == {"codec": "avro", "blob": EMPTY_LIST_BLOB}


async def test_waiting_callers_share_one_look_a_second(client: Client, served: ServedPlane) -> None:
    await waiting_run(client)
    registry = served.plane.node.metrics.registry

    def statements() -> float:
        return registry.get_sample_value("dw_store_statements_total") or 0

    callers = 40
    asked = [asyncio.create_task(update(client, wait_for="completed", wait_timeout_seconds=2)) for _ in range(callers)]
    await until_accepted(client, callers)
    before = statements()
    answers = await asyncio.gather(*asked)
    assert [(answer.status, answer.json["wait_timed_out"]) for answer in answers] == [(202, True)] * callers
    assert statements() - before < 1.5 * callers, "one read for each caller at its end, and the shared looks"


async def until_accepted(client: Client, count: int) -> None:
    """Wait until so many updates of the run are open."""
    statement = "SELECT open_update_count FROM workflow_runs WHERE namespace = %s"

    async def are_open() -> bool:
        return await client.served.execute(statement, client.served.namespace) == [(count,)]

    await eventually(are_open, f"{count} updates are open")
