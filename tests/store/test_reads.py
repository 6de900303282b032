"""Reads of namespaces and listings that the contract tests do not reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from dw_core.visibility.conditions import Conditions
from dw_runtime.store.database import Database, Row
from dw_runtime.store.reads.namespaces import KNOWN_SECONDS, UNKNOWN_SECONDS, NamespaceCache
from dw_runtime.store.reads.rows import Position
from dw_runtime.store.reads.visibility import Listing
from dw_runtime.telemetry.metrics import Metrics


class Counting(Database):
    """A database that counts what it is asked."""

    asked = 0

    async def rows(self, name: str, *parameters: object) -> list[Row]:
        self.asked += 1
        return await super().rows(name, *parameters)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Counting]:
    opened = Counting(database_url, 4, Metrics())
    await opened.open()
    yield opened
    await opened.close()


async def test_a_namespace_is_asked_for_once_by_all_who_wait_and_remembered(
    database: Counting, unique_namespace: str
) -> None:
    now = 0.0
    cache = NamespaceCache(database, lambda: now)
    assert await asyncio.gather(*(cache.exists(unique_namespace) for _ in range(20))) == [False] * 20
    assert database.asked == 1

    await database.rows("ensure_namespace", unique_namespace, None, 30)
    database.asked = 0
    assert not await cache.exists(unique_namespace)
    now += UNKNOWN_SECONDS
    assert await cache.exists(unique_namespace)
    now += KNOWN_SECONDS - 0.1
    assert await cache.exists(unique_namespace)
    assert database.asked == 1
    now += 0.1
    assert await cache.exists(unique_namespace)
    assert database.asked == 2


async def test_a_failed_look_up_is_not_remembered(database: Counting) -> None:
    class Failing(Counting):
        async def rows(self, name: str, *parameters: object) -> list[Row]:
            raise psycopg.OperationalError("away")

    failing = Failing.__new__(Failing)
    cache = NamespaceCache(failing)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            await cache.exists("default")


async def test_runs_that_started_in_the_same_microsecond_are_paged_by_id(
    database: Counting, database_url: str, unique_namespace: str
) -> None:
    ids = [f"{unique_namespace}-{n:02}" for n in range(9)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for run_id in ids:
            connection.execute(
                "INSERT INTO workflow_runs SELECT %s, %s, %s, 1, 't', 'q', NULL, 5, NULL, 1, 'waiting', NULL, "
                "'2026-01-01Z', NULL, NULL, NULL, '2026-01-01Z', 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, NULL, 0, false",
                (run_id, unique_namespace, run_id),
            )
            connection.execute(
                "INSERT INTO workflow_run_summaries SELECT %s, %s, %s, 't', 'q', NULL, NULL, 'running', "
                "'2026-01-01Z', NULL, '{}', '{}', NULL, NULL, '', NULL",
                (run_id, unique_namespace, run_id),
            )
    listing = Listing(database, stale_after_seconds=60)
    asked = Conditions(statuses=["waiting"])
    found: list[str] = []
    after: Position | None = None
    while True:
        page, after = await listing.page(unique_namespace, [asked], after, 4)
        found += [row.summary.run_id for row in page]
        if after is None:
            break
    assert found == ids[::-1]
