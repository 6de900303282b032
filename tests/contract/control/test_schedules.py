"""Schedules: create, change, pause, resume, trigger, backfill, list, history, and firing by the clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dw_api_ingress import schedules
from dw_core.engine.commands.parsed import CompleteWorkflow
from dw_core.payloads.codec import from_json
from dw_core.schedules.writer import workflow_id
from dw_runtime.store.database import Session
from dw_runtime.store.schedules import Locked, lock_one
from tests.contract.control.conftest import Send
from tests.harness.control_plane import ControlPlane

Json = dict[str, Any]
YEARLY = {"cron_expressions": ["0 0 1 1 *"], "timezone": "Europe/Kyiv"}
SECONDLY = {"intervals": [{"every": "PT1S"}]}


def body(**changes: Any) -> Json:
    """A schedule that is not due during a test."""
    return {
        "schedule_id": "nightly",
        "spec": YEARLY,
        "action": {"workflow_type": "report", "task_queue": "q"},
    } | changes


async def history(send: Send, schedule_id: str = "nightly") -> list[tuple[str, Json]]:
    events = (await send("GET", f"/schedules/{schedule_id}/history")).json["events"]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    return [(event["event_type"], event["payload"]) for event in events]


async def described(send: Send, schedule_id: str = "nightly") -> Json:
    answer = await send("GET", f"/schedules/{schedule_id}")
    assert answer.status == 200, answer.json
    found: Json = answer.json
    return found


async def make_due(plane: ControlPlane, schedule_id: str = "nightly", seconds: float = 1.0) -> None:
    """As if the next moment of a schedule had come some seconds ago."""
    async with plane.database.transaction() as session:
        await session._connection.execute(
            b"UPDATE workflow_schedules SET next_fire_at = dw_now() - make_interval(secs => $3),"
            b" next_occurrence_at = dw_now() - make_interval(secs => $3) WHERE namespace = $1 AND schedule_id = $2",
            (plane.namespace, schedule_id, seconds),
        )


async def finish(plane: ControlPlane, queue: str = "q") -> None:
    """Complete the next run of a queue."""
    await plane.complete(await plane.claim(queue), CompleteWorkflow(result=from_json(None)))


async def test_a_schedule_is_created_described_changed_and_deleted(send: Send) -> None:
    made = await send(
        "POST",
        "/schedules",
        body(jitter_seconds=60, max_runs=3, note="EU", memo={"a": 1}, search_attributes={"Region": "eu"}),
    )
    assert (made.status, made.json) == (201, {"schedule_id": "nightly", "outcome": "created"})
    found = await described(send)
    assert found["spec"] == YEARLY and found["action"] == {"workflow_type": "report", "task_queue": "q"}
    assert (found["status"], found["paused"], found["overlap_policy"], found["note"]) == ("active", False, "skip", "EU")
    assert (found["jitter_seconds"], found["max_runs"], found["remaining_actions"]) == (60, 3, 3)
    assert (found["memo"], found["search_attributes"]) == ({"a": 1}, {"Region": "eu"})
    assert (found["fires_count"], found["failures_count"], found["last_fired_at"]) == (0, 0, None)
    assert found["next_fire_at"] == found["next_fire"] == found["info"]["next_fire"]
    assert found["state"] == {"status": "active", "paused": False, "note": "EU"}
    due = datetime.fromisoformat(found["next_fire_at"])
    year = due.year + 1  # midnight of the new year in Kyiv is still the old one in UTC
    assert timedelta(0) <= due - datetime(year - 1, 12, 31, 22, tzinfo=UTC) <= timedelta(seconds=60)
    again = await send("POST", "/schedules", body())
    assert (again.status, again.json["reason"], again.json["schedule_id"]) == (
        409,
        "schedule_already_exists",
        "nightly",
    )
    changed = await send("PUT", "/schedules/nightly", {"action": {"input": [1]}, "max_runs": 5, "jitter_seconds": 0})
    assert (changed.status, changed.json) == (200, {"schedule_id": "nightly", "outcome": "updated"})
    found = await described(send)
    assert found["action"] == {"workflow_type": "report", "task_queue": "q", "input": [1]}
    assert found["remaining_actions"] == 5
    assert datetime.fromisoformat(found["next_fire_at"]) == datetime(due.year, 12, 31, 22, tzinfo=UTC)
    gone = await send("DELETE", "/schedules/nightly")
    assert (gone.status, gone.json) == (200, {"schedule_id": "nightly", "outcome": "deleted"})
    for answer in (await send("DELETE", "/schedules/nightly"), await send("GET", "/schedules/nightly")):
        assert (answer.status, answer.json["reason"], answer.json["schedule_id"]) == (
            404,
            "schedule_not_found",
            "nightly",
        )
    events = await history(send)
    assert [name for name, _ in events] == ["ScheduleCreated", "ScheduleUpdated", "ScheduleDeleted"]
    assert events[0][1]["command_context"]["request"]["name"] == "schedule_create"
    assert events[1][1]["changed_fields"] == ["action", "jitter_seconds", "max_runs"]
    assert events[2][1]["reason"] == "deleted_by_command"


async def test_the_id_of_a_deleted_schedule_may_be_used_again_and_its_history_goes_on(send: Send) -> None:
    for _ in range(2):
        assert (await send("POST", "/schedules", body())).status == 201
        assert (await send("DELETE", "/schedules/nightly")).status == 200
    assert [name for name, _ in await history(send)] == ["ScheduleCreated", "ScheduleDeleted"] * 2


async def test_two_requests_create_one_schedule(send: Send) -> None:
    answers = await asyncio.gather(*(send("POST", "/schedules", body()) for _ in range(4)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert [name for name, _ in await history(send)] == ["ScheduleCreated"]


async def test_an_id_that_was_used_and_freed_meanwhile_goes_on_with_that_history(
    plane: ControlPlane, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    async def look(session: Session, namespace: str, schedule_id: str) -> Locked | None:
        found = await lock_one(session, namespace, schedule_id)
        if not looks:
            looks.append(schedule_id)
            assert found is None
            assert (await send("POST", "/schedules", body())).status == 201
            assert (await send("DELETE", "/schedules/nightly")).status == 200
        return found

    monkeypatch.setattr(schedules, "lock_one", look)
    assert (await send("POST", "/schedules", body())).status == 201
    assert [name for name, _ in await history(send)] == ["ScheduleCreated", "ScheduleDeleted", "ScheduleCreated"]


async def test_a_schedule_without_an_id_gets_one(send: Send) -> None:
    made = await send("POST", "/schedules", {"spec": SECONDLY, "action": {"workflow_type": "t"}, "paused": True})
    assert made.status == 201
    found = await described(send, made.json["schedule_id"])
    assert (len(made.json["schedule_id"]), found["status"], found["next_fire_at"]) == (26, "paused", None)


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"spec": {}}, "invalid_schedule_spec", "spec"),
        ({"spec": {"intervals": [{"every": "P1M"}]}}, "invalid_schedule_spec", "spec.intervals.0.every"),
        ({"spec": {"intervals": [{"every": "PT0.5S"}]}}, "invalid_schedule_spec", "spec.intervals.0.every"),
        (
            {"spec": {"intervals": [{"every": "PT1S", "offset": "x"}]}},
            "invalid_schedule_spec",
            "spec.intervals.0.offset",
        ),
        ({"spec": YEARLY | {"timezone": "../etc/passwd"}}, "invalid_schedule_spec", "spec.timezone"),
        ({"spec": YEARLY | {"timezone": "localtime"}}, "invalid_schedule_spec", "spec.timezone"),
        ({"spec": YEARLY | {"timezone": []}}, "invalid_schedule_spec", "spec.timezone"),
        ({"spec": {"cron_expressions": "* * * * *"}}, "invalid_schedule_spec", "spec.cron_expressions"),
        ({"spec": {"cron_expressions": ["* * * *"]}}, "invalid_cron_expression", "spec.cron_expressions.0"),
        ({"spec": {"cron_expressions": ["0 0 30 2 *"]}}, "invalid_cron_expression", "spec.cron_expressions.0"),
        ({"spec": {"cron_expressions": ["61 * * * *"]}}, "invalid_cron_expression", "spec.cron_expressions.0"),
        ({"action": {}}, "validation_failed", "action"),
        ({"action": {"workflow_type": "t", "task_queue": 7}}, "validation_failed", "action.task_queue"),
        (
            {"action": {"workflow_type": "t", "input": {"codec": "x", "blob": ""}}},
            "validation_failed",
            "action.input.codec",
        ),
        ({"overlap_policy": "sometimes"}, "validation_failed", "overlap_policy"),
        ({"jitter_seconds": 3601}, "validation_failed", "jitter_seconds"),
        ({"max_runs": 0}, "validation_failed", "max_runs"),
        ({"schedule_id": "a b"}, "validation_failed", "schedule_id"),
        ({"note": "x" * 1001}, "validation_failed", "note"),
        ({"memo": {"x": "y" * 300_000}}, "memo_too_large", "memo"),
    ],
)
async def test_a_schedule_that_cannot_be_followed_is_refused_by_name(
    send: Send, changes: Json, reason: str, field: str
) -> None:
    answer = await send("POST", "/schedules", body(**changes))
    assert (answer.status, answer.json["reason"]) == (422, reason)
    assert list(answer.json["errors"]) == [field] and answer.json["errors"] == answer.json["validation_errors"]
    assert (await send("GET", "/schedules")).json["schedule_count"] == 0


async def test_pause_and_resume_are_idempotent_and_resume_counts_from_now(send: Send) -> None:
    await send("POST", "/schedules", body())
    for _ in range(2):
        paused = await send("POST", "/schedules/nightly/pause", {"note": "holidays"})
        assert (paused.status, paused.json) == (200, {"schedule_id": "nightly", "outcome": "paused"})
    found = await described(send)
    assert (found["status"], found["next_fire_at"]) == ("paused", None) and found["paused_at"] is not None
    for _ in range(2):
        resumed = await send("POST", "/schedules/nightly/resume", {})
        assert (resumed.status, resumed.json["outcome"]) == (200, "resumed")
    assert (await described(send))["next_fire_at"] is not None
    events = await history(send)
    assert [name for name, _ in events] == ["ScheduleCreated", "SchedulePaused", "ScheduleResumed"]
    assert events[1][1]["reason"] == "holidays"


async def test_a_trigger_starts_a_run_with_what_the_schedule_says(plane: ControlPlane, send: Send) -> None:
    action = {"workflow_type": "report", "task_queue": "q", "input": ["eu"], "run_timeout_seconds": 60}
    await send("POST", "/schedules", body(action=action, memo={"m": 1}, search_attributes={"Region": "eu"}))
    fired = (await send("POST", "/schedules/nightly/trigger", {})).json
    assert fired["outcome"] == "triggered"
    run = (await send("GET", f"/workflows/{fired['workflow_id']}/runs/{fired['run_id']}")).json
    assert (run["workflow_type"], run["input"], run["memo"]) == ("report", ["eu"], {"m": 1})
    assert run["search_attributes"] == {"Region": "eu"}
    events = (await send("GET", f"/workflows/{fired['workflow_id']}/runs/{fired['run_id']}/history")).json["events"]
    assert [event["event_type"] for event in events] == ["StartAccepted", "WorkflowStarted", "ScheduleTriggered"]
    found = await described(send)
    assert (found["fires_count"], found["latest_workflow_instance_id"]) == (1, fired["workflow_id"])
    (recent,) = found["info"]["recent_actions"]
    assert (recent["workflow_id"], recent["run_id"], recent["outcome"]) == (
        fired["workflow_id"],
        fired["run_id"],
        "triggered",
    )
    name, payload = (await history(send))[-1]
    assert (name, payload["workflow_run_id"], payload["trigger_number"]) == ("ScheduleTriggered", fired["run_id"], 1)
    assert payload == events[-1]["payload"]


async def test_overlap_policies_decide_on_a_trigger_while_a_run_is_open(plane: ControlPlane, send: Send) -> None:
    await send("POST", "/schedules", body())
    first = (await send("POST", "/schedules/nightly/trigger", {})).json

    async def fire(policy: str) -> Json:
        answer = await send("POST", "/schedules/nightly/trigger", {"overlap_policy": policy})
        assert answer.status == 200, answer.json
        told: Json = {name: value for name, value in answer.json.items() if name != "schedule_id"}
        return told

    assert await fire("skip") == {"outcome": "skipped", "reason": "overlap_policy_skip"}
    assert await fire("buffer_one") == {"outcome": "buffered", "buffer_depth": 1}
    assert await fire("buffer_one") == {"outcome": "buffer_full", "reason": "buffer_full"}
    assert await fire("buffer_all") == {"outcome": "buffered", "buffer_depth": 2}
    assert len((await described(send))["info"]["buffered_actions"]) == 2
    await fire("allow_all")
    assert (await send("GET", f"/workflows/{first['workflow_id']}")).json["is_terminal"] is False
    latest = (await described(send))["latest_workflow_instance_id"]
    await fire("cancel_other")
    assert (await send("GET", f"/workflows/{latest}")).json["status"] == "cancelled"
    latest = (await described(send))["latest_workflow_instance_id"]
    await fire("terminate_other")
    assert (await send("GET", f"/workflows/{latest}")).json["status"] == "terminated"
    found = await described(send)
    assert (found["fires_count"], found["info"]["skipped_trigger_count"]) == (4, 2)
    assert found["info"]["last_skip_reason"] == "buffer_full"


async def test_what_was_buffered_is_started_one_by_one_when_the_run_before_has_closed(
    plane: ControlPlane, send: Send
) -> None:
    await send("POST", "/schedules", body(overlap_policy="buffer_all"))
    for _ in range(3):
        await send("POST", "/schedules/nightly/trigger", {})
    for left in (2, 1, 0):
        await plane.schedules.look()
        found = await described(send)
        assert len(found["info"]["buffered_actions"]) == left
        await finish(plane)
    await plane.schedules.look()
    found = await described(send)
    assert (found["fires_count"], found["info"]["buffered_actions"]) == (3, [])
    outcomes = [payload["outcome"] for name, payload in await history(send) if name == "ScheduleTriggered"]
    assert outcomes == ["triggered", "drained", "drained"]


async def test_a_paused_schedule_is_not_triggered(send: Send) -> None:
    await send("POST", "/schedules", body(paused=True))
    told = (await send("POST", "/schedules/nightly/trigger", {})).json
    assert (told["outcome"], told["reason"]) == ("skipped", "status_not_triggerable")
    window = {"start_time": "2020-01-01T00:00:00Z", "end_time": "2022-06-01T00:00:00Z"}
    results = (await send("POST", "/schedules/nightly/backfill", window)).json["results"]
    assert [one["reason"] for one in results] == ["status_not_triggerable"] * 2


async def test_a_start_that_is_refused_is_told_and_counted(plane: ControlPlane, send: Send) -> None:
    await send("POST", "/schedules", body(spec={"cron_expressions": ["0 2 * * *"]}))
    day = datetime(2026, 11, 1, 2, tzinfo=UTC)
    async with plane.database.transaction() as session:
        locked = await lock_one(session, plane.namespace, "nightly")
        assert locked is not None
        taken = workflow_id(locked.schedules[plane.namespace, "nightly"].schedule, day)
    assert (await send("POST", "/workflows", {"workflow_id": taken, "workflow_type": "other"})).status == 201
    window = {"start_time": day.isoformat(), "end_time": (day + timedelta(days=1)).isoformat()}
    (result,) = (await send("POST", "/schedules/nightly/backfill", window)).json["results"]
    assert (result["outcome"], result["reason"]) == ("failed", "instance_already_started")
    found = await described(send)
    assert (found["fires_count"], found["failures_count"], found["latest_workflow_instance_id"]) == (0, 1, None)
    name, payload = (await history(send))[-1]
    assert (name, payload["reason"]) == ("ScheduleTriggerSkipped", "instance_already_started")


async def test_a_schedule_that_has_used_up_its_runs_is_deleted(send: Send) -> None:
    await send("POST", "/schedules", body(max_runs=2, overlap_policy="allow_all"))
    for _ in range(2):
        assert (await send("POST", "/schedules/nightly/trigger", {})).json["outcome"] == "triggered"
    assert (await send("GET", "/schedules/nightly")).status == 404
    name, payload = (await history(send))[-1]
    assert (name, payload["reason"]) == ("ScheduleDeleted", "max_runs_exhausted")


async def test_a_backfill_fires_each_occurrence_of_its_window_once(send: Send) -> None:
    await send("POST", "/schedules", body(spec={"cron_expressions": ["0 2 * * *"]}))
    window = {"start_time": "2026-11-01T02:00:00Z", "end_time": "2026-11-03T02:00:00Z"}
    told = (await send("POST", "/schedules/nightly/backfill", window)).json
    assert (told["outcome"], told["fires_attempted"]) == ("backfill_started", 2)
    started, skipped = told["results"]
    assert (started["fire_time"], started["outcome"], started["reason"]) == (
        "2026-11-01T02:00:00+00:00",
        "started",
        None,
    )
    assert (skipped["workflow_id"], skipped["outcome"], skipped["reason"]) == (None, "skipped", "overlap_policy_skip")
    again = await send("POST", "/schedules/nightly/backfill", window | {"overlap_policy": "buffer_all"})
    first, second = again.json["results"]
    assert (first["workflow_id"], first["outcome"], first["reason"]) == (
        started["workflow_id"],
        "skipped",
        "occurrence_already_started",
    )
    assert (second["outcome"], second["fire_time"]) == ("started", "2026-11-02T02:00:00+00:00")
    assert (await described(send))["fires_count"] == 2


@pytest.mark.parametrize(
    ("window", "reason", "field"),
    [
        (("2026-01-02", "2026-01-01"), "invalid_time_range", "end_time"),
        (("2026-01-02", "2026-01-02"), "invalid_time_range", "end_time"),
        (("soon", "2026-01-02"), "validation_failed", "start_time"),
        (("2026-01-01", "2026-01-02"), "validation_failed", "end_time"),
    ],
)
async def test_a_window_that_cannot_be_filled_is_refused(
    send: Send, window: tuple[str, str], reason: str, field: str
) -> None:
    await send("POST", "/schedules", body(spec=SECONDLY, paused=True))
    sent = {"start_time": window[0], "end_time": window[1]}
    answer = await send("POST", "/schedules/nightly/backfill", sent)
    assert (answer.status, answer.json["reason"], list(answer.json["errors"])) == (422, reason, [field])


async def test_the_clock_fires_what_is_due_once(plane: ControlPlane, send: Send) -> None:
    await send("POST", "/schedules", body())
    await make_due(plane)
    await asyncio.gather(*(plane.schedules.look() for _ in range(4)))
    found = await described(send)
    assert (found["fires_count"], found["info"]["recent_actions"][0]["outcome"]) == (1, "scheduled")
    assert datetime.fromisoformat(found["next_fire_at"]) > datetime.now(UTC)
    await make_due(plane, seconds=100_000)
    await plane.schedules.look()
    found = await described(send)
    assert (found["fires_count"], found["info"]["last_skip_reason"]) == (1, "overlap_policy_skip")


async def test_schedules_are_listed_newest_first_in_pages(send: Send) -> None:
    for number in range(5):
        action = {"workflow_type": "odd" if number % 2 else "even"}
        await send("POST", "/schedules", body(schedule_id=f"s-{number}", action=action, note=f"n-{number}"))
    await send("POST", "/schedules/s-1/pause", {})
    await send("DELETE", "/schedules/s-4")
    page = (await send("GET", "/schedules?page_size=3")).json
    assert [one["schedule_id"] for one in page["schedules"]] == ["s-3", "s-2", "s-1"]
    rest = (await send("GET", f"/schedules?page_size=3&next_page_token={page['next_page_token']}")).json
    assert ([one["schedule_id"] for one in rest["schedules"]], rest["next_page_token"]) == (["s-0"], None)

    async def ids(parameters: str) -> list[str]:
        answer = await send("GET", f"/schedules?{parameters}")
        assert answer.status == 200, answer.json
        return [one["schedule_id"] for one in answer.json["schedules"]]

    assert await ids("status=paused") == ["s-1"]
    assert await ids("workflow_type=odd") == ["s-3", "s-1"]
    assert await ids("query=Status%3D'active'%20AND%20WorkflowType%3D%22odd%22") == ["s-3"]
    assert await ids("query=ScheduleId='s-2'%20and%20Note='n-2'") == ["s-2"]
    assert await ids("status=paused&query=Status='active'") == []


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        ("bucket=1", 422, "unsupported_schedule_list_filter"),
        ("status=deleted", 422, "validation_failed"),
        ("page_size=0", 422, "validation_failed"),
        ("page_size=201", 422, "validation_failed"),
        ("query=Status", 422, "invalid_schedule_visibility_query"),
        ("query=Status='a'%20AND", 422, "invalid_schedule_visibility_query"),
        ("query=Status%20!=%20'a'", 422, "unsupported_schedule_visibility_predicate"),
        ("query=Status='a'%20OR%20Status='b'", 422, "unsupported_schedule_visibility_predicate"),
        ("query=Colour='a'", 422, "unsupported_schedule_visibility_field"),
        ("next_page_token=abc", 400, "malformed_schedule_page_token"),
    ],
)
async def test_a_listing_that_cannot_be_given_says_why(send: Send, parameters: str, status: int, reason: str) -> None:
    answer = await send("GET", f"/schedules?{parameters}")
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.json.keys() >= {"message", "field", "errors", "validation_errors", "last_safe_cursor"}


async def test_a_page_token_belongs_to_its_listing(plane: ControlPlane, send: Send) -> None:
    for number in range(2):
        await send("POST", "/schedules", body(schedule_id=f"s-{number}"))
    token = (await send("GET", "/schedules?page_size=1")).json["next_page_token"]
    other = await send("GET", f"/schedules?next_page_token={token}&status=active")
    assert (other.status, other.json["reason"]) == (409, "schedule_page_token_filter_mismatch")
    assert other.json["last_safe_cursor"]["schedule_id"] == "s-1"
    elsewhere = await send("GET", f"/schedules?next_page_token={token}", x_namespace="default")
    assert (elsewhere.status, elsewhere.json["reason"]) == (403, "schedule_page_token_namespace_mismatch")
    forged = await send("GET", f"/schedules?next_page_token={'A' * 8}{token[8:]}")
    assert (forged.status, forged.json["reason"]) == (400, "malformed_schedule_page_token")


async def test_history_is_read_in_pages(send: Send) -> None:
    await send("POST", "/schedules", body())
    for _ in range(2):
        await send("POST", "/schedules/nightly/pause", {})
        await send("POST", "/schedules/nightly/resume", {})
    page = (await send("GET", "/schedules/nightly/history?limit=3")).json
    assert (len(page["events"]), page["next_cursor"], page["has_more"]) == (3, 3, True)
    rest = (await send("GET", "/schedules/nightly/history?limit=0&after_sequence=4")).json
    assert ([event["sequence"] for event in rest["events"]], rest["next_cursor"], rest["has_more"]) == (
        [5],
        None,
        False,
    )
    wrong = await send("GET", "/schedules/nightly/history?after_sequence=-1")
    assert (wrong.status, wrong.json["reason"]) == (422, "invalid_after_sequence")
    assert (await send("GET", "/schedules/other/history")).status == 404


async def test_every_change_is_in_the_audit_trail(send: Send) -> None:
    await send("POST", "/schedules", body())
    await send("POST", "/schedules/nightly/pause", {})
    await send("POST", "/schedules/nightly/pause", {"note": 7})
    entries = (await send("GET", "/system/audit?target=nightly")).json["entries"]
    assert [entry["command"] for entry in entries] == ["schedule_pause", "schedule_create"]
    assert (entries[0]["before"]["status"], entries[0]["after"]["status"]) == ("active", "paused")
