"""Trace contexts: what is believed, and what a task says of them."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from durable_workflow.telemetry_carrier import CAPABILITY as SDK_CAPABILITY
from durable_workflow.telemetry_carrier import dispatch, normalize

from dw_core.protocol.capabilities import server_capabilities
from dw_core.protocol.trace_context import SCHEMA, TraceContext, read_trace_context, task_members, trace_context
from dw_runtime.settings import SettingsError
from dw_runtime.telemetry.tracing import build_tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def document(**carrier: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "version": 1, "carrier": carrier}


def test_a_context_is_read_and_written_as_the_sdk_knows_it() -> None:
    context = read_trace_context(document(traceparent=PARENT, tracestate="a=1", baggage="user=7"))
    assert context == TraceContext(PARENT, "a=1", "user=7")
    members = msgspec.json.decode(msgspec.json.encode(task_members(context, "run.t1", PARENT)))
    assert normalize(members["observability_context"], ["user"]) == (members["observability_context"], None)
    given, complaint = dispatch(members["dispatch_observability_context"], "run.t1")
    assert (given, complaint) == (document(traceparent=PARENT), None)
    assert server_capabilities()["observability_context"] == SDK_CAPABILITY


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {},
        document(),
        document(traceparent=7),
        document(traceparent=PARENT + "0"),
        document(traceparent=PARENT.upper()),
        document(traceparent=PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)),
        document(traceparent=PARENT.replace("b7ad6b7169203331", "0" * 16)),
        document(traceparent=PARENT, other="x"),
        document(traceparent=PARENT) | {"version": True},
        document(traceparent=PARENT) | {"version": 2},
        document(traceparent=PARENT) | {"schema": "other"},
        document(traceparent=PARENT) | {"more": 1},
    ],
)
def test_what_is_no_context_is_as_good_as_none(given: Any) -> None:
    assert read_trace_context(given) is None


@pytest.mark.parametrize("value", ["x" * 3000, "a\nb", "ü", "\x00", 7, "", None])
def test_state_and_baggage_that_cannot_be_passed_on_are_left_out(value: Any) -> None:
    assert trace_context(PARENT, value, value) == TraceContext(PARENT)


def test_tracing_without_the_extra_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SettingsError, match=r"dw-runtime\[otel\]"):
        build_tracing("standalone", "server-1")
