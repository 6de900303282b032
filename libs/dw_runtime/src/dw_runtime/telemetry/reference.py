"""The metrics registry as a page of Markdown."""

from __future__ import annotations

from dw_runtime.telemetry.metrics import METRICS
from dw_runtime.telemetry.spec import MetricSpec

_INTRODUCTION = """\
# Metrics

Generated from the metrics registry; do not edit.

Every process serves its own numbers as Prometheus text at `/metrics`, without authentication: keep the port inside
the cluster. With `--processes` above 1 the processes of a pod share the port and answer scrapes in turn; each series
then carries the label `process` (0 to N-1), so sum over it, and expect each process to be seen on a part of the
scrapes only. The usual `process_*` metrics of the operating-system process are served beside these.

"""


def render() -> str:
    """The whole page as Markdown."""
    return _INTRODUCTION + "\n".join(_section(spec) for spec in METRICS)


def _section(spec: MetricSpec) -> str:
    lines = [f"## `{spec.name}`", "", f"{spec.kind.capitalize()}. {spec.help}", ""]
    if spec.labels:
        lines += ["| label | values |", "|---|---|"]
        lines += [f"| `{label}` | {values} |" for label, values in spec.labels.items()]
        lines.append("")
    if spec.buckets:
        lines += ["Buckets: " + ", ".join(f"{bound:g}" for bound in spec.buckets) + ".", ""]
    return "\n".join(lines)
