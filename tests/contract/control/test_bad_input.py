"""Bodies, names and headers that no honest client sends: each gets a named refusal, and nothing is stored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane, Route
from tests.contract.shell_client import Answer, call
from tests.contract.test_node_matrix import SERVED
from tests.harness.worker_plane import ServedPlane

CONTROL = {"x-durable-workflow-control-plane-version": "2"}
COMMANDS = [
    route
    for route in ROUTES
    if route.plane is Plane.CONTROL and route.method in ("POST", "PUT") and route.request and route.name in SERVED
]
START = {"workflow_type": "order", "workflow_id": "bad-input"}
EXAMPLES: dict[str, Any] = {
    "operation_mode": "sync",
    "handler_binding_kind": "start_workflow",
    "items": [{}],
    "spec": {},
    "action": {},
    "type": "keyword",
    "driver": "local",
}
"""Valid values of required members that are no plain texts."""
BODIES: dict[str, tuple[bytes, int, str]] = {
    "not JSON": (b"{", 400, "malformed_json"),
    "not UTF-8": (b'{"a": "\xff"}', 400, "malformed_json"),
    "a lone surrogate": (b'{"a": "\\ud800"}', 400, "malformed_json"),
    "nested too deeply": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "malformed_json"),
    "a member twice": (b'{"a": 1, "a": 2}', 400, "malformed_json"),
    "a member twice inside": (b'{"a": {"b": 1, "b": 2}}', 400, "malformed_json"),
    "too large": (b'{"a": "' + b"x" * 2_097_152 + b'"}', 413, "payload_too_large"),
    "a list": (b"[1]", 422, "validation_failed"),
    "a text": (b'"text"', 422, "validation_failed"),
    "NUL": (b'{"a": "\\u0000"}', 422, "validation_failed"),
}


async def send(served: ServedPlane, method: str, path: str, body: Any, **headers: str) -> Answer:
    sent = (
        CONTROL | {"x-namespace": served.namespace} | {name.replace("_", "-"): text for name, text in headers.items()}
    )
    return await call(served.app, method, f"/api{path}", headers=sent, body=body)


def with_required(route: Route, body: bytes) -> bytes:
    """The members of ``body`` beside valid ones for what the route needs; a text that is no object stays as it is."""
    assert route.request is not None
    needed = {
        field.encode_name: EXAMPLES.get(field.name, "a")
        for field in msgspec.structs.fields(route.request)
        if field.required
    }
    if not needed or not body.startswith(b"{") or body == b"{":
        return body
    return json.dumps(needed).encode()[:-1] + b"," + body[1:]


@pytest.mark.parametrize("route", COMMANDS, ids=lambda route: route.name)
async def test_a_bad_body_is_refused_by_name_and_changes_nothing(route: Route, served: ServedPlane) -> None:
    path = route.path.removeprefix("/api").replace("{", "").replace("}", "")
    before = await served.dump()
    for what, (body, status, reason) in BODIES.items():
        answer = await send(served, route.method, path, with_required(route, body))
        assert (what, answer.status, answer.json["reason"]) == (what, status, reason)
    answer = await send(served, route.method, path, b"a=1", content_type="application/x-www-form-urlencoded")
    assert (answer.status, answer.json["reason"]) == (415, "unsupported_media_type")
    assert await served.dump() == before


@pytest.mark.parametrize(
    "body",
    [
        {"input": [10**400]},
        {"input": [[[[]]]] * 3 + ["\ud800"]},
        {"priority": 10**30},
        {"priority": -1},
        {"execution_timeout_seconds": 10**18},
        {"execution_timeout_seconds": 1.5},
        {"workflow_id": "../../etc/passwd"},
        {"workflow_id": "a\r\nset-cookie: x"},
        {"workflow_id": "a" * 129},
        {"workflow_id": "naïve"},
        {"task_queue": ""},
        {"memo": {"k": "x" * 300_000}},
        {"search_attributes": {f"a{n}": n for n in range(101)}},
        {"search_attributes": {"a": {"nested": 1}}},
        {"duplicate_policy": "maybe"},
        {"input": {"codec": "json", "blob": "e30="}},
        {"input": {"codec": "avro", "blob": "not base64!"}},
        {"input": {"codec": "avro"}},
        {"input": 7},
    ],
    ids=lambda body: str(body)[:40],
)
async def test_a_bad_start_is_refused_by_name_and_starts_nothing(body: dict[str, Any], served: ServedPlane) -> None:
    encoded = json.dumps(START | body).encode()
    answer = await send(served, "POST", "/workflows", encoded)
    assert 400 <= answer.status < 500, answer.json
    assert answer.json["reason"] not in ("not_found", "")
    assert (await send(served, "GET", "/workflows", None)).json["workflows"] == []


@pytest.mark.parametrize("name", ["..%2F..%2Fetc", "%2e%2e", "a%0d%0ab", "%00", "x" * 5000, "%ff%fe", "%ud800"])
async def test_a_bad_name_in_a_path_names_nothing(name: str, served: ServedPlane) -> None:
    for path in (
        f"/workflows/{name}",
        f"/workflows/{name}/runs/{name}",
        f"/namespaces/{name}",
        f"/workers/{name}",
        f"/service-endpoints/{name}",
        f"/worker-sessions/{name}",
    ):
        answer = await send(served, "GET", path, None)
        assert (path[:40], answer.status) == (path[:40], 404)
        assert answer.json["reason"]
        assert not any("\r" in value or "\n" in value for value in answer.headers.values())


async def test_what_a_client_puts_into_headers_is_not_given_back_as_it_is(served: ServedPlane) -> None:
    answer = await send(served, "GET", "/workflows", None, x_request_id="a\r\nset-cookie: x=1")
    assert answer.status == 200
    assert "set-cookie" not in answer.headers and "\n" not in answer.headers["x-request-id"]
    for namespace in ("../x", "a\r\nb", "x" * 10_000, "\u00e9"):
        refused = await send(served, "GET", "/workflows", None, x_namespace=namespace)
        assert (refused.status, refused.json["reason"]) == (404, "namespace_not_found")


async def test_bad_page_tokens_and_sizes_are_refused(served: ServedPlane) -> None:
    for query in (
        "page_size=-1",
        "page_size=1e9",
        "page_size=99999999999999999999",
        "next_page_token=%F0%9F",
        "status=x",
    ):
        answer = await send(served, "GET", f"/workflows?{query}", None)
        assert (query, answer.status, answer.json["reason"]) == (query, 422, "validation_failed")
