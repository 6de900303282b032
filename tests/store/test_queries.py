"""Query tasks in Postgres: claimed once, in order, by processes that know nothing of each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from dw_core.engine.rows import TaskKind
from dw_runtime.store.database import Database
from dw_runtime.telemetry.metrics import Metrics
from tests.contract.shell_client import call
from tests.harness.control_plane import control_plane, new_id

NO_WAIT = 0.0


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url, 8, Metrics())
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def run(database_url: str, unique_namespace: str) -> AsyncIterator[dict[str, Any]]:
    """A started run, as a query names it."""
    async with control_plane(database_url, unique_namespace) as plane:
        sent = {"x-durable-workflow-control-plane-version": "2", "x-namespace": unique_namespace}
        body = {"workflow_id": "w", "workflow_type": "order", "task_queue": "q"}
        started = await call(plane.shell, "POST", "/api/workflows", headers=sent, body=body)
        yield {
            "namespace": unique_namespace,
            "kind": TaskKind.QUERY,
            "queue": "q",
            "workflow_id": "w",
            "run_id": started.json["run_id"],
            "workflow_type": "order",
        }


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def admit(database: Database, run: dict[str, Any], count: int, pending_max: int = 1000) -> list[str]:
    ids = [new_id() for _ in range(count)]
    for query_id in ids:
        query = run | {"query_task_id": query_id, "query_name": "status", "arguments": "", "caller": "me"}
        await database.rows("admit_query", encoded(query), 30, 180, pending_max)
    return ids


async def claim(database: Database, run: dict[str, Any], slots: int, owner: str = "worker", **wanted: Any) -> list[str]:
    claimant = {"lease_owner": owner, "poll_request_id": None, "lease_seconds": 60}
    want = {
        "position": 0,
        "kind": run["kind"],
        "namespace": run["namespace"],
        "queue": run["queue"],
        "types": None,
        "build_id": None,
        "slots": slots,
        "claimants": [claimant] * slots,
    }
    rows = await database.rows("claim_queries", encoded([want | wanted]), NO_WAIT)
    found = sorted((row[1], msgspec.json.decode(row[2])["query_task_id"]) for row in rows if row[2] is not None)
    return [query_id for _, query_id in found]


async def test_queries_are_claimed_oldest_first(database: Database, run: dict[str, Any]) -> None:
    ids = await admit(database, run, 5)
    assert await claim(database, run, 2) == ids[:2]
    assert await claim(database, run, 9, types=["invoice"]) == []
    assert await claim(database, run, 9, types=["order"]) == ids[2:]
    assert await claim(database, run, 9) == []


async def test_no_query_is_claimed_twice(database: Database, run: dict[str, Any]) -> None:
    ids = await admit(database, run, 60)
    claims = await asyncio.gather(*(claim(database, run, 7, f"worker-{number}") for number in range(8)))
    claims += [await claim(database, run, 60)]
    assert Counter(query_id for claimed in claims for query_id in claimed) == Counter(ids)


async def test_two_sweeps_at_once_offer_a_query_again_only_once(database: Database, run: dict[str, Any]) -> None:
    await admit(database, run, 40)
    claimed = await claim(database, run, 40, "nobody-registered")
    swept = await asyncio.gather(*(database.rows("sweep_queries", 200, 60) for _ in range(4)))
    own = [row for rows in swept for row in rows if row[0] == run["namespace"]]
    assert len(own) == len(claimed) == 40


async def test_a_sweep_forgets_what_was_kept_long_enough(database: Database, run: dict[str, Any]) -> None:
    kept, ended = await admit(database, run, 2)
    assert await database.rows("end_query", ended) == [(0, False)]
    await database.rows("sweep_queries", 200, 60)
    found = await database.rows("take_answers", encoded([kept, ended]))
    assert found == [(ended, None, None, None)]


async def test_a_queue_admits_no_more_than_it_may(database: Database, run: dict[str, Any]) -> None:
    ids = await admit(database, run, 5, pending_max=3)
    assert await claim(database, run, 9) == ids[:3]
