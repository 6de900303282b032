"""Every catalogued route on every process class, on the shells that the role processes really build."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from dw_api_ingress.main import build as build_ingress
from dw_core.payloads.transport import transport_problem
from dw_core.protocol.problems import Problem
from dw_core.routes.catalogue import ROUTES
from dw_core.routes.operator_routes import BYTES
from dw_core.routes.route import Plane, Route
from dw_core.topology.placement import resolve
from dw_matching.main import build as build_matching
from dw_runtime.http.gates import missing_roles
from dw_runtime.process.role import Build, Role
from dw_runtime.settings import load
from dw_scheduler.main import build as build_scheduler
from dw_standalone.main import build as build_standalone
from tests.contract.shell_client import Answer, call

BUILDS: dict[str, Build] = {
    "api-ingress": build_ingress,
    "matching": build_matching,
    "scheduler": build_scheduler,
    "standalone": build_standalone,
}
TOKENS = {
    "DW_WORKER_TOKEN": "w-secret",
    "DW_OPERATOR_TOKEN": "o-secret",
    "DW_ADMIN_TOKEN": "a-secret",
}
WORKER_HEADER, CONTROL_HEADER = "x-durable-workflow-protocol-version", "x-durable-workflow-control-plane-version"
SERVED = frozenset(
    (
        "search_attribute_create",
        "search_attribute_delete",
        "search_attribute_list",
        "workflow_archive",
        "workflow_run_archive",
        "workflow_run_redrive",
        "worker_register",
        "worker_heartbeat",
        "worker_deregister",
        "worker_session_create",
        "worker_session_heartbeat",
        "worker_session_close",
        "workflow_task_poll",
        "workflow_task_history",
        "workflow_task_heartbeat",
        "workflow_task_complete",
        "workflow_task_fail",
        "workflow_task_deliver_cancellation",
        "activity_task_acknowledge_cancellation",
        "activity_task_poll",
        "activity_task_heartbeat",
        "activity_task_complete",
        "activity_task_fail",
        "activity_task_status",
        "activity_task_renew_lease",
        "query_task_poll",
        "query_task_complete",
        "query_task_fail",
        "bridge_webhook",
        "schedule_list",
        "schedule_create",
        "schedule_describe",
        "schedule_update",
        "schedule_delete",
        "schedule_pause",
        "schedule_resume",
        "schedule_trigger",
        "schedule_backfill",
        "schedule_history",
        "build_id_list",
        "build_id_drain",
        "build_id_resume",
        "activity_start",
        "activity_describe",
        "activity_list",
        "update_validation_task_poll",
        "update_validation_task_approve",
        "update_validation_task_reject",
        "workflow_debug",
        "workflow_run_debug",
        "workflow_observe",
        "workflow_run_observe",
        "workflow_nexus_operations",
        "workflow_run_nexus_operations",
        "system_repair",
        "system_repair_pass",
        "system_activity_timeouts",
        "system_activity_timeout_pass",
        "workflow_update",
        "workflow_run_update",
        "workflow_start",
        "service_endpoint_list",
        "service_endpoint_create",
        "service_endpoint_describe",
        "service_endpoint_update",
        "service_endpoint_delete",
        "service_list",
        "service_create",
        "service_describe",
        "service_update",
        "service_delete",
        "service_operation_list",
        "service_operation_create",
        "service_operation_describe",
        "service_operation_update",
        "service_operation_delete",
        "service_operation_execute",
        "service_call_describe",
        "service_call_cancel",
        "workflow_query",
        "workflow_run_query",
        "workflow_list",
        "workflow_describe",
        "workflow_runs",
        "workflow_run_describe",
        "workflow_history",
        "workflow_history_export",
        "system_retention",
        "system_retention_pass",
        "workflow_signal",
        "workflow_run_signal",
        "workflow_cancel",
        "workflow_run_cancel",
        "workflow_request_cancellation",
        "workflow_run_request_cancellation",
        "workflow_repair",
        "workflow_run_repair",
        "workflow_terminate",
        "workflow_run_terminate",
        "message_stream_append",
        "message_stream_list",
        "message_stream_describe",
        "output_stream_list",
        "output_stream_describe",
        "output_stream_read",
        "output_stream_append",
        "output_stream_close",
        "namespace_create",
        "namespace_update",
        "namespace_delete",
        "system_audit",
        "worker_list",
        "worker_describe",
        "worker_remove",
        "worker_session_list",
        "worker_session_describe",
        "task_queue_list",
        "task_queue_describe",
        "task_queue_priority_fairness",
        "build_id_promote",
        "system_health",
        "system_metrics",
        "system_metrics_select",
        "system_operator_metrics",
        "namespace_list",
        "namespace_describe",
        "namespace_external_storage",
        "storage_test",
        "external_payload_upload",
        "external_payload_fetch",
        "system_external_payload_cleanup",
        "system_external_payload_cleanup_pass",
    )
)
"""Routes with a handler; every other one says ``not_implemented`` on a node that hosts it."""


class Process:
    """A running role of this test, and requests to it."""

    def __init__(self, name: str, role: Role) -> None:
        self.placement = resolve(None, None, name)
        self.app = role.app

    async def send(
        self, route: Route, token: str | None = None, version: str | None = None, namespace: str = "default"
    ) -> Answer:
        """One request without a body; the version goes into both planes' headers."""
        headers = {"x-namespace": namespace}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if version is not None:
            headers |= {WORKER_HEADER: "1.20" if version == "right" else version}
            headers |= {CONTROL_HEADER: "2" if version == "right" else version}
        path = route.path.replace("{", "").replace("}", "")
        answer = await call(self.app, route.method, path, headers=headers)
        is_worker = route.plane is Plane.WORKER
        assert (WORKER_HEADER in answer.headers, CONTROL_HEADER in answer.headers) == (is_worker, not is_worker)
        return answer


