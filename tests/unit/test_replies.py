"""From the pump's answer to a handler's."""

from __future__ import annotations

import pytest

from dw_core.engine.transition import Rejection
from dw_core.protocol.problems import Problem
from dw_runtime.pump.replies import settle


def test_a_reply_passes_unchanged() -> None:
    reply = {"run_id": "r"}
    assert settle(reply) is reply


def test_a_rejection_is_raised_with_its_members() -> None:
    with pytest.raises(Problem) as raised:
        settle(Rejection("lease_expired", "Too late.", {"task_id": "t"}))
    assert (raised.value.reason, raised.value.status, raised.value.message) == ("lease_expired", 409, "Too late.")
    assert raised.value.fields == {"task_id": "t"}


def test_a_rejected_validation_names_its_errors_twice_and_keeps_its_other_members() -> None:
    with pytest.raises(Problem) as raised:
        settle(Rejection("validation_failed", "No.", {"errors": {"a": ["b"]}, "task_id": "t"}))
    assert raised.value.fields == {"errors": {"a": ["b"]}, "validation_errors": {"a": ["b"]}, "task_id": "t"}
