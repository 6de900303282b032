"""What the tests of queries share: a worker that answers, callers that wait."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.shell_client import Answer, call
from tests.contract.worker.client import QUEUE, WORKER, Client
from tests.harness.waiting import eventually

CAPABLE = {"capabilities": ["query_tasks"]}


async def capable(client: Client, worker_id: str = WORKER, **fields: Any) -> None:
    """Register a worker that answers queries."""
    answer = await client.register(worker_id, **CAPABLE, **fields)
    assert answer.status == 201, answer.json


def asking(
    client: Client,
    name: str = "status",
    body: Any = None,
    *,
    workflow_id: str = "w",
    run_id: str | None = None,
    hang_up: asyncio.Event | None = None,
) -> asyncio.Task[Answer]:
    """Ask a question; the caller waits in the background."""
    run = "" if run_id is None else f"/runs/{run_id}"
    sent = {"x-durable-workflow-control-plane-version": "2", "x-namespace": client.served.namespace}
    path = f"/api/workflows/{workflow_id}{run}/query/{name}"
    return asyncio.create_task(call(client.served.app, "POST", path, headers=sent, body=body or {}, hang_up=hang_up))


async def report(client: Client, task: dict[str, Any], verb: str = "complete", **fields: Any) -> Answer:
    """Report on a query task as the worker it is leased to, unless ``fields`` say something else."""
    fence = {"lease_owner": task["lease_owner"], "query_task_attempt": task["query_task_attempt"]}
    return await client.post(f"/query-tasks/{task['query_task_id']}/{verb}", fence | fields)


async def until_waiting(client: Client, count: int = 1) -> None:
    """Wait until so many queries of the queue wait for a worker."""
    statement = "SELECT count(*) FROM workflow_query_tasks WHERE namespace = %s AND queue = %s AND state = 0"

    async def are_waiting() -> bool:
        return await client.served.execute(statement, client.served.namespace, QUEUE) == [(count,)]

    await eventually(are_waiting, f"{count} queries wait")
