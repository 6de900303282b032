"""The application of a process: which paths go where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dw_runtime.http.application import Application
from dw_runtime.http.call import Call, Reply
from dw_runtime.telemetry.exposition import Exposition
from dw_runtime.telemetry.metrics import Metrics
from tests.contract.shell_client import build_shell, call


async def _alive(request: Call) -> Reply:
    return Reply({"status": "alive"})


async def _page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("page")


def _application() -> Application:
    return Application(
        build_shell({"livez": _alive}), Exposition(Metrics().registry), extra_routes=[Route("/ui", _page)]
    )


async def test_liveness_needs_no_credential_and_answers_head_without_a_body() -> None:
    answer = await call(_application(), "GET", "/livez")
    assert (answer.status, answer.json) == (200, {"status": "alive"})
    answer = await call(_application(), "HEAD", "/livez")
    assert (answer.status, answer.raw, answer.headers["content-length"]) == (200, b"", "18")


async def test_the_lifespan_of_the_process_runs_around_its_requests() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        steps.append("started")
        yield
        steps.append("stopped")

    application = Application(build_shell(), Exposition(Metrics().registry), lifespan=lifespan)
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        steps.append(message["type"])

    await application({"type": "lifespan", "state": {}}, receive, send)
    assert steps == ["started", "lifespan.startup.complete", "stopped", "lifespan.shutdown.complete"]


async def test_metrics_are_prometheus_text() -> None:
    answer = await call(_application(), "GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"dw_pump_batch_inputs_bucket" in answer.raw


async def test_a_service_adds_routes_and_everything_else_is_not_found() -> None:
    assert (await call(_application(), "GET", "/ui")).raw == b"page"
    answer = await call(_application(), "GET", "/elsewhere")
    assert (answer.status, answer.json["reason"]) == (404, "not_found")
    assert answer.headers["x-durable-workflow-control-plane-version"] == "2"
