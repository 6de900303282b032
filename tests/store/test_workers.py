"""Signs of life: only a worker that is present is refreshed when its registration is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from dw_runtime.store.statements import statements

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("is_present", [True, False])
def test_a_worker_that_no_longer_polls_grows_stale(database_url: str, unique_namespace: str, is_present: bool) -> None:
    with psycopg.connect(database_url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(
            "INSERT INTO worker_registrations SELECT $1, 'w', 'q', NULL, 'python', NULL, '{}', '{}', '{}', '{}', '{}',"
            " '{}', 1, 1, 1, NULL, NULL, NULL, $2, $2",
            (unique_namespace, LONG_AGO),
        )
        named = json.dumps([{"namespace": unique_namespace, "worker_id": "w", "is_present": is_present}])
        found = connection.execute(statements()["touch_workers"].encode(), (named, 5)).fetchall()
        assert len(found) == 1
        row = connection.execute(
            "SELECT last_heartbeat_at FROM worker_registrations WHERE namespace = $1", (unique_namespace,)
        ).fetchone()
    assert row is not None
    assert (row[0] > LONG_AGO + timedelta(days=1)) is is_present
