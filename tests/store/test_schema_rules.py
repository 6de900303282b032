"""Processes of the version before go on while the schema is expanded for the next one."""

from __future__ import annotations

import psycopg
import pytest

from dw_runtime.store.migrate import expand
from dw_runtime.store.migration_files import bookkeeping, migrations
from tests.store.schema_rules import complaints, read_schema

HELD_AFTER = "0020_external_payloads"
"""The migrations up to this one came before the first release: there was no process that they could disturb."""


def test_every_expand_migration_leaves_the_version_before_it_working(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(bookkeeping().encode())
        for migration in migrations():
            if migration.phase != "expand":
                continue
            before = read_schema(connection)
            for part in migration.parts:
                connection.execute(part.encode())
            if migration.name > HELD_AFTER:
                assert complaints(before, read_schema(connection)) == [], migration.name


def test_every_table_has_a_primary_key(database_url: str) -> None:
    """Tools that rewrite tables while they are used, such as pg_repack, need one (docs/operations.md)."""
    with psycopg.connect(database_url) as connection:
        without = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'"
            " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
        ).fetchall()
    assert without == []


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("ALTER TABLE workflow_runs DROP COLUMN archive", "workflow_runs.archive is gone"),
        ("ALTER TABLE workflow_runs RENAME COLUMN archive TO kept", "workflow_runs.archive is gone"),
        ("DROP TABLE workflow_inbox CASCADE", "workflow_inbox.run_id is gone"),
        (
            "ALTER TABLE workflow_runs ADD COLUMN fresh integer NOT NULL DEFAULT 0",
            "workflow_runs.fresh is new and refuses NULL",
        ),
        ("ALTER TABLE workflow_runs ALTER COLUMN archive SET NOT NULL", "workflow_runs.archive refuses NULL now"),
        ("ALTER TABLE workflow_runs ALTER COLUMN priority TYPE bigint", "workflow_runs.priority has become bigint"),
        (
            "ALTER TABLE workflow_runs ADD CHECK (priority < 5)",
            "workflow_runs: CHECK ((priority < 5)) is a new rule",
        ),
        (
            "CREATE UNIQUE INDEX one_queue ON workflow_runs (queue)",
            "workflow_runs: unique btree (queue) is a new rule",
        ),
        ("ALTER TABLE workflow_runs ADD COLUMN fresh integer", None),
        ("CREATE TABLE fresh (id integer PRIMARY KEY, name text NOT NULL UNIQUE)", None),
        ("CREATE INDEX by_type ON workflow_runs (workflow_type)", None),
    ],
)
async def test_what_would_disturb_them_is_found(empty_database: str, statement: str, complaint: str | None) -> None:
    await expand(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        before = read_schema(connection)
        connection.execute(statement.encode())
        found = complaints(before, read_schema(connection))
    assert (complaint in found) if complaint is not None else found == []
