"""What every log line of a request carries: its id, its namespace and, once known, its run and trace."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

_traceparent: ContextVar[str | None] = ContextVar("dw_traceparent", default=None)
_request: ContextVar[tuple[str, str, str | None] | None] = ContextVar("dw_request", default=None)


def bind_request(request_id: str, namespace: str, run_id: str | None = None) -> None:
    """Name the request that the current task serves and its run, if it names one; one variable, one price."""
    _request.set((request_id, namespace, run_id))


def bind_trace(traceparent: str) -> None:
    """Name the span that the current task works for."""
    _traceparent.set(traceparent)


def current_traceparent() -> str | None:
    """The span that the current task works for, None when nothing is traced."""
    return _traceparent.get()


def add_context(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: add the bound names unless the event brings its own."""
    request = _request.get()
    if request is not None:
        event.setdefault("request_id", request[0])
        event.setdefault("namespace", request[1])
        if request[2] is not None:
            event.setdefault("run_id", request[2])
    traceparent = _traceparent.get()
    if traceparent is not None:
        _, trace_id, span_id, _ = traceparent.split("-")
        event.setdefault("trace_id", trace_id)
        event.setdefault("span_id", span_id)
    return event
