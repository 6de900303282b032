"""Both planes of a standalone process in this process: real Postgres, real pump, real broker, no HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql

from dw_api_ingress.plane import control_plane
from dw_core.ids import parse_task_id
from dw_matching.plane import WorkerPlane
from dw_runtime.http.application import Application
from dw_runtime.settings import load

SWEEP_LEASE = "matching-leases"
HOLD_SWEEPS = """
    INSERT INTO service_leases (name, holder, expires_at) VALUES (%s, 'the-test', 'infinity')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
"""
FREE_SWEEPS = "DELETE FROM service_leases WHERE name = %s"
DUMPED_TABLES = """
    SELECT c.relname::text, EXISTS (
        SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'namespace' AND NOT a.attisdropped
    )
    FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
      AND (c.relname LIKE 'workflow\\_%%' OR c.relname LIKE 'activity\\_%%') AND c.relname <> 'workflow_namespaces'
    ORDER BY 1
"""

Dump = dict[str, list[Any]]


class ServedPlane:
    """What a test may use: the ASGI application, the plane behind it, its namespace, and the database beside it."""

    def __init__(
        self,
        app: Application,
        plane: WorkerPlane,
        namespace: str,
        connection: psycopg.AsyncConnection[tuple[Any, ...]],
    ) -> None:
        self.app = app
        self.plane = plane
        self.namespace = namespace
        self._connection = connection

    async def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement of the test's own and return its rows."""
        cursor = await self._connection.execute(statement.encode(), values)
        return await cursor.fetchall() if cursor.description else []

    async def dump(self) -> Dump:
        """Every row about workflows and activities of the namespace, by table, in a fixed order."""
        dumped: Dump = {}
        for table, has_namespace in await self.execute(DUMPED_TABLES):
            owned = (
                sql.SQL("t.namespace = %s")
                if has_namespace
                else sql.SQL("t.run_id IN (SELECT r.run_id FROM workflow_runs r WHERE r.namespace = %s)")
            )
            query = sql.SQL("SELECT to_jsonb(t) FROM {} t WHERE {} ORDER BY to_jsonb(t)::text")
            cursor = await self._connection.execute(query.format(sql.Identifier(table), owned), (self.namespace,))
            dumped[table] = [row for (row,) in await cursor.fetchall()]
        return dumped

    async def expire_lease(self, task_id: str) -> None:
        """Make the lease of an open task end a second ago."""
        named = parse_task_id(task_id)
        assert named is not None, task_id
        await self.execute(
            "UPDATE workflow_tasks SET lease_expires_at = dw_now() - interval '1 second',"
            " sweep_at = dw_now() - interval '1 second' WHERE run_id = %s AND task_number = %s",
            *named,
        )

    async def sweep(self) -> None:
        """Let one pass of the sweep happen."""
        await self.execute(FREE_SWEEPS, SWEEP_LEASE)
        await self.plane.sweeper.pass_once()
        await self.execute(HOLD_SWEEPS, SWEEP_LEASE)


@asynccontextmanager
async def worker_plane(
    database_url: str, namespace: str, environ: Mapping[str, str] | None = None
) -> AsyncIterator[ServedPlane]:
    """Serve both planes on a migrated database; ``namespace`` is created.

    Sweeps stand still: a test that wants one calls :meth:`ServedPlane.sweep`.
    """
    settings = load({"DATABASE_URL": database_url, "DW_AUTH_DRIVER": "none", **(environ or {})})
    plane = WorkerPlane(settings, "standalone")
    app = plane.node.serve({**control_plane(plane.node, plane.asking), **plane.handlers()}, plane.loops)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        served = ServedPlane(app, plane, namespace, connection)
        await served.execute(HOLD_SWEEPS, SWEEP_LEASE)
        await plane.open()
        try:
            await plane.node.database.rows("ensure_namespace", namespace, "A test's own.", 30)
            yield served
        finally:
            await plane.drain()
            await plane.close()
            await served.execute(FREE_SWEEPS, SWEEP_LEASE)
