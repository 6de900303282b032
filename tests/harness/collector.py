"""A collector of spans: what an OTLP/HTTP exporter sends, kept by trace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Spans by service and name; ``url`` is what ``OTEL_EXPORTER_OTLP_ENDPOINT`` names."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[tuple[str, Span]] = []

    async def take(self, request: web.Request) -> web.Response:
        """``POST /v1/traces``."""
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            names = {a.key: a.value.string_value for a in resource.resource.attributes}
            self.spans += [(names["service.name"], span) for scope in resource.scope_spans for span in scope.spans]
        return web.Response()

    def find(self, trace_id: str, name: str) -> list[tuple[str, Span]]:
        """The spans of a trace (32 hexadecimal digits) by name."""
        return [(service, span) for service, span in self.named(name) if span.trace_id.hex() == trace_id]

    def named(self, name: str) -> list[tuple[str, Span]]:
        """The spans with this name."""
        return [(service, span) for service, span in self.spans if span.name == name]


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector on a port of its own."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    collector.url = f"http://{host}:{port}"
    try:
        yield collector
    finally:
        await runner.cleanup()
