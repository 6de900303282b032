"""Alerts and dashboards speak of metrics that exist, and every alert has a runbook."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from dw_runtime.telemetry.metrics import METRICS
from tests.deploy.chart import CHART, ROOT, refusal, render

FULL, ARGO, SPLIT = "split-full", "split-argo", "split-minimal"
RUNBOOKS = ROOT / "docs" / "operations" / "runbooks"
HOWTO = ROOT / "docs" / "how-to" / "scale-per-role.md"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
RULES = {"metrics": {"rules": {"enabled": True, "disabled": []}}}
OF_THE_PROCESS = {"process_resident_memory_bytes"}
BY_TARGET = {"dw_release", "role", "pod", "le"}
"""Labels that the scrape or the format adds."""


def existing() -> dict[str, set[str]]:
    """The labels of every series that processes serve."""
    series: dict[str, set[str]] = {name: set() for name in OF_THE_PROCESS}
    for spec in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if spec.kind == "histogram" else ("",)
        series |= {spec.name + suffix: set(spec.labels) for suffix in suffixes}
    return series


def check(expression: str) -> None:
    """Every metric of a query exists and has the labels it is asked for."""
    series = existing()
    bare = re.sub(r"\{[^}]*\}|by \([^)]*\)", " ", expression)
    used = set(re.findall(r"\b(?:dw|process)_[a-z_]+", bare))
    assert used, expression
    assert used <= series.keys(), expression
    known = BY_TARGET.union(*(series[name] for name in used))
    for selector in re.findall(r"\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", selector)) <= known, expression
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(re.split(r",\s*", grouped)) <= known, expression


def alerts(overrides: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The alerts of a rendering by name."""
    (group,) = render(FULL, RULES if overrides is None else overrides).one("PrometheusRule")["spec"]["groups"]
    return {it["alert"]: it for it in group["rules"]}


ALERTS = sorted(alerts())


def test_what_operators_must_hear_of_has_an_alert() -> None:
    asked = {
        *("BacklogAge", "LeaseExpiries", "StuckRuns", "WakeLoss", "SchedulerLag", "PoolSaturation", "MigrationPending"),
        *("AuthTrouble", "CertificateExpiry"),
    }
    assert {f"DurableWorkflow{name}" for name in asked} <= set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_metrics_that_exist_of_this_release(name: str) -> None:
    alert = alerts()[name]
    check(alert["expr"])
    selectors = re.findall(r"\{([^}]*)\}", alert["expr"])
    assert selectors and all('dw_release="dw-durable-workflow"' in it for it in selectors)
    assert alert["labels"]["severity"] in ("warning", "critical") and alert["annotations"]["summary"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_runbook_that_says_what_to_do(name: str) -> None:
    assert alerts()[name]["annotations"]["runbook_url"] == f"docs/operations/runbooks/{name}.md"
    text = (RUNBOOKS / f"{name}.md").read_text()
    assert text.startswith(f"# {name}\n")
    for heading in ("## What it means", "## Look", "## Act"):
        assert heading in text


def test_every_runbook_belongs_to_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("Durable*.md")} == set(ALERTS)


def test_alerts_can_be_labelled_left_out_and_tuned() -> None:
    found = alerts({})
    assert "DurableWorkflowWakeLoss" not in found
    assert found["DurableWorkflowBacklogAge"]["labels"] == {"severity": "warning", "team": "platform"}
    tuned = {"metrics": {"rules": {"thresholds": {"backlogAgeSeconds": 42, "leaseExpiryPercent": 5}}}}
    assert alerts(tuned)["DurableWorkflowBacklogAge"]["expr"].endswith("> 42")
    assert alerts(tuned)["DurableWorkflowLeaseExpiries"]["expr"].endswith("> 0.05")
    where = {"metrics": {"rules": {"runbookBaseUrl": "https://docs.example.com/run/"}}}
    assert alerts(where)["DurableWorkflowStuckRuns"]["annotations"]["runbook_url"] == (
        "https://docs.example.com/run/DurableWorkflowStuckRuns.md"
    )


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_metrics_that_exist_of_one_release(path: Any) -> None:
    board = json.loads(path.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) >= 6
    for expression in expressions:
        check(expression.replace("$__rate_interval", "5m"))
        assert all('dw_release="$release"' in it for it in re.findall(r"\{([^}]*)\}", expression))
    for variable in board["templating"]["list"][1:]:
        query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
        check(f"max by ({label}) ({query})")
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_dashboards_are_found_by_their_label_and_are_the_files() -> None:
    found = [it for it in render(FULL).of_kind("ConfigMap") if "dashboard" in it["metadata"]["name"]]
    assert [it.stem for it in DASHBOARDS] == ["fleet-overview", "one-namespace", "postgres-health", "task-queues"]
    assert len(found) == len(DASHBOARDS)
    for it, path in zip(sorted(found, key=lambda it: str(it["metadata"]["name"])), DASHBOARDS, strict=True):
        assert it["metadata"]["labels"]["grafana_dashboard"] == "1"
        (content,) = it["data"].values()
        assert json.loads(content) == json.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "kind", "endpoints"), [(FULL, "PodMonitor", "podMetricsEndpoints"), (ARGO, "ServiceMonitor", "endpoints")]
)
def test_a_monitor_scrapes_every_role_and_names_release_and_role(name: str, kind: str, endpoints: str) -> None:
    spec = render(name).one(kind)["spec"]
    (selected,) = spec["selector"]["matchExpressions"]
    assert set(selected["values"]) == {"api-ingress", "matching", "scheduler"}
    (endpoint,) = spec[endpoints]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert [it["targetLabel"] for it in endpoint["relabelings"]] == ["dw_release", "role"]
    assert endpoint["relabelings"][0]["replacement"] == "dw-durable-workflow"


def test_nothing_is_scraped_twice_or_unasked() -> None:
    both = {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}}
    assert "would count everything twice" in refusal(SPLIT, both)
    kinds = {it["kind"] for it in render(SPLIT).objects}
    assert not {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap"} & kinds


def test_the_documented_scaling_of_workers_looks_at_backlog_work_in_flight_and_age() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", HOWTO.read_text(), re.DOTALL)
    (scaler,) = [it for text in blocks for it in yaml.safe_load_all(text) if it.get("kind") == "ScaledObject"]
    queries = [it["metadata"]["query"] for it in scaler["spec"]["triggers"]]
    for query in queries:
        check(query)
    used = " ".join(queries)
    for metric in ("ready_tasks", "leased_tasks", "oldest_ready_seconds"):
        assert f"dw_task_queue_{metric}" in used
    assert "ready_tasks" in queries[0] and "leased_tasks" in queries[0]