def named(route: Route, reason: str) -> str:
    """The reason as the route spells it: the byte transport has names of its own."""
    return (
        transport_problem(Problem(reason, "")).reason
        if route.body_media_type == BYTES or route.media_type == BYTES
        else reason
    )


def token_for(route: Route) -> str:
    """A token whose role may call the route."""
    return f"{route.principals[0][0]}-secret"


@pytest.fixture(params=BUILDS)
async def process(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Process]:
    """Each of the four processes in turn, on a real database."""
    name: str = request.param
    role = BUILDS[name](load({"DATABASE_URL": database_url, "DW_HTTP_PORT": "0", **TOKENS}))
    await role.startup()
    try:
        yield Process(name, role)
    finally:
        await role.drain()
        await role.shutdown()


def gated() -> Iterator[Route]:
    """The routes that ask who calls."""
    return (route for route in ROUTES if route.principals)


async def test_a_bad_token_hides_everything_else(process: Process) -> None:
    for route in gated():
        answer = await process.send(route, "nobody", "9.9", "absent")
        assert (route.name, answer.status, answer.json["reason"]) == (route.name, 401, named(route, "unauthorized"))


async def test_a_wrong_version_is_told_before_the_topology(process: Process) -> None:
    for route in gated():
        if not route.version_gate:
            continue
        for version in (None, "9.9"):
            answer = await process.send(route, token_for(route), version, "absent")
            kind = "protocol" if route.plane is Plane.WORKER else "control_plane"
            expected = f"{'missing' if version is None else 'unsupported'}_{kind}_version"
            assert (route.name, answer.status, answer.json["reason"]) == (route.name, 400, expected)


async def test_a_route_is_hosted_or_refused_before_its_namespace_is_looked_up(process: Process) -> None:
    for route in gated():
        answer = await process.send(route, token_for(route), "right", "absent")
        missing = missing_roles(process.placement, route)
        if missing:
            assert (route.name, answer.status, answer.json["reason"]) == (route.name, 503, "topology_role_unavailable")
            assert answer.json["required_roles"] == list(route.required_roles)
            assert answer.json["missing_roles"] == missing
            assert answer.json["current_roles"] == list(process.placement.roles)
            assert answer.json["current_process_class"] == process.placement.process_class
            assert answer.json["current_shape"] == process.placement.shape
        elif route.namespace_gate:
            reason = named(route, "namespace_not_found")
            assert (route.name, answer.status, answer.json["reason"]) == (route.name, 404, reason)


async def test_a_hosted_route_has_a_handler_or_says_that_it_has_none(process: Process) -> None:
    for route in gated():
        if missing_roles(process.placement, route):
            continue
        answer = await process.send(route, token_for(route), "right")
        is_missing = answer.status == 501
        assert is_missing is (answer.json.get("reason") == "not_implemented")
        if answer.status != 422 and not route.path.startswith("/api/cluster"):
            assert is_missing is (route.name not in SERVED), (route.name, answer.status, answer.json)


def test_what_is_served_is_catalogued() -> None:
    assert {route.name for route in ROUTES} >= SERVED


async def test_discovery_is_served_by_every_process(process: Process) -> None:
    for route in ROUTES:
        if route.plane is Plane.DISCOVERY:
            answer = await process.send(route, token_for(route) if route.principals else None, "right")
            assert (route.name, answer.status) == (route.name, 200)
