"""What a route may answer: the reasons of its gates, and its own from the table."""

from __future__ import annotations

from dw_core.openapi.refusals import REFUSALS
from dw_core.openapi.successes import SUCCESSES
from dw_core.protocol.reasons import REASONS
from dw_core.routes.route import Plane, Route

_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})


REFERENCE_REFUSALS = frozenset(
    (
        "external_payload_expired",
        "external_payload_integrity_failed",
        "external_payload_integrity_mismatch",
        "external_payload_not_found",
        "external_payload_oversized",
        "external_payload_storage_unavailable",
        "external_payload_unsupported",
    )
)
"""Why a body with references to external payloads is refused, whatever the route."""


def successes_of(route: Route) -> tuple[int, ...]:
    """The statuses of a route's answers that are no refusals; 409 and 503 answers that carry a whole document too."""
    return SUCCESSES.get(route.name, (200,))


def reasons_of(route: Route) -> frozenset[str]:
    """Every reason that a route may refuse with; ``reason:409`` is one with a status that is not its usual."""
    return gate_reasons(route) | frozenset(REFUSALS.get(route.name, ()))


def statuses_of(route: Route) -> dict[int, list[str]]:
    """The reasons of a route's refusals by status."""
    found: dict[int, list[str]] = {}
    for entry in sorted(reasons_of(route)):
        reason, _, unusual = entry.partition(":")
        found.setdefault(int(unusual) if unusual else REASONS[reason], []).append(reason)
    return dict(sorted(found.items()))


def gate_reasons(route: Route) -> frozenset[str]:
    """The reasons that come before a route's handler, and those of a server in trouble."""
    found = {"payload_too_large", "validation_failed"}
    if route.plane is Plane.DISCOVERY:
        found.add("server_error")
    else:
        failure = "control_plane_internal_error" if route.plane is Plane.CONTROL else "server_error"
        found |= {failure, "backend_unavailable", "topology_role_unavailable"}
    if route.method in _BODY_METHODS or route.request is not None:
        found |= {"malformed_json", "unsupported_media_type"}
        if route.plane is not Plane.DISCOVERY and route.body_media_type == "application/json":
            found |= REFERENCE_REFUSALS
    if route.principals:
        found |= {"unauthorized", "forbidden", "server_error"}
    if route.version_gate:
        plane = "protocol" if route.plane is Plane.WORKER else "control_plane"
        found |= {f"missing_{plane}_version", f"unsupported_{plane}_version"}
    if route.bootstrap_gate:
        found.add("workflow_v2_blocked")
    if route.namespace_gate:
        found.add("namespace_not_found")
        if route.plane is Plane.CONTROL and not route.is_poll:
            found |= {"namespace_request_rate_exhausted", "namespace_request_concurrency_exhausted"}
    return frozenset(found)
