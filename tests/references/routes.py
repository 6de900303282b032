"""The routes and the reasons of refusals as pages of Markdown."""

from __future__ import annotations

from itertools import groupby

from dw_core.protocol.reasons import REASONS
from dw_core.routes.catalogue import ROUTES
from dw_core.routes.route import Plane, Route

_TITLES = {
    Plane.DISCOVERY: "Discovery",
    Plane.CONTROL: "Control plane",
    Plane.WORKER: "Worker plane",
}


def render_routes() -> str:
    """Every route of the catalogue: who may call it, and which topology roles serve it."""
    lines = [
        "# Routes",
        "",
        "Generated from the route catalogue; do not edit. Bodies and answers are described by a running server, at",
        "`/api/docs` for people and at `/api/openapi.json` for programs.",
    ]
    for plane, title in _TITLES.items():
        lines += ["", f"## {title}", "", "| route | what it does | who may call it | topology roles |"]
        lines.append("|---|---|---|---|")
        lines += [_row(route) for route in sorted(ROUTES, key=lambda r: (r.path, r.method)) if route.plane is plane]
    return "\n".join(lines) + "\n"


def _row(route: Route) -> str:
    callers = ", ".join(route.principals) or "everybody"
    roles = ", ".join(f"`{role}`" for role in route.required_roles) or "every process"
    return f"| `{route.method} {route.path}` | {route.summary.rstrip('.')} | {callers} | {roles} |"


def render_reasons() -> str:
    """Every machine reason by status."""
    lines = [
        "# Reasons",
        "",
        "Generated from the table of errors; do not edit. Every refusal names its `reason`; a reason has one status.",
    ]
    by_status = sorted(REASONS.items(), key=lambda item: (item[1], item[0]))
    for status, reasons in groupby(by_status, key=lambda item: item[1]):
        lines += ["", f"## {status}", "", ", ".join(f"`{reason}`" for reason, _ in reasons) + "."]
    return "\n".join(lines) + "\n"
