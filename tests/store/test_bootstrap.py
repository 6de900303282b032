"""Bootstrap on a real database."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from dw_runtime.settings import load
from dw_runtime.store.administration import StoreUnreachable
from dw_runtime.store.bootstrap import bootstrap
from dw_runtime.store.migrate import status


async def test_bootstrap_creates_schema_and_default_namespace_however_often_it_runs(empty_database: str) -> None:
    settings = load({"DATABASE_URL": empty_database, "DW_DEFAULT_NAMESPACE": "main", "DW_HISTORY_RETENTION_DAYS": "7"})
    await asyncio.gather(bootstrap(settings), bootstrap(settings), bootstrap(settings))
    await bootstrap(settings)
    assert (await status(empty_database)).status == "ok"
    with psycopg.connect(empty_database) as connection:
        found = connection.execute("SELECT name, retention_days, status FROM workflow_namespaces").fetchall()
    assert found == [("main", 7, "active")]


async def test_bootstrap_leaves_a_changed_namespace_as_it_is(empty_database: str) -> None:
    await bootstrap(load({"DATABASE_URL": empty_database}))
    await bootstrap(load({"DATABASE_URL": empty_database, "DW_HISTORY_RETENTION_DAYS": "9"}))
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT retention_days FROM workflow_namespaces").fetchall() == [(30,)]


async def test_bootstrap_gives_up_after_its_attempts() -> None:
    settings = load(
        {
            "DATABASE_URL": "postgresql://u:p@127.0.0.1:1/d",
            "DW_BOOTSTRAP_RETRIES": "2",
            "DW_BOOTSTRAP_DELAY_SECONDS": "0",
        }
    )
    with pytest.raises(StoreUnreachable):
        await bootstrap(settings)
