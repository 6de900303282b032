"""Who may call what, spelled out route by route family (control-plane §2.2)."""

from __future__ import annotations

import pytest

from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane, Route

ANYBODY: tuple[str, ...] = ()
ANY_ROLE = ("worker", "operator", "admin")
OPERATORS = ("operator", "admin")
ADMINS = ("admin",)
WORKERS = ("worker",)
OPERATION = "/api/service-endpoints/{endpoint_name}/services/{service_name}/operations/{operation_name}"
MATRIX: list[tuple[str, str, tuple[str, ...]]] = [
    # method or * and the beginning of a path; the first that fits decides
    ("GET", "/livez", ANYBODY),
    ("GET", "/api/health", ANYBODY),
    ("GET", "/api/ready", ANYBODY),
    ("GET", "/api/openapi.json", ANYBODY),
    ("GET", "/api/docs", ANYBODY),
    ("GET", "/api/cluster/info", ANY_ROLE),
    ("*", "/api/worker/", WORKERS),
    ("*", "/api/external-payloads/", ANY_ROLE),
    ("GET", "/api/namespaces", OPERATORS),
    ("*", "/api/namespaces", ADMINS),
    ("*", "/api/storage/", ADMINS),
    ("DELETE", "/api/workers/", ADMINS),
    ("POST", f"{OPERATION}/execute", OPERATORS),
    ("POST", f"{OPERATION}/service-calls", OPERATORS),
    ("*", "/api/service-endpoints", ADMINS),
    ("*", "/api/system/", ADMINS),
    ("*", "/api/workflows", OPERATORS),
    ("*", "/api/activities", OPERATORS),
    ("*", "/api/schedules", OPERATORS),
    ("*", "/api/search-attributes", OPERATORS),
    ("*", "/api/task-queues", OPERATORS),
    ("*", "/api/bridge-adapters/", OPERATORS),
    ("GET", "/api/workers", OPERATORS),
    ("GET", "/api/worker-sessions", OPERATORS),
]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_route_is_open_to_whom_the_matrix_says(route: Route) -> None:
    fits = (roles for method, path, roles in MATRIX if method in ("*", route.method) and route.path.startswith(path))
    allowed = next(fits, None)
    assert allowed is not None, f"{route.path} is in no line of the matrix"
    assert set(route.principals) == set(allowed)
    assert not route.principals or route.plane is not Plane.DISCOVERY or route.path == "/api/cluster/info"
