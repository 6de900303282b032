"""Both planes on a real database, and a client for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.worker.client import Client
from tests.harness.worker_plane import ServedPlane, worker_plane


@pytest.fixture
async def served(database_url: str, unique_namespace: str) -> AsyncIterator[ServedPlane]:
    """Both planes, with a namespace of this test alone."""
    async with worker_plane(database_url, unique_namespace) as started:
        yield started


@pytest.fixture
async def client(served: ServedPlane) -> Client:
    """A client of which no worker is registered yet."""
    return Client(served)
