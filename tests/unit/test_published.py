"""The comparison of answers with the published descriptions; contract tests make it of every answer that they see."""

from __future__ import annotations

import pytest

from tests.harness.published import FOLDER, published


def test_answers_are_held_against_what_is_published() -> None:
    specs = published()
    if specs is None:
        pytest.skip(f"the published descriptions are not at {FOLDER.name} beside this checkout")
    path = "/api/worker-sessions"
    fitting = {"namespace": "default", "sessions": [], "metrics": dict.fromkeys(STATES, 0)}
    assert specs.complaint("GET", path, 200, fitting) is None
    assert specs.complaint("GET", path, 200, {"namespace": "default", "sessions": []}) == (
        ": 'metrics' is a required property"
    )
    assert specs.complaint("GET", "/api/no-such-route", 200, None) is None


STATES = ("total", "active", "closed", "expired", "failed", "orphaned")
