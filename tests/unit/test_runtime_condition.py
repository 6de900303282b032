"""A condition is logged when it changes."""

from __future__ import annotations

from structlog.testing import capture_logs

from dw_runtime.telemetry.condition import Condition


def test_only_the_changes_are_logged() -> None:
    with capture_logs() as lines:
        condition = Condition("wake.publish", bus="redis")
        condition.works()
        for _ in range(3):
            condition.failed(TimeoutError(), signals=2)
        condition.works()
        condition.works()
        condition.failed(OSError())
    assert lines == [
        {"event": "wake.publish.failed", "log_level": "warning", "error": "TimeoutError", "bus": "redis", "signals": 2},
        {"event": "wake.publish.restored", "log_level": "info", "failures": 3, "bus": "redis"},
        {"event": "wake.publish.failed", "log_level": "warning", "error": "OSError", "bus": "redis"},
    ]
