"""The character NUL in a body is refused before any handler sees it, on both planes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.shell_client import OPERATOR, WORKER, build_shell, call

REGISTER: dict[str, Any] = {"task_queue": "orders", "runtime": "python"}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"worker_id": "a\0b"}, ["worker_id"]),
        ({"supported_workflow_types": ["order", "\0"]}, ["supported_workflow_types.1"]),
        ({"process_metrics": {"host": {"name": "\0"}}}, ["process_metrics.host.name"]),
        ({"process_metrics": {"a\0": 1}}, ["process_metrics"]),
        ({"nobody_knows": "\0", "sdk_version": "\0"}, ["nobody_knows", "sdk_version"]),
    ],
)
async def test_each_place_with_nul_is_named(body: dict[str, Any], fields: list[str]) -> None:
    answer = await call(build_shell(), "POST", "/api/worker/register", headers=WORKER, body=REGISTER | body)
    assert (answer.status, answer.json["reason"], list(answer.json["errors"])) == (422, "validation_failed", fields)


async def test_text_that_only_looks_like_an_escape_passes() -> None:
    body = REGISTER | {"worker_id": "\\u0000"}
    answer = await call(build_shell(), "POST", "/api/worker/register", headers=WORKER, body=body)
    assert answer.json["reason"] == "not_implemented"


async def test_the_control_plane_refuses_it_too() -> None:
    body = {"workflow_type": "a\0b"}
    answer = await call(build_shell(), "POST", "/api/workflows", headers=OPERATOR, body=body)
    assert (answer.status, list(answer.json["errors"])) == (422, ["workflow_type"])
    assert answer.json["control_plane"]["validation_errors"] == answer.json["errors"]
