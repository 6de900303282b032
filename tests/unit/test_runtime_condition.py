"""A condition is logged when it changes."""

from __future__ import annotations

import io
import json

from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.logs import configure_logs


def test_only_the_changes_are_logged() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)
    condition = Condition("wake.publish", bus="redis")
    condition.works()
    for _ in range(3):
        condition.failed(TimeoutError(), signals=2)
    condition.works()
    condition.works()
    condition.failed(OSError())
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["level"], line.get("error"), line.get("failures")) for line in lines] == [
        ("wake.publish.failed", "warning", "TimeoutError", None),
        ("wake.publish.restored", "info", None, 3),
        ("wake.publish.failed", "warning", "OSError", None),
    ]
    assert lines[0]["signals"] == 2
    assert {line["bus"] for line in lines} == {"redis"}
