"""Every mutating worker route, sent twice: the second time changes nothing (worker-plane §1.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.shell_client import Answer
from tests.contract.worker.client import (
    COMPLETE,
    HI_BOB,
    QUEUE,
    WAITING,
    WORKER,
    Client,
    attempt,
    fence,
    schedule,
    side_effect,
)
from tests.harness.worker_plane import ServedPlane, worker_plane

Request = tuple[str, str, Any]
FAILURE = {"failure": {"message": "It broke.", "type": "ValueError"}}


async def _register(client: Client) -> Request:
    return "POST", "/register", {"worker_id": "w-2", "task_queue": QUEUE, "runtime": "python"}


async def _worker_heartbeat(client: Client) -> Request:
    return "POST", "/heartbeat", {"worker_id": WORKER}


async def _deregister(client: Client) -> Request:
    await client.start()
    await client.take()
    return "DELETE", f"/registrations/{WORKER}", None


def _poll(kind: str) -> Callable[[Client], Awaitable[Request]]:
    async def prepared(client: Client) -> Request:
        await client.start()
        if kind == "activity":
            await client.complete(await client.take(), schedule())
        body = {"worker_id": WORKER, "task_queue": QUEUE, "timeout_seconds": 0, "poll_request_id": "poll-1"}
        return "POST", f"/{kind}-tasks/poll", body

    return prepared


def _workflow_report(verb: str, body: dict[str, Any]) -> Callable[[Client], Awaitable[Request]]:
    async def prepared(client: Client) -> Request:
        await client.start()
        await client.complete(await client.take(), schedule(), schedule())
        activity = await client.take("activity")
        await client.report(activity, "complete", result=HI_BOB)
        task = await client.take()
        return "POST", f"/workflow-tasks/{task['task_id']}/{verb}", {**fence(task), **body}

    return prepared


def _activity_report(verb: str, body: dict[str, Any]) -> Callable[[Client], Awaitable[Request]]:
    async def prepared(client: Client) -> Request:
        activity = await client.running_activity(retry_policy={"max_attempts": 3, "backoff_seconds": [0]})
        return "POST", f"/activity-tasks/{activity['task_id']}/{verb}", {**attempt(activity), **body}

    return prepared


ROUTES = {
    "register": _register,
    "worker heartbeat": _worker_heartbeat,
    "deregister": _deregister,
    "poll for a workflow task": _poll("workflow"),
    "poll for an activity": _poll("activity"),
    "complete with an activity": _workflow_report("complete", {"commands": [schedule()]}),
    "complete with side effects": _workflow_report("complete", {"commands": [side_effect(), side_effect()]}),
    "complete the workflow": _workflow_report("complete", {"commands": [COMPLETE]}),
    "fail the workflow": _workflow_report("complete", {"commands": [{"type": "fail_workflow", "message": "No."}]}),
    "fail a workflow task": _workflow_report("fail", FAILURE),
    "wait for history": _workflow_report("fail", WAITING),
    "workflow heartbeat": _workflow_report("heartbeat", {}),
    "complete an activity": _activity_report("complete", {"result": HI_BOB}),
    "fail an activity": _activity_report("fail", FAILURE),
    "activity heartbeat": _activity_report("heartbeat", {"details": {"at": 3}}),
    "activity status": _activity_report("status", {}),
}
EXPIRY = frozenset(("lease_expires_at", "sweep_at", "last_heartbeat_at"))
"""A repeated heartbeat may move these, and only these."""
MISSING = "deregister"
"""The one route whose repetition is answered with 404: there is nobody left to deregister."""


@pytest.mark.parametrize("name", ROUTES)
async def test_a_repetition_changes_nothing(client: Client, served: ServedPlane, name: str) -> None:
    method, path, body = await ROUTES[name](client)
    first = await client.send(method, path, body)
    assert first.status in (200, 201), first.json
    before = stable(await served.dump())
    second = await client.send(method, path, body)
    assert second.status == (404 if name == MISSING else first.status)
    if name != MISSING:
        assert answered(second) == answered(first)
    assert stable(await served.dump()) == before


@pytest.mark.parametrize("name", ROUTES)
async def test_five_at_once_change_what_one_does(client: Client, served: ServedPlane, name: str) -> None:
    method, path, body = await ROUTES[name](client)
    answers: list[Answer] = await asyncio.gather(*(client.send(method, path, body) for _ in range(5)))
    good = [answer for answer in answers if answer.status in (200, 201)]
    if "poll" in name:
        # A repetition takes the place of the poll that is held; only the last one is told.
        good = [answer for answer in good if answer.json["task"] is not None]
    else:
        assert len(good) == (1 if name == MISSING else 5)
    assert len({repr(answered(answer)) for answer in good}) == 1
    before = stable(await served.dump())
    for table, rows in before.items():
        assert len(rows) == len({repr(row) for row in rows}), table
    await client.send(method, path, body)
    assert stable(await served.dump()) == before


async def test_a_poll_that_is_repeated_after_five_at_once_has_the_first_attempt(client: Client) -> None:
    await client.start()
    polls = [client.poll(poll_request_id="poll-1", timeout_seconds=5) for _ in range(5)]
    tasks = [answer.json["task"] for answer in await asyncio.gather(*polls) if answer.json["task"] is not None]
    tasks.append(await client.take(poll_request_id="poll-1"))
    assert {(task["task_id"], task["workflow_task_attempt"]) for task in tasks} == {(tasks[0]["task_id"], 1)}


async def test_two_processes_that_report_at_once_record_it_once(
    client: Client, served: ServedPlane, database_url: str
) -> None:
    method, path, body = await ROUTES["complete an activity"](client)
    async with worker_plane(database_url, served.namespace) as elsewhere:
        answers = await asyncio.gather(*(c.send(method, path, body) for c in (client, Client(elsewhere)) * 3))
    assert {answer.status for answer in answers} == {200}
    assert len({repr(answered(answer)) for answer in answers}) == 1
    task = await client.take()
    assert [event["event_type"] for event in task["history_events"]].count("ActivityCompleted") == 1


def answered(answer: Answer) -> dict[str, Any]:
    """The members of an answer that a repetition must repeat."""
    return {name: value for name, value in answer.json.items() if name not in EXPIRY}


def stable(dump: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The dump without what a heartbeat may move."""
    return {
        table: [{name: value for name, value in row.items() if name not in EXPIRY} for row in rows]
        for table, rows in dump.items()
    }
