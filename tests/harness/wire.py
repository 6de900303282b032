"""A raw client of a running server: requests with the headers of one plane, answers as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.harness.servers import TOKEN

JSON = dict[str, Any]


class Wire:
    """Requests to one server, in the namespace ``default``."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def worker(self, method: str, path: str, body: JSON | None = None) -> httpx.Response:
        """One request to the worker plane; ``path`` is below ``/api/worker``."""
        headers = {"x-durable-workflow-protocol-version": "1.20"}
        return await self._http.request(method, f"/api/worker{path}", headers=headers, json=body)

    async def control(self, method: str, path: str, body: JSON | None = None) -> httpx.Response:
        """One request to the control plane; ``path`` is below ``/api``."""
        headers = {"x-durable-workflow-control-plane-version": "2"}
        return await self._http.request(method, f"/api{path}", headers=headers, json=body)

    async def register(self, worker_id: str, queue: str, **fields: Any) -> None:
        """Register a worker that takes every workflow and no activity, unless ``fields`` say otherwise."""
        body = {"worker_id": worker_id, "task_queue": queue, "runtime": "python", **fields}
        answer = await self.worker("POST", "/register", body)
        assert answer.status_code == 201, answer.text

    async def poll(self, kind: str, worker_id: str, queue: str, **fields: Any) -> JSON | None:
        """The task of one poll, or None."""
        body = {"worker_id": worker_id, "task_queue": queue, "timeout_seconds": 20, **fields}
        answer = await self.worker("POST", f"/{kind}-tasks/poll", body)
        assert answer.status_code == 200, answer.text
        task: JSON | None = answer.json()["task"]
        return task

    async def complete(self, task: JSON, *commands: JSON) -> httpx.Response:
        """Complete a workflow task."""
        fence = {"lease_owner": task["lease_owner"], "workflow_task_attempt": task["workflow_task_attempt"]}
        return await self.worker(
            "POST", f"/workflow-tasks/{task['task_id']}/complete", {**fence, "commands": list(commands)}
        )

    async def events(self, workflow_id: str, run_id: str) -> list[JSON]:
        """The whole history of a run."""
        found: list[JSON] = []
        token = None
        while True:
            page = "" if token is None else f"&next_page_token={token}"
            answer = await self.control("GET", f"/workflows/{workflow_id}/runs/{run_id}/history?page_size=1000{page}")
            assert answer.status_code == 200, answer.text
            found += answer.json()["events"]
            token = answer.json()["next_page_token"]
            if token is None:
                return found


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[Wire]:
    """A client of the server at ``url``."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=90, limits=limits) as http:
        yield Wire(http)
