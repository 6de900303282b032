"""A connection that sends JSON to either plane and reads JSON back, where the speed of the client does not matter."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.protocol import TOKEN
from benchmarks.wire import Connection, request_head
from dw_core.protocol.versions import CONTROL_PLANE_VERSION, WORKER_PROTOCOL_VERSION


class Caller:
    """Sends one request at a time."""

    def __init__(self, url: str, connection: Connection) -> None:
        self._url = url
        self._connection = connection

    @classmethod
    async def connect(cls, url: str) -> Caller:
        """A caller with a connection of its own."""
        return cls(url, await Connection.open(url))

    async def send(self, path: str, body: dict[str, Any] | None = None, method: str = "POST") -> tuple[Any, int]:
        """One request below ``/api``; the decoded answer and its size in bytes."""
        plane = (
            ("X-Durable-Workflow-Protocol-Version", WORKER_PROTOCOL_VERSION)
            if path.startswith("/worker")
            else ("X-Durable-Workflow-Control-Plane-Version", CONTROL_PLANE_VERSION)
        )
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", plane[0]: plane[1]}
        head = request_head(method, f"/api{path}", self._url, headers)
        answer = await self._connection.send(head, b"" if body is None else msgspec.json.encode(body))
        return msgspec.json.decode(answer), len(answer)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
