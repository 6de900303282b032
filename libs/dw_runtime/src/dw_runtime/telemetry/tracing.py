"""Spans of this process, sent by OTLP/HTTP: a request, what it has decided, and the batch that committed it.

OpenTelemetry is an optional extra (``dw-runtime[otel]``); only :func:`build_tracing` imports it. Where to send spans,
how many and under which name is said by the standard ``OTEL_*`` variables, which the SDK reads itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from dw_core.protocol.trace_context import TraceContext
from dw_runtime.settings import SettingsError
from dw_runtime.telemetry.context import bind_trace
from dw_runtime.version import server_version

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext

LINKS_MAX: Final = 32
"""Inputs that a batch's span names beside the first; the others have spans of their own."""


class Tracing:
    """Makes the spans. One of a process; a process without tracing has none."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._provider = provider
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("durable-workflow/server", server_version())

    @contextmanager
    def request(self, method: str, headers: Mapping[bytes, bytes]) -> Iterator[Span]:
        """The span of an HTTP request, a child of the one its ``traceparent`` names."""
        carrier = {
            name: headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in headers
        }
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            attributes={"http.request.method": method},
        ) as span:
            bind_trace(_traceparent(span.get_span_context()))
            yield span

    def served(self, span: Span, method: str, path: str, status: int) -> None:
        """Name a request's span by its route; a status of 500 and above is an error."""
        span.update_name(f"{method} {path}")
        span.set_attribute("http.route", path)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)

    def submitted(self, name: str, origin: TraceContext | None) -> Span:
        """The span of one input, within the request that has brought it; the caller ends it with the reply.

        It is linked to the ``origin`` of a start, which clients name in the body and not in headers.
        """
        links = []
        if origin is not None:
            named = self._propagator.extract({"traceparent": origin.traceparent})
            links = [self._api.Link(self._api.get_current_span(named).get_span_context())]
        return self._tracer.start_span(f"pump {name}", links=links)

    @contextmanager
    def batch(self, spans: Sequence[Span]) -> Iterator[None]:
        """The span of a transaction: a child of its first input, linked to the others; the current one inside."""
        contexts = [span.get_span_context() for span in spans]
        parent = self._api.set_span_in_context(spans[0]) if spans else None
        links = [self._api.Link(context) for context in contexts[1 : LINKS_MAX + 1]]
        with self._tracer.start_as_current_span(
            "pump batch", context=parent, links=links, attributes={"dw.inputs": len(spans)}
        ):
            yield

    @contextmanager
    def commit(self) -> Iterator[None]:
        """The span in which a batch is written and committed."""
        with self._tracer.start_as_current_span("commit", kind=self._api.SpanKind.CLIENT):
            yield

    def close(self) -> None:
        """Send what has not been sent; blocks while it does."""
        self._provider.shutdown()


def build_tracing(entry_point: str, server_id: str) -> Tracing:
    """Tracing that exports by OTLP/HTTP; ``service.name`` is ``dw-<entry point>`` unless ``OTEL_SERVICE_NAME`` is set.

    Raises ``SettingsError`` when the extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError("DW_TRACING_ENABLED needs OpenTelemetry; install dw-runtime[otel].") from None
    attributes = {"service.instance.id": server_id, "service.version": server_version()}
    if "OTEL_SERVICE_NAME" not in os.environ:
        attributes["service.name"] = f"dw-{entry_point.replace('_', '-')}"
    provider = TracerProvider(resource=Resource.create(attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


def _traceparent(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
