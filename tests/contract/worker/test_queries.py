"""Queries from their caller's side (control-plane §13.2), with a worker that is played by the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dw_core.payloads.codec import encode_blob
from tests.contract.worker.asking import asking, capable, report, until_waiting
from tests.contract.worker.client import COMPLETE, Client, schedule
from tests.harness.worker_plane import worker_plane

CONTRACT = {
    "order": {
        "queries": ["status", "add"],
        "query_contracts": [
            {"name": "status", "parameters": []},
            {
                "name": "add",
                "parameters": [
                    {"name": "left", "position": 0, "required": True, "type": "int", "allows_null": False},
                    {"name": "right", "position": 1, "default_available": True, "default": 10, "type": "int"},
                ],
            },
        ],
    }
}


def blob(value: Any) -> dict[str, str]:
    return {"codec": "avro", "blob": encode_blob(value)}


async def test_an_answer_comes_back_with_its_bytes_and_leaves_no_trace(client: Client) -> None:
    await capable(client)
    run_id = await client.start()
    before = await client.events("w", run_id)
    asked = asking(client, "status", {"input": ["x"]})
    task = await client.take("query")
    sent: dict[str, Any] = {"result": {"stale": True}, "result_envelope": blob({"count": 3, "ratio": 0.5})}
    assert (await report(client, task, **sent)).status == 200
    answer = await asked
    body = answer.json
    assert answer.status == 200
    assert body.pop("control_plane")["operation"] == "query"
    assert body == {
        "workflow_id": "w",
        "run_id": run_id,
        "target_scope": "instance",
        "query_name": "status",
        "result": {"count": 3, "ratio": 0.5},
        "result_envelope": blob({"count": 3, "ratio": 0.5}),
        "reason": None,
    }
    assert await client.events("w", run_id) == before
    assert await client.served.execute("SELECT 1 FROM workflow_query_tasks WHERE run_id = %s", run_id) == []


@pytest.mark.parametrize(
    ("sent", "result", "envelope"),
    [
        ({"result": [1, None, "a"]}, [1, None, "a"], blob([1, None, "a"])),
        ({"result": None}, None, blob(None)),
        ({}, None, blob(None)),
        ({"result_envelope": blob(b"\x00\xff")}, None, blob(b"\x00\xff")),
    ],
)
async def test_every_form_of_an_answer_is_given_in_both(client: Client, sent: Any, result: Any, envelope: Any) -> None:
    await capable(client)
    run_id = await client.start()
    asked = asking(client, run_id=run_id)
    await report(client, await client.take("query"), **sent)
    body = (await asked).json
    assert (body["result"], body["result_envelope"], body["target_scope"]) == (result, envelope, "run")
    assert {"result", "result_envelope"} <= body["control_plane"].keys()


@pytest.mark.parametrize(
    ("reason", "status", "told"),
    [
        ("rejected_unknown_query", 404, "rejected_unknown_query"),
        ("query_rejected", 409, "query_rejected"),
        (None, 409, "query_rejected"),
        ("query_workflow_state_unavailable", 409, "query_workflow_state_unavailable"),
        ("query_payload_decode_failed", 409, "query_payload_decode_failed"),
        ("reason_of_the_workers_own", 409, "reason_of_the_workers_own"),
        ("invalid_query_arguments", 422, "invalid_query_arguments"),
    ],
)
async def test_what_a_worker_says_instead_is_passed_on(
    client: Client, reason: str | None, status: int, told: str
) -> None:
    await capable(client)
    await client.start()
    asked = asking(client)
    failed = await report(client, await client.take("query"), "fail", failure={"message": "no", "reason": reason})
    assert (failed.status, failed.json["outcome"], failed.json["reason"]) == (200, "failed", told)
    answer = await asked
    assert (answer.status, answer.json["reason"], answer.json["message"]) == (status, told, "no")
    assert answer.json["control_plane"]["reason"] == told


async def test_a_completed_run_answers_and_any_other_closed_one_is_refused(client: Client) -> None:
    await capable(client)
    done = await client.start("done")
    assert (await client.complete(await client.take(), COMPLETE)).status == 200
    for run_id in (None, done):
        asked = asking(client, workflow_id="done", run_id=run_id)
        task = await client.take("query")
        assert (task["run_status"], task["history_events"][-1]["event_type"]) == ("completed", "WorkflowCompleted")
        await report(client, task, result=1)
        assert (await asked).json["result"] == 1
    await client.start("stopped")
    await client.control("POST", "/workflows/stopped/terminate")
    refused = await asking(client, workflow_id="stopped")
    assert (refused.status, refused.json["reason"]) == (409, "run_not_active")
    assert (refused.json["run_status"], refused.json["is_terminal"]) == ("terminated", True)


async def test_an_earlier_run_is_asked_only_when_it_completed(client: Client) -> None:
    await capable(client)
    completed = await client.start("w")
    await client.complete(await client.take(), COMPLETE)
    earlier = await client.start("other")
    current = await client.start("stand-in")
    move = "UPDATE workflow_runs SET workflow_id = 'w', run_number = %s WHERE run_id = %s"
    await client.served.execute(move, 2, earlier)
    await client.served.execute(move, 3, current)
    await client.served.execute(
        "UPDATE workflow_instances SET current_run_id = %s WHERE current_run_id = %s", current, completed
    )
    asked = asking(client, run_id=completed)
    task = await client.take("query")
    assert task["run_id"] == completed
    await report(client, task, result="then")
    assert (await asked).json["result"] == "then"
    await client.served.execute("DELETE FROM workflow_history_events WHERE run_id = %s", completed)
    for run_id in (earlier, completed):
        refused = await asking(client, run_id=run_id)
        assert (refused.status, refused.json["reason"]) == (409, "historical_run_command_rejected")
        assert (refused.json["run_id"], refused.json["target_scope"]) == (run_id, "run")


async def test_what_does_not_exist_is_not_found(client: Client) -> None:
    await capable(client)
    run_id = await client.start()
    await client.start("other")
    for asked, reason in (
        (asking(client, workflow_id="nobody"), "instance_not_found"),
        (asking(client, run_id="nothing"), "run_not_found"),
        (asking(client, workflow_id="other", run_id=run_id), "run_not_found"),
    ):
        answer = await asked
        assert (answer.status, answer.json["reason"]) == (404, reason)


@pytest.mark.parametrize("name", ["x" * 257, "%09", "%C2%85"])
async def test_a_name_that_is_none_is_refused(client: Client, name: str) -> None:
    await client.start()
    answer = await asking(client, name)
    assert (answer.status, answer.json["reason"], list(answer.json["errors"])) == (
        422,
        "validation_failed",
        ["query_name"],
    )


async def test_only_live_workers_that_can_answer_count(client: Client) -> None:
    await client.start(build_id="b-2")
    execute = client.served.execute

    async def refusal() -> tuple[int, str]:
        answer = await asking(client)
        return answer.status, answer.json["reason"]

    assert await refusal() == (409, "query_worker_unavailable")
    await capable(client, "elsewhere", task_queue="another")
    await capable(client, "other-types", supported_workflow_types=["invoice"])
    await capable(client, "gone", build_id="b-2")
    await execute("UPDATE worker_registrations SET last_heartbeat_at = '2020-01-01' WHERE worker_id = 'gone'")
    assert await refusal() == (409, "query_worker_unavailable")
    await capable(client, "old-build", build_id="b-1")
    assert await refusal() == (409, "query_worker_incompatible")
    await capable(client, "drained", build_id="b-2")
    drain = "INSERT INTO build_id_rollouts VALUES (%s, 'orders', 'b-2', 'draining', now())"
    await execute(drain, client.served.namespace)
    assert await refusal() == (409, "query_worker_incompatible")
    await execute("DELETE FROM build_id_rollouts WHERE namespace = %s", client.served.namespace)
    asked = asking(client)
    assert (await client.poll("query", "old-build", timeout_seconds=0)).json["poll_status"] == "empty"
    await report(client, await client.take("query", "drained"), result=2)
    assert (await asked).json["result"] == 2


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ([1], [1]),
        ([1, 2], [1, 2]),
        ({"left": 1}, [1]),
        ({"right": 2, "left": 1}, [1, 2]),
        (blob([1, 2]), [1, 2]),
        (blob({"a": 1, "b": 2}), [1, 2]),
    ],
)
async def test_arguments_are_bound_to_the_declared_parameters(client: Client, value: Any, bound: list[int]) -> None:
    await capable(client, workflow_command_contracts=CONTRACT)
    await client.start()
    asked = asking(client, "add", {"input": value})
    task = await client.take("query")
    assert (task["query_name"], task["query_arguments"]) == ("add", blob(bound))
    await report(client, task, result=0)
    assert (await asked).status == 200


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        (None, {"left": ["is required"]}),
        ([1, 2, 3], {"2": ["is one argument too many; 2 are declared"]}),
        ([None], {"left": ["must not be null"]}),
        ({"right": 1}, {"left": ["is required"]}),
        ({"left": 1, "up": 2}, {"up": ["is not a declared parameter"]}),
        (blob([]), {"left": ["is required"]}),
    ],
)
async def test_arguments_that_do_not_fit_are_named(client: Client, value: Any, errors: dict[str, list[str]]) -> None:
    await capable(client, workflow_command_contracts=CONTRACT)
    await client.start()
    answer = await asking(client, "add", {"input": value})
    assert (answer.status, answer.json["reason"]) == (422, "invalid_query_arguments")
    assert answer.json["validation_errors"] == answer.json["control_plane"]["validation_errors"] == errors


@pytest.mark.parametrize(
    ("value", "field"), [("text", "input"), ({"codec": "json", "blob": ""}, "input.codec"), (blob(7), "input.blob")]
)
async def test_an_input_that_is_no_payload_is_refused(client: Client, value: Any, field: str) -> None:
    await capable(client)
    await client.start()
    answer = await asking(client, "add", {"input": value})
    assert (answer.status, answer.json["reason"], list(answer.json["errors"])) == (422, "validation_failed", [field])


async def test_a_query_nobody_declares_is_not_found_unless_a_worker_declares_nothing(client: Client) -> None:
    await capable(client, workflow_command_contracts=CONTRACT)
    await client.start()
    answer = await asking(client, "price")
    assert (answer.status, answer.json["reason"]) == (404, "query_not_found")
    await capable(client, "silent")
    asked = asking(client, "price")
    await report(client, await client.take("query", "silent"), result=5)
    assert (await asked).json["result"] == 5


async def test_waiting_ends_with_the_reason(database_url: str, unique_namespace: str) -> None:
    async with worker_plane(database_url, unique_namespace, {"DW_QUERY_TASK_TIMEOUT": "1"}) as served:
        client = Client(served)
        await capable(client)
        await client.start()
        answer = await asking(client)
        assert (answer.status, answer.json["reason"]) == (504, "query_task_not_claimed")
        assert (await client.poll("query", timeout_seconds=0)).json["task"] is None
        asked = asking(client)
        task = await client.take("query")
        answer = await asked
        assert (answer.status, answer.json["reason"]) == (504, "query_worker_execution_timeout")
        late = await report(client, task, result=1)
        assert (late.status, late.json["reason"], late.json["outcome"]) == (409, "query_task_timed_out", "rejected")
        registry = served.plane.node.metrics.registry
        for outcome, count in (("not_claimed", 1), ("worker_timeout", 1), ("answered", 0)):
            assert registry.get_sample_value("dw_query_seconds_count", {"outcome": outcome}) == count


async def test_a_full_queue_takes_no_more(database_url: str, unique_namespace: str) -> None:
    async with worker_plane(database_url, unique_namespace, {"DW_QUERY_TASK_MAX_PENDING_PER_QUEUE": "2"}) as served:
        client = Client(served)
        await capable(client)
        await client.start()
        asked = [asking(client), asking(client)]
        await until_waiting(client, 2)
        refused = await asking(client)
        assert (refused.status, refused.json["reason"], refused.headers["retry-after"]) == (
            429,
            "query_task_queue_full",
            "1",
        )
        for number in range(2):
            await report(client, await client.take("query"), result=number)
        assert sorted([(await one).json["result"] for one in asked]) == [0, 1]


async def test_a_caller_that_goes_away_takes_its_query_along(client: Client) -> None:
    await capable(client)
    await client.start()
    hang_up = asyncio.Event()
    asked = asking(client, hang_up=hang_up)
    await until_waiting(client)
    hang_up.set()
    await asked
    assert (await client.poll("query", timeout_seconds=0)).json["task"] is None
    hang_up = asyncio.Event()
    asked = asking(client, hang_up=hang_up)
    task = await client.take("query")
    hang_up.set()
    await asked
    assert (await report(client, task, result=1)).json["reason"] == "query_task_timed_out"


async def test_a_caller_is_told_when_the_database_has_forgotten_its_query(client: Client) -> None:
    await capable(client)
    run_id = await client.start()
    asked = asking(client)
    await until_waiting(client)
    await client.served.execute("DELETE FROM workflow_query_tasks WHERE run_id = %s", run_id)
    answer = await asked
    assert (answer.status, answer.json["reason"]) == (503, "query_task_queue_unavailable")


async def test_a_query_waits_a_moment_for_the_leased_workflow_task_of_its_run(client: Client) -> None:
    await capable(client)
    run_id = await client.start()
    leased = await client.take()
    asked = asking(client)
    await until_waiting(client)
    taking = asyncio.create_task(client.take("query"))
    assert (await client.complete(leased, schedule())).status == 200
    task = await taking
    assert task["history_events"][-1]["event_type"] == "ActivityScheduled"
    await report(client, task, result="after")
    assert (await asked).json["result"] == "after"
    assert await client.events("w", run_id) == [event["event_type"] for event in task["history_events"]]


async def test_a_workflow_task_that_stays_leased_does_not_hold_a_query_up(client: Client) -> None:
    await capable(client)
    await client.start()
    leased = await client.take()
    asked = asking(client)
    task = await client.take("query")
    await report(client, task, result="before")
    assert (await asked).json["result"] == "before"
    assert (await client.complete(leased, COMPLETE)).status == 200


async def test_a_process_that_drains_sends_its_callers_elsewhere(client: Client) -> None:
    await capable(client)
    await client.start()
    asked = asking(client)
    await until_waiting(client)
    await client.served.plane.drain()
    answer = await asked
    assert (answer.status, answer.json["reason"]) == (503, "query_task_queue_unavailable")
    assert (answer.json["retryable"], answer.headers["retry-after"]) == (True, "1")
