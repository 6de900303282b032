"""Leases of activities: how long they are, and renewing them without progress (worker-plane §12.8, §16.2)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.contract.worker.client import QUEUE, WORKER, Client
from tests.harness.worker_plane import ServedPlane

AGE = "UPDATE workflow_tasks SET lease_expires_at = lease_expires_at - interval '60 seconds' WHERE run_id = %s"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def lease(task: dict[str, Any]) -> timedelta:
    """How long the lease of a granted task is."""
    return moment(task["lease_expires_at"]) - moment(task["leased_at"])


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(None, 300), (30, 300), (300, 300), (301, 301), (7200, 7200), (90_000, 86_400)]
)
async def test_a_lease_covers_the_time_that_the_activity_may_take(
    client: Client, timeout: int | None, seconds: int
) -> None:
    fields: dict[str, Any] = {} if timeout is None else {"start_to_close_timeout": timeout}
    assert lease(await client.running_activity(**fields)) == timedelta(seconds=seconds)


async def test_a_granted_poll_says_when_its_lease_began(client: Client) -> None:
    await client.register()
    await client.start()
    await client.complete(await client.take(), {"type": "schedule_activity", "activity_type": "charge"})
    answer = await client.poll("activity")
    assert answer.json["server_time"] == answer.json["task"]["leased_at"]
    assert answer.json["server_capabilities"]["activity_lease_renewal"] is True
    assert "server_time" not in (await client.poll("activity", timeout_seconds=0)).json


async def test_a_fresh_lease_is_confirmed_without_a_write(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity(heartbeat_timeout=50)
    before = await served.dump()
    answer = await client.report(activity, "renew-lease")
    assert answer.status == 200
    body = {key: value for key, value in answer.json.items() if key not in ("protocol_version", "server_capabilities")}
    assert moment(body.pop("server_time")) > moment(activity["leased_at"])
    assert body == {
        "task_id": activity["task_id"],
        "activity_attempt_id": activity["activity_attempt_id"],
        "workflow_task_id": activity["task_id"],
        "workflow_instance_id": "w",
        "workflow_run_id": activity["run_id"],
        "activity_execution_id": activity["activity_execution_id"],
        "attempt_number": 1,
        "lease_owner": WORKER,
        "lease_renewed": True,
        "can_continue": True,
        "cancel_requested": False,
        "heartbeat_recorded": False,
        "reason": None,
        "lease_expires_at": activity["lease_expires_at"],
        "last_heartbeat_at": None,
        "heartbeat_deadline_at": activity["deadlines"]["heartbeat"],
    }
    assert await served.dump() == before


async def test_an_aged_lease_begins_anew_and_nothing_else_moves(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity(heartbeat_timeout=50, start_to_close_timeout=600)
    await served.execute(AGE, activity["run_id"])
    events = await client.events("w", activity["run_id"])
    first, second = [(await client.report(activity, "renew-lease")).json for _ in range(2)]
    assert moment(first["lease_expires_at"]) - moment(first["server_time"]) == timedelta(seconds=600)
    assert second["lease_expires_at"] == first["lease_expires_at"]
    status = (await client.report(activity, "status")).json
    assert status["lease_expires_at"] == first["lease_expires_at"]
    assert status["deadlines"] == activity["deadlines"]
    assert await client.events("w", activity["run_id"]) == events


async def test_an_expired_lease_is_not_revived(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity()
    await served.expire_lease(activity["task_id"])
    before = await served.dump()
    answer = await client.report(activity, "renew-lease")
    assert (answer.status, answer.json["reason"], answer.json["lease_renewed"]) == (409, "lease_expired", False)
    assert await served.dump() == before
    assert (await client.report(activity, "complete")).status == 200


async def test_an_attempt_past_a_deadline_is_not_renewed(client: Client, served: ServedPlane) -> None:
    activity = await client.running_activity(start_to_close_timeout=60)
    await served.execute(
        "UPDATE workflow_tasks SET start_to_close_at = dw_now() - interval '1 second' WHERE run_id = %s",
        activity["run_id"],
    )
    answer = await client.report(activity, "renew-lease")
    assert (answer.status, answer.json["reason"]) == (409, "activity_not_running")


async def test_a_repeated_poll_keeps_the_lease_that_was_renewed(client: Client, served: ServedPlane) -> None:
    await client.register()
    await client.start()
    await client.complete(await client.take(), {"type": "schedule_activity", "activity_type": "charge"})
    activity = await client.take("activity", poll_request_id="p-1")
    await served.execute(AGE, activity["run_id"])
    renewed = (await client.report(activity, "renew-lease")).json
    again = await client.take("activity", poll_request_id="p-1")
    assert (again["task_id"], again["task_queue"], again["attempt_number"]) == (activity["task_id"], QUEUE, 1)
    assert again["lease_expires_at"] == renewed["lease_expires_at"]
