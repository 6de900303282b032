"""One public route, declared once: who may call it, which gates it passes, what it takes."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Plane(StrEnum):
    """Which version header and envelope a route's responses carry."""

    CONTROL = "control"
    WORKER = "worker"
    DISCOVERY = "discovery"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A route of the catalogue.

    ``path`` is the full template (``/api/workflows/{workflow_id}``); parameters are one path segment each.
    ``name`` is unique in the catalogue (``workflow_task_poll``) and is the bounded label of logs and metrics.
    ``operation`` is the control-plane operation of the nested ``control_plane`` envelope, or None for routes that
    carry only the header (control-plane §6.3). ``principals`` are the roles of a principal that may call it
    (empty: public). ``required_roles`` are the topology roles a node needs (architecture §3), in declaration order.
    A node with one of ``also_hosted_by`` hosts it as well. ``media_type`` is that of its answers, ``body_media_type``
    that of its body.
    ``request`` is the msgspec struct of the JSON body, or None when the route takes none.
    """

    method: str
    path: str
    name: str
    plane: Plane
    operation: str | None = None
    principals: tuple[str, ...] = ()
    required_roles: tuple[str, ...] = ()
    version_gate: bool = True
    bootstrap_gate: bool = True
    namespace_gate: bool = True
    is_poll: bool = False
    request: type[msgspec.Struct] | None = None
    summary: str = ""
    media_type: str = "application/json"
    body_media_type: str = "application/json"
    also_hosted_by: tuple[str, ...] = ()
