"""Fixtures of the store tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.databases import temporary_database


@pytest.fixture
def empty_database(postgres_url: str) -> Iterator[str]:
    """A database without tables, of one test alone."""
    with temporary_database(postgres_url) as url:
        yield url
