"""Schema migrations on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from dw_runtime.store import migrate, surface
from dw_runtime.store.administration import StoreUnreachable
from dw_runtime.store.migrate import MigrationError, contract, expand, status
from dw_runtime.store.migration_files import Migration, migrations

EXPAND = [m.name for m in migrations() if m.phase == "expand"]


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def use(monkeypatch: pytest.MonkeyPatch, *added: Migration) -> None:
    """Let this process know more files than the release has."""
    known: Sequence[Migration] = (*migrations(), *added)
    monkeypatch.setattr(migrate, "migrations", lambda: known)
    monkeypatch.setattr(surface, "migrations", lambda: known)


async def test_an_empty_database_misses_its_tables_and_is_ok_after_expand(empty_database: str) -> None:
    before = await status(empty_database)
    assert (before.status, before.repository_exists) == ("missing", False)
    assert "workflow_runs" in before.missing_tables
    assert before.pending_migrations == tuple(EXPAND)
    assert not before.operator_surface.available
    assert len(before.operator_surface.required_tables) == 18

    assert await expand(empty_database) == EXPAND

    after = await status(empty_database)
    assert (after.status, after.repository_exists, after.pending_migrations) == ("ok", True, ())
    assert after.operator_surface.available and after.operator_surface.issues == ()


async def test_a_second_expand_finds_nothing_to_do(empty_database: str) -> None:
    await expand(empty_database)
    assert await expand(empty_database) == []
    assert await contract(empty_database) == []


async def test_processes_that_migrate_at_once_apply_each_file_once(empty_database: str) -> None:
    results = await asyncio.gather(*(expand(empty_database) for _ in range(4)))
    assert sorted(name for done in results for name in done) == EXPAND
    assert (await status(empty_database)).status == "ok"


async def test_a_changed_file_is_refused_by_name(empty_database: str) -> None:
    await expand(empty_database)
    run(empty_database, "UPDATE schema_migrations SET checksum = 'other' WHERE name = '0001_foundation'")
    with pytest.raises(MigrationError, match=r"0001_foundation\.expand was applied .* another content"):
        await expand(empty_database)


async def test_a_file_that_fails_leaves_nothing_behind(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(
        monkeypatch,
        Migration(name="0900_broken", phase="expand", text="CREATE TABLE half (a int);\nSELECT no_such_column;"),
    )
    with pytest.raises(MigrationError, match=r"0900_broken\.expand failed: column \"no_such_column\" does not exist"):
        await expand(empty_database)
    assert run(empty_database, "SELECT to_regclass('half')") == [(None,)]
    state = await status(empty_database)
    assert state.status == "pending"
    assert [(b.migration, b.missing_tables) for b in state.blocking_migrations] == [("0900_broken", ("half",))]


async def test_a_file_without_transaction_may_build_indexes_concurrently(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "-- no transaction\nDROP INDEX CONCURRENTLY IF EXISTS runs_by_type;\n-- then\n"
        "CREATE INDEX CONCURRENTLY runs_by_type ON workflow_runs (workflow_type);"
    )
    use(monkeypatch, Migration(name="0900_index", phase="expand", text=text))
    results = await asyncio.gather(*(expand(empty_database) for _ in range(3)))
    assert sorted(map(len, results)) == [0, 0, len(EXPAND) + 1]
    assert run(empty_database, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'runs_by_type'::regclass") == [
        (True,)
    ]


async def test_tables_without_bookkeeping_are_adopted(empty_database: str) -> None:
    await expand(empty_database)
    run(empty_database, "DELETE FROM schema_migrations WHERE name = '0002_operator_surface'")
    before = await status(empty_database)
    assert (before.status, before.adoptable_migrations) == ("warning", ("0002_operator_surface",))
    assert await expand(empty_database) == ["0002_operator_surface"]
    assert (await status(empty_database)).status == "ok"


async def test_a_lost_table_shows_as_missing(empty_database: str) -> None:
    await expand(empty_database)
    run(empty_database, "DROP VIEW workflow_child_projection_repairs")
    state = await status(empty_database)
    assert state.status == "missing"
    assert [issue.table for issue in state.operator_surface.issues] == ["workflow_child_projection_repairs"]


async def test_contract_waits_for_expand_and_is_pending_without_blocking(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(
        monkeypatch,
        Migration(name="0900_next", phase="contract", text="DROP VIEW workflow_child_projection_repairs;"),
    )
    with pytest.raises(MigrationError, match="run the expand step first"):
        await contract(empty_database)
    await expand(empty_database)
    state = await status(empty_database)
    assert (state.status, state.pending_migrations) == ("ok", ("0900_next.contract",))
    assert await contract(empty_database) == ["0900_next"]


async def test_a_table_in_use_is_given_up_with_advice(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await expand(empty_database)
    use(
        monkeypatch,
        Migration(name="0900_lock", phase="expand", text="ALTER TABLE workflow_runs ADD COLUMN extra int;"),
    )
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT_MS", 20)
    with psycopg.connect(empty_database) as busy:
        busy.execute("LOCK TABLE workflow_runs")
        with pytest.raises(MigrationError, match="look for long transactions"):
            await expand(empty_database)
    assert await expand(empty_database) == ["0900_lock"]


async def test_a_database_that_cannot_be_reached_is_named_by_cause_only() -> None:
    with pytest.raises(StoreUnreachable) as raised:
        await expand("postgresql://someone:secret@127.0.0.1:1/nowhere")
    assert "nothing listens" in str(raised.value)
    assert not any(word in str(raised.value) for word in ("someone", "secret", "127.0.0.1", "nowhere"))


async def test_views_of_the_operator_surface_can_be_read(database_url: str) -> None:
    for table in surface.OPERATOR_SURFACE.values():
        run(database_url, f"SELECT * FROM {table} WHERE false")
