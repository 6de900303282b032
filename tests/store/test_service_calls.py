"""Service calls in Postgres: leased by one dispatcher at a time, ended once, told to everybody who waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dw_core.services.rows import CallEnd, CallLink, ServiceCall, ServiceWaiter
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.metrics import Metrics
from tests.conftest import NewDatabase
from tests.harness.control_plane import new_id

NEVER_AGAIN, AT_ONCE = 600.0, -1.0


@pytest.fixture
async def database(new_database: NewDatabase) -> AsyncIterator[Database]:
    """A database of one test alone: a dispatcher leases whatever it finds."""
    with new_database("service_calls") as url:
        opened = Database(url, 8, Metrics())
        await opened.open()
        yield opened
        await opened.close()


async def admitted(database: Database, **members: Any) -> str:
    """A call that is due."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    call = ServiceCall(
        service_call_id=new_id(),
        namespace="default",
        endpoint_name="shop",
        service_name="desk",
        operation_name="greet",
        operation_mode="sync",
        wait_for="completed",
        binding_kind="invocable_http",
        request_payload="",
        accepted_at=before,
        **({"due_at": before} | members),
    )
    found = await database.rows("admit_service_call", encode_rows([call]))
    return found[0][0] if found else ""


async def lease(database: Database, owner: str, grace_seconds: float = NEVER_AGAIN) -> int:
    """How many calls this dispatcher is given."""
    return len(await database.rows("lease_service_calls", owner, 10, grace_seconds, 0.0))


async def end(database: Database, **members: Any) -> tuple[Any, Any]:
    """End one call; the runs that are told, and the calls that have ended."""
    named = CallEnd(**({"status": "completed", "outcome": "completed"} | members))
    ((runs, calls),) = await database.rows("end_service_calls", encode_rows([named]))
    return runs, calls


async def test_dispatchers_that_look_at_once_lease_every_call_once(database: Database) -> None:
    for _ in range(20):
        await admitted(database)
    found = await asyncio.gather(*(lease(database, f"d{n}") for n in range(8)))
    assert sum(found) == 20
    assert await lease(database, "late") == 0


async def test_only_who_holds_the_lease_ends_the_call(database: Database) -> None:
    call_id = await admitted(database)
    assert await lease(database, "first", AT_ONCE) == 1
    assert await lease(database, "second") == 1
    assert await end(database, service_call_id=call_id, lease_owner="first", attempt=1) == (None, None)
    assert await end(database, service_call_id=call_id, lease_owner="second", attempt=1) == (None, None)
    assert await end(database, service_call_id=call_id, lease_owner="second", attempt=2) == (None, [call_id])
    assert await end(database, service_call_id=call_id) == (None, None)


async def test_a_call_that_is_given_back_is_due_when_it_was_said(database: Database) -> None:
    call_id = await admitted(database)
    await lease(database, "first")
    await database.rows("retry_service_call", call_id, "other", 1, 0.0, "[]")
    assert await lease(database, "second") == 0
    await database.rows("retry_service_call", call_id, "first", 1, 0.0, "[]")
    assert await lease(database, "second") == 1


async def test_one_call_is_kept_per_key_and_caller(database: Database) -> None:
    first = await admitted(database, idempotency_key="k", caller_namespace="a")
    assert await admitted(database, idempotency_key="k", caller_namespace="a") == ""
    assert await admitted(database, idempotency_key="k", caller_namespace="b") != first
    assert await admitted(database, idempotency_key="k") != ""
    assert await admitted(database, idempotency_key="k") == ""


async def test_the_end_of_a_run_ends_its_calls_and_tells_every_waiter_once(database: Database) -> None:
    call_id = await admitted(database)
    waiters = [ServiceWaiter(service_call_id=call_id, run_id=run_id, sequence=3) for run_id in ("r1", "r2")]
    await database.rows("add_service_waiters", encode_rows(waiters))
    link = CallLink(service_call_id=call_id, linked_workflow_id="w", linked_run_id="answer")
    await database.rows("link_service_calls", encode_rows([link]))
    assert await lease(database, "dispatcher") == 0
    runs, calls = await end(database, linked_run_id="answer", response_payload="blob")
    assert (sorted(runs), calls) == (["r1", "r2"], [call_id])
    assert await end(database, linked_run_id="answer") == (None, None)
    ((text,),) = await database.rows("describe_service_call", call_id)
    assert '"response_payload":"blob"' in text


async def test_calls_are_forgotten_with_the_retention_of_their_namespace(database: Database) -> None:
    ended: dict[str, Any] = {"status": "completed", "due_at": None}
    old = await admitted(database, **ended, closed_at=datetime.now(UTC) - timedelta(days=31), idempotency_key="k")
    await admitted(database, **ended, closed_at=datetime.now(UTC) - timedelta(days=29))
    await admitted(database)
    assert await database.rows("forget_service_calls", 10) == [(old,)]
    assert await admitted(database, idempotency_key="k") != ""
