"""Fixtures of the store tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.harness.databases import drop_database, sibling


@pytest.fixture
def empty_database(postgres_url: str) -> Iterator[str]:
    """A database without tables, of one test alone."""
    name = f"dw_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield sibling(postgres_url, name)
    drop_database(postgres_url, name)
