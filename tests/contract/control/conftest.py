"""The control plane on a real database, and a client that speaks for an operator of the test's own namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from tests.contract.shell_client import Answer, call
from tests.harness.control_plane import ControlPlane, control_plane

Send = Callable[..., Coroutine[Any, Any, Answer]]


@pytest.fixture
async def plane(database_url: str, unique_namespace: str) -> AsyncIterator[ControlPlane]:
    """The control plane, with a namespace of this test alone."""
    async with control_plane(database_url, unique_namespace) as started:
        yield started


@pytest.fixture
def send(plane: ControlPlane) -> Send:
    """Send one request: method, path below ``/api``, and a JSON body."""

    async def request(method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {
            "x-durable-workflow-control-plane-version": "2",
            "x-namespace": plane.namespace,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await call(plane.shell, method, f"/api{path}", headers=sent, body=body)

    return request
