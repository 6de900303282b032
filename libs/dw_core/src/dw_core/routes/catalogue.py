"""The catalogue itself, and how a request finds its route in it."""

from __future__ import annotations

from dw_core.routes.matching import Matched, MethodNotAllowed, NotFound, Table
from dw_core.routes.operator_routes import OPERATOR_ROUTES
from dw_core.routes.route import Plane, Route
from dw_core.routes.worker_routes import WORKER_ROUTES
from dw_core.routes.workflow_routes import WORKFLOW_ROUTES


def _discovery(
    path: str,
    name: str,
    summary: str,
    principals: tuple[str, ...] = (),
    *,
    media_type: str = "application/json",
) -> Route:
    return Route(
        method="GET",
        path=path,
        name=name,
        plane=Plane.DISCOVERY,
        principals=principals,
        version_gate=False,
        bootstrap_gate=False,
        namespace_gate=False,
        summary=summary,
        media_type=media_type,
    )


DISCOVERY_ROUTES: tuple[Route, ...] = (
    _discovery("/livez", "livez", "Tell that the process serves"),
    _discovery("/api/health", "health", "Tell whether the server and its database answer"),
    _discovery("/api/ready", "ready", "Tell whether the server may take traffic"),
    _discovery("/api/openapi.json", "openapi", "Describe every route to programs"),
    _discovery("/api/docs", "api_docs", "Describe every route to people", media_type="text/html"),
    _discovery("/api/cluster/info", "cluster_info", "Describe the server to clients", ("worker", "operator", "admin")),
)
"""Served by every process, whatever its roles (architecture §3)."""

ROUTES: tuple[Route, ...] = (*DISCOVERY_ROUTES, *WORKER_ROUTES, *WORKFLOW_ROUTES, *OPERATOR_ROUTES)
"""Every public route of the server."""

_BY_NAME = {entry.name: entry for entry in ROUTES}
assert len(_BY_NAME) == len(ROUTES), "two routes of the catalogue share a name"
_TABLE = Table(ROUTES)


def route(name: str) -> Route:
    """The route called ``name``; raises ``KeyError`` for a name that is not in the catalogue."""
    return _BY_NAME[name]


def match(method: str, path: str) -> Matched | NotFound | MethodNotAllowed:
    """Find the route of a request.

    ``method`` is upper-case; HEAD is answered by the GET route. ``path`` is the raw request path, still
    percent-encoded, without the query string: each parameter is decoded exactly once (control-plane §1).
    """
    return _TABLE.match(method, path)


def plane_of(path: str) -> Plane:
    """The plane whose envelope and version header an answer to ``path`` carries, also when no route matches it."""
    if path == "/api/worker" or path.startswith("/api/worker/"):
        return Plane.WORKER
    return Plane.DISCOVERY if path in _DISCOVERY_PATHS else Plane.CONTROL


_DISCOVERY_PATHS = frozenset(entry.path for entry in DISCOVERY_ROUTES)
