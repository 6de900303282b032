"""Validations of updates, from both sides (control-plane §13.4, worker-plane §14)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dw_core.payloads.codec import EMPTY_LIST_BLOB
from tests.contract.shell_client import Answer
from tests.contract.worker.client import QUEUE, WORKER, Client
from tests.harness.worker_plane import worker_plane

EMPTY_LIST = {"codec": "avro", "blob": EMPTY_LIST_BLOB}
CONTRACT = {"updates": ["set"], "update_validators": ["set"]}
CAPABLE: dict[str, Any] = {
    "capabilities": ["update_validation_tasks"],
    "workflow_command_contracts": {"order": CONTRACT},
}
BOTH: dict[str, Any] = {"task_kinds": ["workflow", "update_validation"]}


async def guarded_run(client: Client) -> str:
    """A run whose update ``set`` has a validator."""
    assert (await client.register(**CAPABLE)).status == 201
    return await client.start()


def asking(client: Client, **body: Any) -> asyncio.Task[Answer]:
    """Send the update; its caller waits in the background."""
    sent = {"request_id": "r"} | body
    return asyncio.create_task(client.control("POST", "/workflows/w/update/set", sent))


async def validation(client: Client, worker_id: str = WORKER) -> dict[str, Any]:
    """The next validation task."""
    return await client.take("update-validation", worker_id)


async def report(client: Client, task: dict[str, Any], verb: str, **fields: Any) -> Answer:
    """Report on a validation as the worker it is leased to, unless ``fields`` say something else."""
    named = {"lease_owner": task["lease_owner"], "update_validation_attempt": task["update_validation_attempt"]}
    return await client.post(f"/update-validation-tasks/{task['update_validation_task_id']}/{verb}", named | fields)


async def test_an_approved_update_is_accepted(client: Client) -> None:
    run_id = await guarded_run(client)
    before = await client.events("w", run_id)
    asked = asking(client)
    task = await validation(client)
    assert await client.events("w", run_id) == before, "no history before the verdict"
    answer = await report(client, task, "approve")
    assert answer.json | {"outcome": "approved", "reason": None, "status": 200} == answer.json
    accepted = await asked
    assert (accepted.status, accepted.json["update_status"]) == (202, "accepted")
    assert accepted.json["update_id"] == task["update_id"] == answer.json["update_id"]
    assert (await client.events("w", run_id))[len(before) :] == ["UpdateAccepted"]
    again = await client.control("POST", "/workflows/w/update/set", {"request_id": "r"})
    assert (again.status, again.json["retained"]) == (202, True)


async def test_the_task_carries_what_a_worker_needs(client: Client) -> None:
    run_id = await guarded_run(client)
    asked = asking(client)
    task = await validation(client)
    assert task.pop("update_validation_task_id")
    assert task.pop("update_id")
    assert task.pop("lease_expires_at")
    assert [event["event_type"] for event in task.pop("history_events")] == await client.events("w", run_id)
    assert task == {
        "task_kind": "update_validation",
        "update_validation_attempt": 1,
        "namespace": client.served.namespace,
        "workflow_id": "w",
        "run_id": run_id,
        "workflow_type": "order",
        "compatibility": None,
        "update_name": "set",
        "payload_codec": "avro",
        "workflow_arguments": EMPTY_LIST,
        "update_arguments": EMPTY_LIST,
        "run_status": "pending",
        "last_history_sequence": 2,
        "total_history_events": 2,
        "task_queue": QUEUE,
        "lease_owner": WORKER,
    }
    asked.cancel()


async def test_a_refused_update_is_kept_out_of_history(client: Client) -> None:
    run_id = await guarded_run(client)
    before = await client.events("w", run_id)
    asked = asking(client)
    errors = {"amount": ["is too much"]}
    failure = {"message": "too much", "reason": "update_validator_rejected", "validation_errors": errors}
    answer = await report(client, await validation(client), "reject", failure=failure)
    assert (answer.json["outcome"], answer.json["reason"]) == ("rejected", "update_validator_rejected")
    refused = await asked
    body = refused.json
    assert (refused.status, body["reason"], body["update_status"]) == (422, "update_validator_rejected", "rejected")
    assert (body["outcome"], body["validation_errors"]) == ("rejected_invalid_arguments", errors)
    assert await client.events("w", run_id) == before
    again = await client.control("POST", "/workflows/w/update/set", {"request_id": "r"})
    assert (again.status, again.json["retained"]) == (422, True)


async def test_a_validator_that_cannot_be_run_decides_nothing(client: Client) -> None:
    await guarded_run(client)
    asked = asking(client)
    failure = {"message": "no such type", "reason": "update_validation_worker_failed"}
    assert (await report(client, await validation(client), "reject", failure=failure)).json["outcome"] == "failed"
    assert ((await asked).status, (await asked).json["reason"]) == (409, "update_validation_worker_failed")
    again = asking(client)
    await report(client, await validation(client), "approve")
    assert (await again).status == 202


async def test_one_poll_takes_both_kinds(client: Client) -> None:
    await guarded_run(client)
    first = await client.take(**BOTH)
    assert first["task_kind"] == "workflow"
    asked = asking(client)
    second = await client.take(**BOTH)
    assert second["task_kind"] == "update_validation"
    await report(client, second, "approve")
    assert (await asked).status == 202


async def test_a_poll_of_both_kinds_that_is_repeated_gets_its_task_again(client: Client) -> None:
    await guarded_run(client)
    await client.take()
    asked = asking(client)
    poll = BOTH | {"poll_request_id": "p-1"}
    first = await client.take(**poll)
    again = await client.take(**poll)
    assert first["update_validation_task_id"] == again["update_validation_task_id"]
    assert again["update_validation_attempt"] == 1
    other = await client.poll(poll_request_id="p-1")
    assert (other.status, other.json["reason"], other.json["poll_status"]) == (
        409,
        "poll_request_task_kinds_conflict",
        "conflict",
    )
    assert other.json["bound_task_kinds"] == ["update_validation", "workflow"]
    asked.cancel()


async def test_an_idle_poll_of_both_kinds_ends_empty(client: Client) -> None:
    assert (await client.register(**CAPABLE)).status == 201
    for seconds in (0, 1):
        answer = await client.poll(**BOTH, timeout_seconds=seconds)
        assert (answer.status, answer.json["poll_status"]) == (200, "empty")


async def test_a_worker_without_the_capability_takes_no_validations(client: Client) -> None:
    for kind, fields in (("workflow", BOTH), ("update-validation", {})):
        answer = await client.poll(kind, **fields)
        assert (answer.status, answer.json["reason"]) == (409, "update_validation_capability_not_advertised")
        assert (answer.json["poll_status"], answer.json["task"]) == ("unsupported", None)


async def test_an_update_with_a_validator_needs_a_request_id(client: Client) -> None:
    await guarded_run(client)
    answer = await client.control("POST", "/workflows/w/update/set", {})
    assert (answer.status, answer.json["reason"]) == (422, "update_validation_request_id_required")


@pytest.mark.parametrize(
    ("registered", "reason"),
    [
        (None, "update_validator_worker_unavailable"),
        ({"capabilities": []}, "update_validation_capability_unsupported"),
        ({**CAPABLE, "workflow_command_contracts": {}}, "update_validator_contract_missing"),
    ],
)
async def test_without_a_worker_that_can_validate_nothing_is_accepted(
    client: Client, registered: dict[str, Any] | None, reason: str
) -> None:
    run_id = await guarded_run(client)
    await client.send("DELETE", f"/registrations/{WORKER}")
    if registered is not None:
        await client.register("w-2", **registered)
    answer = await asking(client)
    assert (answer.status, answer.json["reason"]) == (409, reason)
    assert await client.events("w", run_id) == ["StartAccepted", "WorkflowStarted"]


async def test_a_pinned_run_needs_a_validator_of_its_build(client: Client) -> None:
    await client.register(build_id="b-1", **CAPABLE)
    await client.start(build_id="b-1")
    await client.register(build_id="b-2", **CAPABLE)
    answer = await asking(client)
    assert (answer.status, answer.json["reason"]) == (409, "update_validator_worker_incompatible")


async def test_a_request_id_under_validation_takes_no_other_intent(client: Client) -> None:
    await guarded_run(client)
    first = asking(client, input=[1])
    task = await validation(client)
    other = await asking(client, input=[2])
    assert (other.status, other.json["reason"]) == (409, "update_validation_idempotency_conflict")
    await report(client, task, "approve")
    assert (await first).status == 202


async def test_a_verdict_that_is_not_the_leases_own_is_refused(client: Client) -> None:
    await guarded_run(client)
    asked = asking(client)
    task = await validation(client)
    named = {"update_validation_task_id": "nothing"}
    for changed, fields, status, reason in (
        (task | named, {}, 404, "update_validation_task_not_found"),
        (task, {"lease_owner": "eve"}, 409, "update_validation_lease_owner_mismatch"),
        (task, {"update_validation_attempt": 2}, 409, "stale_update_validation_completion"),
    ):
        answer = await report(client, changed, "approve", **fields)
        assert (answer.status, answer.json["reason"], answer.json["outcome"]) == (status, reason, "rejected")
        assert answer.json["status"] == status
    assert not asked.done()
    await report(client, task, "approve")
    await asked
    late = await report(client, task, "approve")
    assert late.json["reason"] in {"update_validation_task_not_found", "duplicate_update_validation_completion"}


async def test_no_verdict_in_time_accepts_nothing(database_url: str, unique_namespace: str) -> None:
    environ = {"DW_UPDATE_VALIDATION_TIMEOUT": "1"}
    async with worker_plane(database_url, unique_namespace, environ) as served:
        client = Client(served)
        run_id = await guarded_run(client)
        unclaimed = await asking(client)
        assert (unclaimed.status, unclaimed.json["reason"]) == (504, "update_validation_task_not_claimed")
        asked = asking(client)
        task = await validation(client)
        unanswered = await asked
        assert (unanswered.status, unanswered.json["reason"]) == (504, "update_validation_execution_timeout")
        late = await report(client, task, "approve")
        assert (late.status, late.json["reason"]) == (409, "update_validation_lease_expired")
        asked = asking(client)
        await validation(client)
        await served.execute("UPDATE worker_registrations SET last_heartbeat_at = 'epoch' WHERE worker_id = %s", WORKER)
        await served.plane.query_recovery.sweep()
        lost = await asked
        assert (lost.status, lost.json["reason"]) == (504, "update_validator_worker_lost")
        assert await client.events("w", run_id) == ["StartAccepted", "WorkflowStarted"]
