"""The gates of both planes, in the order of control-plane §3 and worker-plane §1.3."""

from __future__ import annotations

from typing import Any

import pytest

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane
from dw_core.topology.placement import resolve
from dw_runtime.http.call import Call, Reply
from dw_runtime.http.gates import missing_roles
from tests.contract.shell_client import OPERATOR, WORKER, Gate, build_shell, call

COMPLETE = "/api/worker/activity-tasks/t-1/complete"
BLOCKED = Gate(("database", "migrations"))


async def _reason(headers: dict[str, str], path: str, body: Any = None, **shell: Any) -> tuple[int, str]:
    answer = await call(build_shell(**shell), "POST", path, headers=headers, body=body)
    return answer.status, answer.json["reason"]


@pytest.mark.parametrize(
    ("path", "right", "wrong_role", "version_header", "foreign_node", "reasons"),
    [
        (
            COMPLETE,
            WORKER,
            "Bearer o-secret",
            "x-durable-workflow-protocol-version",
            "api-ingress",
            "unsupported_protocol_version",
        ),
        (
            "/api/workflows",
            OPERATOR,
            "Bearer w-secret",
            "x-durable-workflow-control-plane-version",
            "matching",
            "unsupported_control_plane_version",
        ),
    ],
)
async def test_each_gate_hides_everything_behind_it(
    path: str, right: dict[str, str], wrong_role: str, version_header: str, foreign_node: str, reasons: str
) -> None:
    everything_wrong = {"authorization": "Bearer nobody", version_header: "9.9", "x-namespace": "absent"}
    node = {"entry_point": foreign_node, "gate": BLOCKED}
    assert await _reason(everything_wrong, path, b"{", **node) == (400, "malformed_json")
    assert await _reason(everything_wrong, path, {}, **node) == (401, "unauthorized")
    assert await _reason({**everything_wrong, "authorization": wrong_role}, path, {}, **node) == (403, "forbidden")
    right_token = {**everything_wrong, "authorization": right["authorization"]}
    assert await _reason(right_token, path, {}, **node) == (400, reasons)
    right_version = {**right, "x-namespace": "absent"}
    assert await _reason(right_version, path, {}, **node) == (503, "topology_role_unavailable")
    assert await _reason(right_version, path, {}, gate=BLOCKED) == (503, "workflow_v2_blocked")
    assert await _reason(right_version, path, {}) == (404, "namespace_not_found")
    assert await _reason(right, path, {}) == (422, "validation_failed")


async def test_a_hosted_route_without_a_handler_says_so() -> None:
    answer = await call(build_shell(), "GET", "/api/workflows", headers=OPERATOR)
    assert (answer.status, answer.json["reason"]) == (501, "not_implemented")


@pytest.mark.parametrize("entry_point", ["api-ingress", "matching", "scheduler", "standalone"])
async def test_every_route_is_hosted_or_refused_with_the_roles_it_lacks(entry_point: str) -> None:
    placement = resolve(None, None, entry_point)
    shell = build_shell(entry_point=entry_point)
    for route in ROUTES:
        if route.plane is Plane.DISCOVERY:
            continue
        role = "admin" if "admin" in route.principals else "worker"
        headers = {
            "authorization": f"Bearer {role[0]}-secret",
            "x-durable-workflow-protocol-version": "1.20",
            "x-durable-workflow-control-plane-version": "2",
        }
        answer = await call(shell, route.method, route.path.replace("{", "").replace("}", ""), headers=headers)
        missing = missing_roles(placement, route)
        is_worker = route.plane is Plane.WORKER
        assert ("x-durable-workflow-protocol-version" in answer.headers) is is_worker, route.name
        assert ("x-durable-workflow-control-plane-version" in answer.headers) is not is_worker, route.name
        assert ("protocol_version" in answer.json) is is_worker, route.name
        if missing:
            assert (answer.status, answer.json["reason"]) == (503, "topology_role_unavailable"), route.name
            assert answer.json["required_roles"] == list(route.required_roles)
            assert answer.json["missing_roles"] == missing
            assert answer.json["current_roles"] == list(placement.roles)
            assert answer.headers["retry-after"] == "5"
        else:
            assert answer.json["reason"] in ("not_implemented", "validation_failed"), route.name


async def test_a_refused_poll_says_there_is_no_task() -> None:
    shell = build_shell(entry_point="scheduler")
    answer = await call(shell, "POST", "/api/worker/workflow-tasks/poll", headers=WORKER, body={})
    assert (answer.json["task"], answer.json["poll_status"]) == (None, "unavailable")
    answer = await call(shell, "POST", COMPLETE, headers=WORKER, body={})
    assert "task" not in answer.json


async def test_namespace_comes_from_header_then_query_then_default() -> None:
    seen: list[str] = []

    async def describe(request: Call) -> Reply:
        seen.append(request.namespace)
        return Reply({"workflow_id": request.params["workflow_id"]})

    shell = build_shell({"workflow_describe": describe})
    assert (
        await call(shell, "GET", "/api/workflows/w", headers={**OPERATOR, "x-namespace": " Default "})
    ).status == 200
    assert (await call(shell, "GET", "/api/workflows/w", headers=OPERATOR)).status == 200
    answer = await call(shell, "GET", "/api/workflows/w?namespace=Billing", headers=OPERATOR)
    assert (answer.status, answer.json["namespace"]) == (404, "billing")
    both = await call(
        shell, "GET", "/api/workflows/w?namespace=billing", headers={**OPERATOR, "x-namespace": "default"}
    )
    assert both.status == 200
    assert seen == ["default"] * 3


async def test_path_parameters_are_decoded_exactly_once() -> None:
    async def describe(request: Call) -> Reply:
        return Reply({"workflow_id": request.params["workflow_id"]})

    answer = await call(build_shell({"workflow_describe": describe}), "GET", "/api/workflows/a%2520b", headers=OPERATOR)
    assert answer.json["workflow_id"] == "a%20b"


async def test_nul_bytes_name_nothing() -> None:
    shell = build_shell()
    answer = await call(shell, "GET", "/api/workflows/a%00b", headers=OPERATOR)
    assert (answer.status, answer.json["reason"]) == (404, "not_found")
    answer = await call(shell, "GET", "/api/workflows?namespace=a%00b", headers=OPERATOR)
    assert (answer.status, list(answer.json["errors"])) == (422, ["query"])


async def test_old_minors_are_accepted_and_answered_with_the_advertised_version() -> None:
    minors: list[int] = []

    async def heartbeat(request: Call) -> Reply:
        minors.append(request.protocol_minor)
        return Reply({"acknowledged": True})

    shell = build_shell({"worker_heartbeat": heartbeat})
    for version in ("1.0", " 1.9 ", "1.20"):
        headers = {**WORKER, "x-durable-workflow-protocol-version": version}
        answer = await call(shell, "POST", "/api/worker/heartbeat", headers=headers, body={"worker_id": "w"})
        assert answer.json["protocol_version"] == answer.headers["x-durable-workflow-protocol-version"] == "1.20"
    assert minors == [0, 9, 20]
