"""The document of ``GET /api/cluster/info``: static parts built once, dynamic parts added per request."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.discovery.auth_composition import auth_composition_contract
from dw_core.discovery.identity import capabilities, client_compatibility, supported_sdk_versions
from dw_core.discovery.planes import control_plane, worker_protocol
from dw_core.discovery.platform import platform_manifests
from dw_core.limits import DEFAULT_LIMITS, Limits, request_limits, structural_limits


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which process answers: ``server_id`` is unique per replica, ``version`` is for people only."""

    server_id: str
    version: str
    default_namespace: str


class DynamicParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has measured, as JSON objects (topology §3.3.1).

    ``namespace`` is ``{name, …}`` of the namespace that was asked for, None when it does not exist: an unknown
    namespace is neither an error nor revealed. ``extras`` are optional top-level members (``operator_metrics``,
    ``package_provenance``).
    """

    coordination_health: dict[str, Any]
    worker_fleet: dict[str, Any]
    task_repair: dict[str, Any]
    namespace: dict[str, Any] | None = None
    extras: dict[str, Any] = {}


def static_parts(
    identity: NodeIdentity,
    *,
    topology: dict[str, Any],
    server_capabilities: dict[str, Any],
    limits: Limits = DEFAULT_LIMITS,
    compression: bool = True,
) -> dict[str, Any]:
    """The parts that do not change while a process lives; build them once.

    ``topology`` is the manifest of this node, ``server_capabilities`` the object that worker responses carry too.
    """
    return {
        "server_id": identity.server_id,
        "version": identity.version,
        "default_namespace": identity.default_namespace,
        "supported_sdk_versions": supported_sdk_versions(),
        "client_compatibility": client_compatibility(),
        "capabilities": capabilities(compression=compression),
        "limits": request_limits(limits),
        "structural_limits": structural_limits(limits),
        "topology": topology,
        "control_plane": control_plane(),
        "worker_protocol": worker_protocol(server_capabilities),
        "auth_composition_contract": auth_composition_contract(),
        **platform_manifests(),
    }


def cluster_info(static: dict[str, Any], dynamic: DynamicParts) -> dict[str, Any]:
    """The whole document: ``static`` from :func:`static_parts`, ``dynamic`` from the latest snapshot."""
    document = {
        **static,
        "coordination_health": dynamic.coordination_health,
        "worker_fleet": dynamic.worker_fleet,
        "task_repair": dynamic.task_repair,
        **dynamic.extras,
    }
    if dynamic.namespace is not None:
        document["namespace"] = dynamic.namespace
    return document
