"""How a control-plane route is declared: the defaults of its plane, spelled once."""

from __future__ import annotations

import msgspec

from dw_core.routes.route import Plane, Route

OPERATORS = ("operator", "admin")
ADMINS = ("admin",)
ANYONE_AUTHENTICATED = ("worker", "operator", "admin")


def control(
    method: str,
    path: str,
    name: str,
    summary: str,
    *,
    operation: str | None = None,
    principals: tuple[str, ...] = OPERATORS,
    bootstrap: bool = False,
    namespace: bool = True,
    version: bool = True,
    is_poll: bool = False,
    request: type[msgspec.Struct] | None = None,
    media_type: str = "application/json",
    body_media_type: str = "application/json",
    also_hosted_by: tuple[str, ...] = (),
) -> Route:
    """A route that needs the roles ``api_ingress`` and ``control_plane`` (topology §1.5).

    ``bootstrap``, ``namespace`` and ``version`` say which gates apply; the other arguments are those of ``Route``.
    """
    return Route(
        method=method,
        path=path,
        name=name,
        plane=Plane.CONTROL,
        operation=operation,
        principals=principals,
        required_roles=("api_ingress", "control_plane"),
        version_gate=version,
        bootstrap_gate=bootstrap,
        namespace_gate=namespace,
        is_poll=is_poll,
        request=request,
        summary=summary,
        media_type=media_type,
        body_media_type=body_media_type,
        also_hosted_by=also_hosted_by,
    )
