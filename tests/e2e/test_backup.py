"""A database that was dumped and restored with the commands of the documentation goes on where the dump was taken."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from durable_workflow import Client, workflow
from durable_workflow.workflow import WorkflowContext

from dw_standalone.embedded.carriers import postgres_bin
from tests.conftest import NewDatabase
from tests.e2e.conftest import worker_on
from tests.harness.databases import temporary_database
from tests.harness.servers import TOKEN, Server, serving
from tests.harness.waiting import eventually


@workflow.defn(name="backed-up")
class BackedUp:
    """Waits for a signal before it ends."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @workflow.signal("say")
    def say(self, word: str) -> None:
        self.said.append(word)

    def run(self, ctx: WorkflowContext) -> Generator[Any, Any, Any]:
        yield ctx.wait_condition(lambda: bool(self.said), key="said")
        return self.said


async def test_a_restored_database_goes_on(
    tmp_path: Path, new_database: NewDatabase, postgres_url: str, redis_url: str, queue: str
) -> None:
    dump = tmp_path / "dump"
    with new_database("backup") as url, standalone(tmp_path, url, redis_url) as server:
        async with Client(server.url, token=TOKEN) as client, worker_on(client, queue, [BackedUp]):
            handle = await client.start_workflow(workflow_type="backed-up", workflow_id=queue, task_queue=queue)

            async def waits() -> bool:
                return bool((await handle.describe()).status == "waiting")

            await eventually(waits, "the workflow waits", 30)
            run_tool("pg_dump", "--format=custom", f"--file={dump}", url)
    with temporary_database(postgres_url) as url:
        run_tool("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={url}", str(dump))
        with standalone(tmp_path, url, redis_url) as server:
            async with Client(server.url, token=TOKEN) as client, worker_on(client, queue, [BackedUp]):
                restored = client.get_workflow_handle(queue, run_id=handle.run_id)
                await restored.signal("say", ["again"])
                assert await restored.result(timeout=30) == ["again"]


@contextmanager
def standalone(folder: Path, url: str, redis_url: str) -> Iterator[Server]:
    """A server on this database."""
    environ = {"DATABASE_URL": url, "REDIS_URL": redis_url, "DW_SERVER_TOPOLOGY_SHAPE": "standalone_server"}
    with serving(folder, environ, "standalone") as (server,):
        yield server


def run_tool(name: str, *arguments: str) -> None:
    """One of Postgres' own tools."""
    subprocess.run([postgres_bin() / name, *arguments], check=True)
