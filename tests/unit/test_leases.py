"""Lease lengths, their end, and who still owns a task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dw_core.leases.durations import (
    LeaseTooShort,
    activity_lease_seconds,
    effective_lease_seconds,
    expires_at,
    is_expired,
    redelivery_backoff_seconds,
)
from dw_core.leases.guard import (
    AttemptLease,
    ClosedRun,
    Granted,
    Refused,
    TaskLease,
    guard_activity_task,
    guard_workflow_task,
)
from dw_core.protocol.reasons import REASONS

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)
LEASED = TaskLease(status="leased", attempt=2, lease_owner="py-1", lease_expires_at=NOW + timedelta(seconds=300))
TERMINATED = ClosedRun(status="terminated", closed_reason="terminated", closed_at=NOW)


def guarded(task: TaskLease | None = LEASED, run: ClosedRun | None = None, **changes: Any) -> Granted | Refused:
    caller: dict[str, Any] = {"lease_owner": "py-1", "attempt": 2, "now": NOW, **changes}
    return guard_workflow_task(task, run, **caller)


def refused(outcome: Granted | Refused) -> Refused:
    assert isinstance(outcome, Refused)
    assert outcome.reason in REASONS
    return outcome


def test_a_lease_lasts_300_seconds_unless_configured_longer() -> None:
    assert effective_lease_seconds(None, False) == 300
    assert effective_lease_seconds(600, False) == 600
    assert expires_at(NOW, 300) == NOW + timedelta(minutes=5)


def test_a_shorter_lease_needs_the_unsafe_switch() -> None:
    with pytest.raises(LeaseTooShort, match="DW_ALLOW_UNSAFE_LIMITS"):
        effective_lease_seconds(299, False)
    assert effective_lease_seconds(2, True) == 2
    with pytest.raises(ValueError, match="not a lease"):
        effective_lease_seconds(0, True)


def test_an_activity_lease_covers_its_start_to_close_timeout() -> None:
    assert activity_lease_seconds(300, None) == 300
    assert activity_lease_seconds(300, 30) == 300
    assert activity_lease_seconds(300, 900) == 900


def test_a_lease_ends_at_its_expiry() -> None:
    assert not is_expired(NOW + timedelta(microseconds=1), NOW)
    assert is_expired(NOW, NOW)
    assert not is_expired(None, NOW)


def test_redelivery_backs_off_to_a_minute() -> None:
    assert [redelivery_backoff_seconds(count) for count in range(1, 8)] == [3, 6, 12, 24, 48, 60, 60]
    assert redelivery_backoff_seconds(1_000_000) == 60


def test_the_owner_of_the_current_attempt_is_let_through() -> None:
    assert guarded() == Granted()


def test_an_unknown_task_comes_first() -> None:
    assert refused(guarded(None, TERMINATED)).reason == "task_not_found"


def test_the_original_owner_learns_that_the_run_closed_even_after_the_task_was_cancelled() -> None:
    for task in (LEASED, TaskLease(status="cancelled", attempt=2, lease_owner="py-1")):
        outcome = refused(guarded(task, TERMINATED))
        assert outcome.reason == "run_closed"
        assert outcome.fields["stop_reason"] == "run_terminated"
        assert outcome.fields["cancel_requested"] is True
        assert outcome.fields["can_continue"] is False
        assert outcome.fields["run_closed_at"] == "2026-11-30T18:00:00.000000Z"
        assert outcome.fields["task_status"] == task.status


def test_a_foreign_caller_of_a_closed_run_learns_its_own_mismatch() -> None:
    cancelled = TaskLease(status="cancelled", attempt=2, lease_owner="py-1")
    assert refused(guarded(cancelled, TERMINATED, lease_owner="py-2")).reason == "lease_owner_mismatch"
    assert refused(guarded(cancelled, TERMINATED, attempt=1)).reason == "workflow_task_attempt_mismatch"


@pytest.mark.parametrize(
    ("status", "stop", "asked"),
    [
        ("cancelled", "run_cancelled", True),
        ("terminated", "run_terminated", True),
        ("completed", "run_completed", False),
        ("failed", "run_failed", False),
        ("timed_out", "run_closed", False),
    ],
)
def test_the_stop_reason_says_how_the_run_ended(status: str, stop: str, asked: bool) -> None:
    run = ClosedRun(status=status, closed_reason=status, closed_at=NOW)
    fields = refused(guarded(LEASED, run)).fields
    assert (fields["stop_reason"], fields["cancel_requested"]) == (stop, asked)


@pytest.mark.parametrize("status", ["ready", "completed", "cancelled"])
def test_a_task_that_is_not_leased_says_what_it_is(status: str) -> None:
    outcome = refused(guarded(TaskLease(status=status, attempt=2, lease_owner="py-1")))
    assert (outcome.reason, outcome.fields) == ("task_not_leased", {"task_status": status})


def test_expiry_is_told_before_ownership() -> None:
    outcome = refused(guarded(now=NOW + timedelta(seconds=300), lease_owner="py-2"))
    assert outcome.reason == "lease_expired"
    assert outcome.fields == {
        "task_status": "leased",
        "lease_owner": "py-1",
        "lease_expires_at": "2026-11-30T18:05:00.000000Z",
    }


def test_owner_is_told_before_attempt() -> None:
    assert refused(guarded(lease_owner="py-2", attempt=1)).fields == {"lease_owner": "py-1"}
    assert refused(guarded(attempt=1)).fields == {"current_attempt": 2}


def test_an_activity_report_is_checked_in_order() -> None:
    mine = AttemptLease(task_id="t1", lease_owner="py-1")

    def reason(exists: bool, attempt: AttemptLease | None, owner: str) -> str:
        return refused(guard_activity_task("t1", task_exists=exists, attempt=attempt, lease_owner=owner)).reason

    assert guard_activity_task("t1", task_exists=True, attempt=mine, lease_owner="py-1") == Granted()
    assert reason(False, None, "py-2") == "task_not_found"
    assert reason(True, None, "py-2") == "attempt_not_found"
    assert reason(True, AttemptLease(task_id="t2", lease_owner="py-1"), "py-2") == "task_mismatch"
    assert reason(True, mine, "py-2") == "lease_owner_mismatch"
