"""Runs that were there before search attributes had rows are found by them like those that came later."""

from __future__ import annotations

import json

import psycopg

from dw_core.visibility.rows import search_rows
from dw_runtime.store.migration_files import migrations
from tests.conftest import NewDatabase

VALUES = {
    "Keyword": "c1",
    "Number": 1.5,
    "Large": 2**53 + 1,
    "Flag": True,
    "Off": False,
    "List": ["a", "b"],
    "Due": "2026-01-01T01:00:00.000007+01:00",
    "Empty": [],
}
TYPES = {"Due": "datetime"}


def test_what_is_there_already_gets_the_same_rows(new_database: NewDatabase, unique_namespace: str) -> None:
    (text,) = (m.text for m in migrations() if m.name == "0014_visibility")
    with new_database("attributes") as database_url, psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO workflow_run_summaries (run_id, namespace, workflow_id, workflow_type, queue, status_bucket,"
            " started_at, memo, search_attributes, arguments, search_attribute_types)"
            " VALUES (%(run)s, %(run)s, 'w', 't', 'q', 'running', now(), '{}', %(values)s, '', %(types)s)",
            {"run": unique_namespace, "values": json.dumps(VALUES), "types": json.dumps(TYPES)},
        )
        for _ in range(2):
            connection.execute(text[text.index("INSERT INTO workflow_search_attributes") :].encode())
        found = connection.execute(
            "SELECT name, ordinal, text_value, number_value FROM workflow_search_attributes WHERE run_id = %s",
            [unique_namespace],
        ).fetchall()
        connection.rollback()
    expected = search_rows(unique_namespace, VALUES, TYPES)
    assert set(found) == {(row.name, row.ordinal, row.text_value, row.number_value) for row in expected}
