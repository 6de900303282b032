"""Seams between the shell and what it asks at its gates, and the refusals those gates give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from dw_core.coordination.health import BLOCKED_REMEDIATION
from dw_core.protocol.problems import Problem
from dw_core.routes.route import Route
from dw_core.topology.placement import Placement
from dw_runtime.auth.grants import Grant
from dw_runtime.http.call import Principal

ROLE_UNAVAILABLE_MESSAGE: Final = "This node does not host the topology roles required for this endpoint."
BLOCKED_MESSAGE: Final = "This node is not ready to serve workflow v2 traffic until bootstrap blockers are cleared."


class Blocked(msgspec.Struct, frozen=True):
    """Why workflow v2 is closed: an ordered subset of ``database``, ``migrations`` (topology §3.2)."""

    blocked_by: tuple[str, ...]


class BootstrapGate(Protocol):
    """The cached readiness result as the gate needs it."""

    def is_stale(self) -> bool:
        """Whether the cached result is too old to answer from; then :meth:`refreshed` must be awaited first."""

    def blocked(self) -> Blocked | None:
        """What closes the gate, by the cached result. Costs no I/O."""

    async def refreshed(self) -> object:
        """Evaluate once for all callers that wait."""


class Namespaces(Protocol):
    """Which namespaces take requests."""

    async def exists(self, name: str) -> bool: ...


def forbidden(grant: Grant, route: Route) -> Problem:
    """The answer to an authenticated caller of the wrong role (control-plane §2.2)."""
    return Problem(
        "forbidden",
        "The authenticated role may not call this endpoint.",
        role=grant.principal.role,
        allowed_roles=list(route.principals),
    )


def namespace_forbidden(principal: Principal, route: Route) -> Problem:
    """The answer to a caller whom this namespace is not open to; it does not say whether there is such a one."""
    return Problem(
        "forbidden",
        "This namespace is not open to the caller.",
        role=principal.role,
        allowed_roles=list(route.principals),
    )


def missing_roles(placement: Placement, route: Route) -> Sequence[str]:
    """The topology roles that ``route`` needs and this node lacks, in the route's order."""
    if any(role in placement.roles for role in route.also_hosted_by):
        return []
    return [role for role in route.required_roles if role not in placement.roles]


def role_unavailable(placement: Placement, route: Route) -> Problem:
    """The answer of a node that does not host ``route`` (topology §4.2)."""
    return Problem(
        "topology_role_unavailable",
        ROLE_UNAVAILABLE_MESSAGE,
        current_shape=placement.shape,
        current_process_class=placement.process_class,
        current_roles=list(placement.roles),
        required_roles=list(route.required_roles),
        missing_roles=missing_roles(placement, route),
    )


def workflow_v2_blocked(blocked: Blocked) -> Problem:
    """The answer of the bootstrap gate (topology §4.2)."""
    return Problem(
        "workflow_v2_blocked", BLOCKED_MESSAGE, blocked_by=list(blocked.blocked_by), remediation=BLOCKED_REMEDIATION
    )


def namespace_not_found(name: str) -> Problem:
    """The answer of the namespace gate (control-plane §3)."""
    return Problem(
        "namespace_not_found",
        f"Namespace [{name}] does not exist.",
        namespace=name,
        remediation="Create it with POST /api/namespaces or correct the X-Namespace header.",
    )
