"""A client of the worker plane."""

from __future__ import annotations

import pytest

from tests.contract.worker.client import Client
from tests.harness.worker_plane import ServedPlane


@pytest.fixture
async def client(served: ServedPlane) -> Client:
    """A client whose worker ``w-1`` is registered."""
    client = Client(served)
    assert (await client.register()).status == 201
    return client
