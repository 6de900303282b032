"""The handlers of the discovery routes; every process serves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dw_core.discovery.envelope import cluster_info
from dw_core.openapi.document import openapi
from dw_core.openapi.page import page
from dw_core.routes.catalogue import ROUTES
from dw_runtime.discovery.cluster import ClusterParts
from dw_runtime.discovery.readiness import Readiness
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.version import server_version

_PAGE_HEADERS = (("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'"),)


def discovery_handlers(
    readiness: Readiness, parts: ClusterParts, static: dict[str, Any], dead_tasks: Callable[[], Sequence[str]]
) -> Handlers:
    """Handlers for ``livez``, ``health``, ``ready``, ``cluster_info`` and the documents of the API.

    ``static`` are the parts of cluster info that do not change while the process lives, from
    ``dw_core.discovery.envelope.static_parts``. ``dead_tasks`` names the main tasks of the process that
    have ended although it still runs; any name makes ``/livez`` fail, so that the process is restarted; it never
    looks at the database (topology §3.1).
    """

    async def livez(call: Call) -> Reply:
        dead = list(dead_tasks())
        if dead:
            return Reply({"status": "failing", "timestamp": readiness.now(), "dead_tasks": dead}, 503)
        return Reply({"status": "alive", "timestamp": readiness.now()})

    async def health(call: Call) -> Reply:
        is_serving = await readiness.database_ok()
        return Reply(
            {
                "status": "serving" if is_serving else "degraded",
                "timestamp": readiness.now(),
                "checks": {"database": "ok" if is_serving else "unavailable"},
                "topology": readiness.topology,
            },
            200 if is_serving else 503,
        )

    async def ready(call: Call) -> Reply:
        is_ready, checks = await readiness.report()
        return Reply(
            {
                "status": "ready" if is_ready else "not_ready",
                "timestamp": readiness.now(),
                "checks": checks,
                "topology": readiness.topology,
            },
            200 if is_ready else 503,
        )

    async def info(call: Call) -> Reply:
        return Reply(cluster_info(static, await parts.get(call.namespace)))

    described = openapi(ROUTES, version=server_version())
    encoded, shown = msgspec.json.encode(described), page(described).encode()

    async def document(call: Call) -> Reply:
        return Reply(encoded)

    async def docs(call: Call) -> Reply:
        return Reply(shown, headers=_PAGE_HEADERS)

    return {
        "openapi": document,
        "api_docs": docs,
        "livez": livez,
        "health": health,
        "ready": ready,
        "cluster_info": info,
    }
