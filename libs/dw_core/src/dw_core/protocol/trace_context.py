"""Trace context that travels with work: from who started a run to the workers that execute it (worker-plane §3.2).

It never decides anything. One that cannot be read is as good as none, because telemetry must not fail a start.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

SCHEMA: Final = "durable-workflow.trace-context"
DISPATCH_SCHEMA: Final = "durable-workflow.queue-trace"
CAPABILITY: Final = {
    "supported": True,
    "schema": SCHEMA,
    "version": 1,
    "dispatch_schema": DISPATCH_SCHEMA,
    "links_schema": "durable-workflow.trace-links",
    "max_context_bytes": 4096,
    "max_links": 32,
    "max_links_bytes": 4096,
}
"""Clients compare the whole object; with any other value they send and read nothing."""

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE_BYTES_MAX: Final = 512
_BAGGAGE_BYTES_MAX: Final = 2048


class TraceContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """The W3C headers of a trace: ``traceparent`` names it, ``tracestate`` and ``baggage`` are passed on unread."""

    traceparent: str
    tracestate: str | None = None
    baggage: str | None = None


def read_trace_context(document: Any) -> TraceContext | None:
    """The context in a request's ``observability_context``, None when there is none that can be used."""
    if not isinstance(document, dict) or document.keys() != {"schema", "version", "carrier"}:
        return None
    if document["schema"] != SCHEMA or type(document["version"]) is not int or document["version"] != 1:
        return None
    carrier = document["carrier"]
    if not isinstance(carrier, dict) or not carrier.keys() <= {"traceparent", "tracestate", "baggage"}:
        return None
    return trace_context(carrier.get("traceparent"), carrier.get("tracestate"), carrier.get("baggage"))


def trace_context(traceparent: Any, tracestate: Any = None, baggage: Any = None) -> TraceContext | None:
    """The context that three header values give; a state or baggage that is too long or not plain ASCII is left out."""
    if not isinstance(traceparent, str) or _TRACEPARENT.fullmatch(traceparent) is None:
        return None
    return TraceContext(
        traceparent, _plain(tracestate, _TRACESTATE_BYTES_MAX) or None, _plain(baggage, _BAGGAGE_BYTES_MAX) or None
    )


def _plain(value: Any, bytes_max: int) -> str | None:
    """A header value that is safe to pass on."""
    is_plain = isinstance(value, str) and len(value) <= bytes_max and value.isascii() and value.isprintable()
    return value if is_plain else None


def task_members(origin: TraceContext | None, task_id: str, producer: str | None) -> dict[str, Any]:
    """What a task object says: the context its run was started in, the span (a ``traceparent``) that gave it out."""
    members: dict[str, Any] = {}
    if origin is not None:
        members["observability_context"] = _document(origin)
    if producer is not None:
        members["dispatch_observability_context"] = {
            "schema": DISPATCH_SCHEMA,
            "version": 1,
            "task_id": task_id,
            "context": _document(TraceContext(producer)),
        }
    return members


def _document(context: TraceContext) -> dict[str, Any]:
    return {"schema": SCHEMA, "version": 1, "carrier": context}
