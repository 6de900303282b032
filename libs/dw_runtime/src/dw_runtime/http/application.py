"""The application of one process: the shell on the hot path, Starlette for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Lifespan, Receive, Scope, Send

from dw_runtime.http.shell import Shell
from dw_runtime.telemetry.exposition import METRICS_CONTENT_TYPE, Exposition


class Application:
    """The ASGI application a process serves.

    Requests under ``/api/`` and ``/livez`` go straight to the shell. Everything else goes through Starlette:
    ``/metrics``, the ``extra_routes`` of a service (a web UI, documents) and the ``lifespan`` of the process. A path
    that nobody routes gets the shell's standard 404.
    """

    def __init__(
        self,
        shell: Shell,
        exposition: Exposition,
        *,
        extra_routes: Sequence[BaseRoute] = (),
        lifespan: Lifespan[Starlette] | None = None,
    ) -> None:
        async def metrics(request: Request) -> Response:
            return Response(exposition.text(), headers={"content-type": METRICS_CONTENT_TYPE})

        self._shell = shell
        self._rest = Starlette(routes=[Route("/metrics", metrics), *extra_routes], lifespan=lifespan)
        self._rest.router.default = self._unrouted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http" and (scope["path"].startswith("/api/") or scope["path"] == "/livez"):
            await self._shell(scope, receive, send)
        else:
            await self._rest(scope, receive, send)

    async def _unrouted(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._shell(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
