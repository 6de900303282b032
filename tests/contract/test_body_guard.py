"""Bodies: how large, of which type, and what a wrong field is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec
import pytest

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Route
from dw_runtime.http.body import BodyDecoder, ClientGone, read_body
from dw_runtime.http.call import Call, Reply
from dw_runtime.http.shell import ShellSettings
from dw_runtime.http.unread import UnreadBody
from tests.contract.shell_client import OPERATOR, WORKER, build_shell, call

HEARTBEAT = "/api/worker/heartbeat"
EXAMPLES: dict[str, Any] = {"workflow_task_attempt": 1, "commands": [{}], "failure": {"message": "m"}}
"""Valid values of required fields that are not texts."""
WITH_NUL: list[Any] = ["a\0b", ["a\0b"], {"a": {"b": "\0"}}, {"a\0b": {}}, {"a": "\0"}]


async def _ok(request: Call) -> Reply:
    return Reply({"ok": True})


async def test_an_announced_oversize_body_is_refused_unread() -> None:
    shell = build_shell(settings=ShellSettings(max_body_bytes=100))
    headers = {**WORKER, "content-length": "101"}
    answer = await call(shell, "POST", HEARTBEAT, headers=headers, body=b"")
    assert (answer.status, answer.json["limit"]) == (413, 100)


async def test_chunks_are_refused_as_soon_as_they_exceed_the_limit() -> None:
    taken: list[int] = []
    taken_before_the_answer: list[int] = []

    def chunks() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 10

    shell = build_shell(settings=ShellSettings(max_body_bytes=100))

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        async def counted() -> Any:
            message = await receive()
            taken.append(len(message.get("body", b"")))
            return message

        async def answered(message: Any) -> None:
            if message["type"] == "http.response.start":
                taken_before_the_answer.append(sum(taken))
            await send(message)

        await shell(scope, counted, answered)

    answer = await call(counting, "POST", HEARTBEAT, headers=WORKER, chunks=chunks())
    assert (answer.status, answer.json["reason"], answer.json["limit"]) == (413, "payload_too_large", 100)
    assert taken_before_the_answer == [110]
    assert sum(taken) == 500, "what is left is thrown away, or the reset of the connection takes the answer with it"


async def test_what_a_refusal_leaves_unread_is_thrown_away_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dw_runtime.http.unread.DISCARD_BYTES_MAX", 200)
    given: list[int] = []

    async def endless() -> MutableMapping[str, Any]:
        given.append(10)
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    await UnreadBody(endless).discard()
    assert sum(given) == 200


async def test_a_client_that_stops_in_the_middle_of_what_is_thrown_away_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dw_runtime.http.unread.DISCARD_SECONDS", 0.01)
    parts: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    parts.put_nowait({"type": "http.request", "body": b"x", "more_body": True})
    unread = UnreadBody(parts.get)
    await unread.discard()
    assert parts.empty() and not unread.is_over


async def test_chunks_within_the_limit_are_joined() -> None:
    shell = build_shell({"worker_heartbeat": _ok})
    answer = await call(shell, "POST", HEARTBEAT, headers=WORKER, chunks=[b'{"work', b'er_id":', b'"w"}'])
    assert answer.status == 200


async def test_a_client_that_stops_in_the_middle_of_its_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dw_runtime.http.body.BODY_SECONDS", 0.01)
    parts: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    parts.put_nowait({"type": "http.request", "body": b"{", "more_body": True})

    with pytest.raises(ClientGone):
        await read_body(parts.get, {}, 100)


@pytest.mark.parametrize("body", [None, b"", b"{}", b"[]", b" [] "])
async def test_a_body_of_optional_fields_may_be_absent_or_empty(body: bytes | None) -> None:
    shell = build_shell({"workflow_terminate": _ok})
    answer = await call(shell, "POST", "/api/workflows/w/terminate", headers=OPERATOR, body=body)
    assert answer.status == 200


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "application/x+json"])
async def test_json_media_types_are_accepted(content_type: str) -> None:
    shell = build_shell({"worker_heartbeat": _ok})
    headers = {**WORKER, "content-type": content_type}
    assert (await call(shell, "POST", HEARTBEAT, headers=headers, body={"worker_id": "w"})).status == 200


async def test_get_and_delete_ignore_what_is_in_their_body() -> None:
    shell = build_shell({"workflow_list": _ok, "worker_deregister": _ok})
    assert (await call(shell, "GET", "/api/workflows", headers=OPERATOR, body=b"{nonsense")).status == 200
    answer = await call(shell, "DELETE", "/api/worker/registrations/w", headers=WORKER, body=b"{nonsense")
    assert answer.status == 200


@pytest.mark.parametrize("body", [b"{", b"{'a':1}", b'{"a":NaN}', b"[" * 100_000, b'{"worker_id":7,oops}', b"\xff"])
async def test_malformed_json_is_told_apart_from_wrong_fields(body: bytes) -> None:
    answer = await call(build_shell(), "POST", HEARTBEAT, headers=WORKER, body=body)
    assert (answer.status, answer.json["reason"]) == (400, "malformed_json")
    assert answer.json["json_error"]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "worker_id", "The worker_id field is required."),
        ({"worker_id": 7}, "worker_id", "must be a string"),
        ({"worker_id": ""}, "worker_id", "must not be empty"),
        ({"worker_id": "x" * 300}, "worker_id", "must have at most 255 characters"),
        (
            {"worker_id": "w", "task_slots": {"workflow_available": -1}},
            "task_slots.workflow_available",
            "must be an integer of at least 0",
        ),
        ([1], "body", "must be an object"),
        ("text", "body", "must be an object"),
    ],
)
async def test_wrong_fields_are_named_by_path_in_both_maps(body: Any, field: str, message: str) -> None:
    answer = await call(build_shell(), "POST", HEARTBEAT, headers=WORKER, body=body)
    assert (answer.status, answer.json["reason"]) == (422, "validation_failed")
    assert answer.json["errors"] == answer.json["validation_errors"] == {field: [message]}


async def test_a_held_poll_learns_that_its_client_has_gone() -> None:
    hang_up = asyncio.Event()

    async def poll(request: Call) -> Reply:
        hang_up.set()
        assert request.hangup is not None
        gone = asyncio.Event()
        request.hangup.notify(gone.set)
        await gone.wait()
        return Reply({"task": None, "poll_status": "empty"})

    shell = build_shell({"workflow_task_poll": poll})
    body = {"worker_id": "w", "task_queue": "q"}
    answer = await call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body=body, hang_up=hang_up)
    assert answer.json["poll_status"] == "empty"


async def test_draining_ends_held_polls_and_waits_for_them() -> None:
    held = asyncio.Event()

    async def poll(request: Call) -> Reply:
        held.set()
        await request.draining.wait()
        return Reply({"task": None, "poll_status": "empty"})

    shell = build_shell({"workflow_task_poll": poll})
    body = {"worker_id": "w", "task_queue": "q"}
    request = asyncio.create_task(call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body=body))
    await held.wait()
    assert await shell.drain(timeout_seconds=5.0)
    answer = await request
    assert (answer.status, answer.json["poll_status"], answer.headers["connection"]) == (200, "empty", "close")


async def test_draining_gives_up_when_a_request_does_not_end() -> None:
    held = asyncio.Event()

    async def poll(request: Call) -> Reply:
        held.set()
        return await asyncio.Future[Reply]()

    shell = build_shell({"workflow_task_poll": poll})
    body = {"worker_id": "w", "task_queue": "q"}
    request = asyncio.create_task(call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body=body))
    await held.wait()
    assert not await shell.drain(timeout_seconds=0.01)
    request.cancel()


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.request is not None], ids=lambda route: route.name
)
async def test_no_field_that_is_kept_may_hold_a_nul(route: Route) -> None:
    """One poll with such an id would otherwise fail every transaction of its process."""
    assert route.request is not None
    kept = [
        field
        for field in msgspec.structs.fields(route.request)
        if field.name not in getattr(route.request, "MAY_HOLD_NUL", ())
    ]
    decoder = BodyDecoder(route.request)
    for field in kept:
        for wrong in WITH_NUL:
            body = {name.encode_name: EXAMPLES.get(name.name, "1") for name in kept if name.required}
            _, invalid = decoder.decode(msgspec.json.encode(body | {field.encode_name: wrong}))
            assert invalid is not None, f"{field.encode_name} takes {wrong!r}"


async def test_a_poll_with_a_nul_in_it_is_refused_by_field() -> None:
    shell = build_shell({"workflow_task_poll": _ok})
    body = b'{"worker_id": "w", "task_queue": "q", "poll_request_id": "a\\u0000"}'
    answer = await call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body=body)
    assert (answer.status, answer.json["errors"]) == (422, {"poll_request_id": ["must not contain the character NUL"]})


async def test_what_a_failure_says_may_hold_a_nul() -> None:
    shell = build_shell({"activity_task_fail": _ok})
    body = b'{"activity_attempt_id": "a", "lease_owner": "w", "failure": {"message": "\\u0000"}}'
    answer = await call(shell, "POST", "/api/worker/activity-tasks/x/fail", headers=WORKER, body=body)
    assert answer.status == 200


async def test_a_field_that_a_route_does_not_take_is_told_only_to_callers_who_may_ask() -> None:
    shell = build_shell({"workflow_start": _ok})
    body = b'{"workflow_type": "t", "retry_policy": {}}'
    stranger = {**OPERATOR, "authorization": "Bearer wrong"}
    assert (await call(shell, "POST", "/api/workflows", headers=stranger, body=body)).status == 401
    answer = await call(shell, "POST", "/api/workflows", headers=OPERATOR, body=body)
    assert (answer.status, list(answer.json["errors"])) == (422, ["retry_policy"])


async def test_a_stranger_is_told_so_before_the_bytes_of_a_payload_are_read() -> None:
    shell = build_shell(settings=ShellSettings(payload_bytes_max=10))
    sent = {"content-type": "application/octet-stream", "x-namespace": "default"}
    for token, status in (("nobody", 401), ("w-secret", 413)):
        headers = sent | {"authorization": f"Bearer {token}"}
        answer = await call(shell, "POST", "/api/external-payloads/v1", headers=headers, body=b"x" * 11)
        assert (answer.status, answer.json["retryable"]) == (status, False)
