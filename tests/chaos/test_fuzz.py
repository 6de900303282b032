"""Every hosted route is given nonsense: it refuses in its plane's words, and nothing in the database changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from dw_core.payloads.codec import encode_blob
from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane, Route
from tests.chaos.checker import fingerprint
from tests.chaos.client import HEADERS, PAYLOAD, Answer, Json, exchange
from tests.chaos.cluster import TOKEN, Cluster, Process
from tests.chaos.workers import leaf, schedule
from tests.harness.databases import migrated_database
from tests.harness.waiting import eventually

WORKER = "fuzzer"
QUEUE = "fuzz"
BODIES_PER_ROUTE = 40
ALLOWED = ("not_implemented", "topology_role_unavailable")
"""The only reasons with which a server that is well may answer 5xx."""

NASTY: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**53,
    2**63,
    -(2**63) - 1,
    2**64,
    1e308,
    -0.5,
    "",
    " ",
    "\0",
    "a\0b",
    "\u202e\ufeff\u0301",
    "\U0001f600" * 50,
    "x" * 5000,
    "'; DROP TABLE workflow_runs; --",
    "%00",
    "../..",
    "${jndi}",
    [],
    [[]],
    [None],
    [{}],
    {},
    {"": ""},
    {"a": {"\0": 1}},
    {"codec": "avro"},
    {"codec": "avro", "blob": "AAAA"},
    {"codec": ["avro"], "blob": {}},
]
QUERY = ("page_size", "limit", "next_page_token", "status", "workflow_type", "query", "namespace")
RAW: list[bytes] = [
    b"",
    b"{",
    b"nul",
    b"\xff\xfe{}",
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\ud800"}',
    b'{"a":1e999}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":' + b"[" * 50_000,
    b'{"task_queue":"q","task_queue":"p"}',
    b"[]",
    b'"text"',
    b"\x00",
]
_SELECTION: Json = {
    "parallel_group_id": "select-calls:1:1",
    "parallel_group_kind": "timer",
    "parallel_group_mode": "select",
    "parallel_group_base_sequence": 1,
    "parallel_group_size": 1,
    "parallel_group_index": 0,
    "selection_member_key": "k",
    "selection_member_index": 0,
    "selection_member_base_sequence": 1,
    "selection_member_size": 1,
    "selection_member_kind": "timer",
}
COMMANDS: list[Json] = [
    schedule(queue=QUEUE),
    schedule(queue=QUEUE, **leaf(1, 1, 0)),
    {"type": "record_side_effect", "result": PAYLOAD},
    {
        "type": "record_side_effect",
        "result": PAYLOAD,
        "workflow_stream": {
            "operation": "append",
            "stream_name": "s",
            "items": [{"payload": PAYLOAD, "idempotency_key": "k", "item_type": "t", "content_type": "c"}],
            "command_identity": "i",
            "command_ordinal": 1,
            "max_pending_items": 10,
        },
    },
    {"type": "record_version_marker", "change_id": "c", "version": 1, "min_supported": 0, "max_supported": 2},
    {"type": "fail_workflow", "message": "m", "exception": {"a": 1}},
    {"type": "start_timer", "delay_seconds": 1},
    {"type": "start_timer", "delay_seconds": 1, **_SELECTION, "parallel_group_path": [_SELECTION]},
    {
        "type": "start_child_workflow",
        "workflow_type": "t",
        "queue": QUEUE,
        "arguments": PAYLOAD,
        "parent_close_policy": "terminate",
        "cancellation_policy": "try_cancel",
        "retry_policy": {"max_attempts": 2, "backoff_seconds": [1], "non_retryable_error_types": ["T"]},
        "execution_timeout_seconds": 60,
        "run_timeout_seconds": 30,
    },
    {
        "type": "open_condition_wait",
        "condition_key": "k",
        "condition_definition_fingerprint": "f",
        "condition_wait_occurrence_id": "o",
        "timeout_seconds": 5,
    },
    {
        "type": "cancel_selection_operation",
        "selection_group_id": "select-calls:1:1",
        "member_key": "k",
        "member_index": 0,
        "member_base_sequence": 1,
        "member_size": 1,
        "operation_kind": "timer",
        "operation_identity": "i",
    },
    {
        "type": "upsert_search_attributes",
        "attributes": {"Name": "v", "Number": 3, "List": ["a"]},
        "attribute_types": {"Name": "keyword", "Number": "int"},
    },
    {"type": "upsert_memo", "entries": {"codec": "avro", "blob": encode_blob({"a": 1, "b": None})}},
    {
        "type": "record_local_activity",
        "activity_type": "a",
        "outcome": "failed",
        "message": "m",
        "exception_type": "T",
        "retry_policy": {"max_attempts": 1},
        "attempts": [
            {
                "attempt_number": 1,
                "outcome": "failed",
                "message": "m",
                "exception_type": "T",
                "duration_ms": 5,
                "heartbeats": [{"elapsed_ms": 1, "details": {"a": 1}}],
            }
        ],
    },
    {
        "type": "start_service_operation",
        "endpoint_name": "shop",
        "service_name": "desk",
        "operation_name": "sell",
        "payload_codec": "avro",
        "request_payload": PAYLOAD["blob"],
        "idempotency_key": "k",
        "mode_override": "async",
        "wait_for": "accepted",
        "wait_timeout_seconds": 5,
    },
    schedule(queue=QUEUE, worker_session={"session_id": "s", "max_concurrent_activities": 1}),
    {"type": "complete_update", "update_id": "u", "result": PAYLOAD},
    {"type": "fail_update", "update_id": "u", "message": "m", "exception_type": "T", "exception_class": "C"},
    {"type": "continue_as_new", "workflow_type": "t", "queue": QUEUE, "arguments": PAYLOAD},
]


@pytest.fixture(scope="module")
def server(
    postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Process, str]]:
    """A standalone server and the URL of its database."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    leases = {"DW_WORKFLOW_TASK_TIMEOUT": "300", "DW_ACTIVITY_TASK_TIMEOUT": "300"}
    with (
        migrated_database(postgres_url) as database_url,
        Cluster(folder, ("standalone",), database_url=database_url, redis_url=redis_url, environ=leases) as cluster,
    ):
        (process,) = cluster.processes

        async def is_ready() -> bool:
            try:
                return (await exchange(process.port, "GET", "/api/ready", b"", HEADERS)).status == 200
            except Exception:  # noqa: BLE001 - it is starting
                return False

        asyncio.run(eventually(is_ready, "the server is ready", 30))
        yield process, database_url
        logs = cluster.logs()
        assert "Traceback" not in logs and "never retrieved" not in logs
        assert TOKEN not in logs and (urlsplit(database_url).password or "no password") not in logs


