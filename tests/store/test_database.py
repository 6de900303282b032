"""The pool of connections while its database comes and goes."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg_pool import PoolTimeout
from psycopg_pool.base import AttemptWithBackoff

from dw_runtime.store.database import Database
from dw_runtime.telemetry.metrics import Metrics
from tests.chaos.proxy import Proxy
from tests.harness.waiting import eventually


async def test_after_an_outage_the_next_caller_connects_however_long_it_lasted(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool's pauses double: without a bound, an outage would last as long again as it has lasted."""
    monkeypatch.setattr(AttemptWithBackoff, "DELAY_BACKOFF", 20.0)  # the third attempt would come after 21 s
    parts = urlsplit(database_url)
    assert parts.hostname is not None and parts.port is not None
    async with Proxy(parts.hostname, parts.port) as proxy:
        proxy.is_refusing = True
        database = Database(database_url.replace(f":{parts.port}/", f":{proxy.port}/"), 2, Metrics())
        await database.open()
        with pytest.raises(PoolTimeout):
            await database.rows("run_exists", "n", "w", "r")
        proxy.is_refusing = False

        async def answers() -> bool:
            try:
                return await database.rows("run_exists", "n", "w", "r") == [(False,)]
            except psycopg.OperationalError:
                return False

        await eventually(answers, "the pool has connected again", 4)
        await database.close()
