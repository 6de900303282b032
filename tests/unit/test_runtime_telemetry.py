"""Logs are one JSON object per line; metrics are registered as they are documented."""

from __future__ import annotations

import contextvars
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from dw_runtime.telemetry.context import bind_request, bind_trace
from dw_runtime.telemetry.exposition import Exposition
from dw_runtime.telemetry.logs import configure_logs
from dw_runtime.telemetry.metrics import METRICS, Metrics

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logs("info", stream, process_class="matching_node")
    yield stream
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def _parsed(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_and_the_librarys_share_one_form(lines: io.StringIO) -> None:
    bind_request("req-1", "billing", "run-1")
    structlog.get_logger("dw.test").warning("lease.expired", task_id="t-1", odd=object())
    logging.getLogger("library").error("lost %s", "connection")
    structlog.get_logger("dw.test").debug("not shown")
    ours, theirs = _parsed(lines)
    expected = {"event": "lease.expired", "level": "warning", "task_id": "t-1", "process_class": "matching_node"}
    assert {name: ours[name] for name in expected} == expected
    assert (ours["request_id"], ours["namespace"], ours["run_id"]) == ("req-1", "billing", "run-1")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("lost connection", "error", "library")
    bind_request("req-2", "billing")
    structlog.get_logger("dw.test").warning("lease.expired")
    assert "run_id" not in _parsed(lines)[-1]


def test_lines_of_traced_work_name_their_span(lines: io.StringIO) -> None:
    def traced() -> None:
        bind_trace(f"00-{'a' * 32}-{'b' * 16}-01")
        structlog.get_logger("dw.test").warning("lease.expired")

    contextvars.copy_context().run(traced)
    structlog.get_logger("dw.test").warning("lease.expired")
    inside, outside = _parsed(lines)
    assert (inside["trace_id"], inside["span_id"]) == ("a" * 32, "b" * 16)
    assert "trace_id" not in outside


def test_an_exception_stays_on_its_line(lines: io.StringIO) -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        structlog.get_logger("dw.test").exception("request.failed")
    (line,) = _parsed(lines)
    assert "RuntimeError: broken" in line["exception"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="loud"):
        configure_logs("loud")


def test_every_documented_metric_is_registered_with_its_labels() -> None:
    registered = {family.name: family for family in Metrics().registry.collect()}
    for spec in METRICS:
        family = registered[spec.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (spec.kind, spec.help)


def test_observations_show_in_the_exposition() -> None:
    metrics = Metrics()
    metrics.request_observer("workflow_start")(201, 0.004)
    metrics.claims["workflow_task"].inc(3)
    families = {
        family.name: family for family in text_string_to_metric_families(Exposition(metrics.registry).text().decode())
    }
    count = [s for s in families["dw_http_request_seconds"].samples if s.name.endswith("_count")]
    assert [(s.labels, s.value) for s in count] == [({"route": "workflow_start", "status": "2xx"}, 1.0)]
    claims = {s.labels["kind"]: s.value for s in families["dw_task_claims"].samples if s.name.endswith("_total")}
    assert claims["workflow_task"] == 3.0


def test_processes_that_share_a_port_are_told_apart() -> None:
    text = Exposition(Metrics().registry, process_index=2).text().decode()
    assert 'dw_store_commits_total{process="2"} 0.0' in text