class Fuzzer:
    """Sends wrong requests to a route, on live tasks that a worker holds."""

    def __init__(self, process: Process, rng: random.Random) -> None:
        self._port = process.port
        self._rng = rng
        self._number = 0
        self.tasks: dict[str, Json] = {}

    async def post(self, path: str, body: Json) -> Json:
        """A request that must succeed."""
        answer = await exchange(self._port, "POST", path, body, HEADERS)
        assert answer.status in (200, 201), (path, answer)
        return answer.body

    async def prepare(self) -> None:
        """Hold a workflow task and an activity task."""
        await self.post(
            "/api/worker/register",
            {
                "worker_id": WORKER,
                "task_queue": QUEUE,
                "runtime": "python",
                "supported_activity_types": ["chaos.activity"],
                "max_concurrent_workflow_tasks": 1_000,
                "max_concurrent_activity_tasks": 1_000,
            },
        )
        poll = {"worker_id": WORKER, "task_queue": QUEUE, "timeout_seconds": 5}
        if "activity" not in self.tasks:
            await self._start()
            task = (await self.post("/api/worker/workflow-tasks/poll", poll))["task"]
            fence = {"lease_owner": WORKER, "workflow_task_attempt": task["workflow_task_attempt"]}
            path = f"/api/worker/workflow-tasks/{task['task_id']}/complete"
            await self.post(path, fence | {"commands": [schedule(queue=QUEUE)]})
            self.tasks["activity"] = (await self.post("/api/worker/activity-tasks/poll", poll))["task"]
        if "workflow" not in self.tasks:
            await self._start()
            self.tasks["workflow"] = (await self.post("/api/worker/workflow-tasks/poll", poll))["task"]

    async def _start(self) -> None:
        self._number += 1
        body = {"workflow_id": f"fuzz-{self._rng.getrandbits(60)}", "workflow_type": "t", "task_queue": QUEUE}
        await self.post("/api/workflows", body)

    def base(self, route: Route) -> Json:
        """A body of this route that would be accepted."""
        assert route.request is not None
        known: Json = {
            "worker_id": WORKER,
            "task_queue": QUEUE,
            "runtime": "python",
            "workflow_type": "t",
            "timeout_seconds": 0,
            "lease_owner": WORKER,
            "workflow_task_attempt": self.tasks["workflow"]["workflow_task_attempt"],
            "activity_attempt_id": self.tasks["activity"]["activity_attempt_id"],
            "commands": [self._rng.choice(COMMANDS)],
            "failure": {"message": "m"},
            "next_history_page_token": "MQ",
            "message_stream_cursors": [{"stream_name": "s", "through_position": 0}],
            "message_stream_waits": [{"stream_name": "s", "after_position": 0}],
            "message_id": f"m-{self._rng.getrandbits(60)}",
            "items": [{"payload": PAYLOAD, "idempotency_key": "k"}],
            "activity_type": "chaos.activity",
            "sequence": 1,
            "call_kind": "activity",
            "request_id": f"r-{self._rng.getrandbits(60)}",
            "memo": {"a": 1},
            "search_attributes": {"Name": "v"},
            "query_task_attempt": 1,
            "update_validation_attempt": 1,
            "workflow_id": f"fuzz-{self._rng.getrandbits(60)}",
        }
        names = [field.encode_name for field in msgspec.structs.fields(route.request)]
        return {name: known[name] for name in names if name in known}

    def path(self, route: Route, *, is_wrong: bool) -> str:
        """The route's path with ids that exist, or with one that is nonsense."""
        kind = "activity" if "activity" in route.path else "workflow"
        task = self.tasks[kind]
        path = route.path
        for name, value in {
            "task_id": task["task_id"],
            "workflow_id": task["workflow_id"],
            "run_id": task["run_id"],
            "worker_id": "nobody",
            "namespace": "default",
        }.items():
            nonsense = quote(str(self._rng.choice(NASTY)), safe="%")
            path = path.replace(f"{{{name}}}", nonsense or "-" if is_wrong else value)
        return path.replace("{", "").replace("}", "")

    def mutate(self, value: Any) -> Any:
        """The value with something wrong somewhere in it."""
        if self._rng.random() < 0.3 or not isinstance(value, dict | list) or not value:
            return self._rng.choice(NASTY)
        if isinstance(value, list):
            place = self._rng.randrange(len(value))
            return [self.mutate(item) if at == place else item for at, item in enumerate(value)]
        name = self._rng.choice(list(value))
        return value | {name: self.mutate(value[name])}

    def wrong_body(self, route: Route) -> bytes:
        """A body that is wrong in one place, or no JSON at all."""
        if route.request is None or self._rng.random() < 0.15:
            return self._rng.choice(RAW)
        base = self.base(route)
        fields = [field.encode_name for field in msgspec.structs.fields(route.request)]
        if base and self._rng.random() < 0.5:
            body = self.mutate(base)
        else:
            body = base | {self._rng.choice(fields): self._rng.choice(NASTY)}
        if route.is_poll and isinstance(body, dict):
            body["timeout_seconds"] = 0  # a poll with a window would be held
        return msgspec.json.encode(body)

    async def send(self, route: Route) -> Answer:
        """One wrong request."""
        path = self.path(route, is_wrong=self._rng.random() < 0.3)
        if self._rng.random() < 0.2:
            path += "?" + "&".join(
                f"{name}={quote(str(self._rng.choice(NASTY)), safe='%')}"
                for name in (
                    "page_size",
                    "limit",
                    "next_page_token",
                    "status",
                    "workflow_type",
                    "query",
                    "wait_new_event",
                )
            )
        headers = dict(HEADERS)
        if self._rng.random() < 0.1:
            name = self._rng.choice(["X-Namespace", "Content-Type", "Accept-Encoding", "X-Request-Id", *HEADERS])
            headers[name] = quote(str(self._rng.choice(NASTY)))[:1000]
        body = self.wrong_body(route)
        if route.method == "GET":
            body = b""
        answer = await exchange(self._port, route.method, path, body, headers)
        self._judge(route, answer, f"{route.method} {path[:300]} {body[:500]!r} {headers}")
        return answer

    def _judge(self, route: Route, answer: Answer, request: str) -> None:
        assert answer.status < 500 or answer.body["reason"] in ALLOWED, (request, answer)
        header = "protocol-version" if route.plane is Plane.WORKER else "control-plane-version"
        assert f"x-durable-workflow-{header}" in answer.head.lower(), (request, answer)
        text = str(answer.body)
        assert "Traceback" not in text and TOKEN not in text and "psycopg" not in text, (request, answer)
        if answer.status >= 400:
            assert {"reason", "message"} <= answer.body.keys(), (request, answer)


@pytest.mark.parametrize("name", [route.name for route in ROUTES])
async def test_nonsense_is_refused_and_changes_nothing(
    name: str, server: tuple[Process, str], rng: random.Random
) -> None:
    process, database_url = server
    route = next(route for route in ROUTES if route.name == name)
    fuzzer = Fuzzer(process, rng)
    await fuzzer.prepare()
    before = await asyncio.to_thread(fingerprint, database_url)
    for _ in range(BODIES_PER_ROUTE):
        answer = await fuzzer.send(route)
        if answer.status in (404, 501, 503) and answer.body["reason"] in (
            "not_implemented",
            "topology_role_unavailable",
        ):
            return
        if answer.status >= 400 and answer.status != 409:  # a refused command is recorded
            continue
        if not route.is_poll and answer.status == 200 and route.path.endswith(("/complete", "/fail")):
            fuzzer.tasks.pop("activity" if "activity" in route.path else "workflow")
            await fuzzer.prepare()
        before = await asyncio.to_thread(fingerprint, database_url)
    assert await asyncio.to_thread(fingerprint, database_url) == before
