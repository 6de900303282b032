"""The worker plane on a real database, and a client for it."""

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
    """A client whose worker ``w-1`` is registered."""
    client = Client(served)
    assert (await client.register()).status == 201
    return client
