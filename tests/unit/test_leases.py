"""Lease lengths, their end, and who still owns a task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dw_core.leases.durations import (
    LeaseTooShort,
    activity_lease_seconds,
    effective_lease_seconds,
    expires_at,
    is_expired,
    needs_renewal,
    redelivery_backoff_seconds,
)

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)


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
    assert activity_lease_seconds(300, 90_000) == 86_400


def test_a_lease_is_renewed_when_a_tenth_of_it_has_passed() -> None:
    assert not needs_renewal(NOW + timedelta(seconds=300), 300, NOW)
    assert not needs_renewal(NOW + timedelta(seconds=270), 300, NOW)
    assert needs_renewal(NOW + timedelta(seconds=269), 300, NOW)


def test_a_lease_ends_at_its_expiry() -> None:
    assert not is_expired(NOW + timedelta(microseconds=1), NOW)
    assert is_expired(NOW, NOW)
    assert not is_expired(None, NOW)


def test_redelivery_backs_off_to_a_minute() -> None:
    assert [redelivery_backoff_seconds(count) for count in range(1, 8)] == [3, 6, 12, 24, 48, 60, 60]
    assert redelivery_backoff_seconds(1_000_000) == 60
