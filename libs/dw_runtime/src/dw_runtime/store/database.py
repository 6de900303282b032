"""Connections: a pool whose cursors take named statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from dw_runtime.store.statements import statements
from dw_runtime.telemetry.metrics import Metrics

Connection = AsyncConnection[TupleRow]
Row = tuple[Any, ...]

SESSION_OPTIONS = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "timezone": "UTC",
        "lock_timeout": "5000",
        "statement_timeout": "30000",
        # No transaction pauses. One that does belongs to a process that stands still: it gives up its locks before
        # those who wait for them give up.
        "idle_in_transaction_session_timeout": "3000",
        # Every statement takes its rows as JSON, so that one plan fits every batch; planning anew costs a millisecond.
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        # Rows are looked up by the keys in that JSON, whose number the planner cannot know: never by reading a table.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }.items()
)


class Database:
    """A pool of connections to one Postgres.

    ``url`` is a libpq URL; ``size`` the most connections this process opens. :meth:`open` returns at once: the pool
    connects in the background and whenever somebody asks, so that a process starts while its database is away.
    """

    def __init__(self, url: str, size: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            min_size=min(2, size),
            max_size=size,
            open=False,
            timeout=5.0,
            # The pauses between attempts double all the time. Given up soon, they begin anew with the next caller.
            reconnect_timeout=5.0,
            connection_class=AsyncConnection[TupleRow],
            configure=_configure,
            kwargs={"options": SESSION_OPTIONS, "cursor_factory": AsyncRawCursor, "application_name": "dw-server"},
        )
        metrics.pool_in_use.set_function(self._in_use)
        metrics.pool_size.set(size)
        metrics.pool_waiting.set_function(lambda: float(self._pool.get_stats().get("requests_waiting", 0)))
        self._check: asyncio.Task[None] | None = None

    def _in_use(self) -> float:
        stats = self._pool.get_stats()
        return float(stats.get("pool_size", 0) - stats.get("pool_available", 0))

    async def open(self) -> None:
        """Begin to connect."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        if self._check is not None:
            await asyncio.gather(self._check, return_exceptions=True)
        await self._pool.close()

    async def check(self) -> None:
        """Replace every idle connection that has died.

        What breaks one connection, a fail-over or a restart, has mostly broken them all: without this each of them
        would fail one more request.
        """
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._pool.check(), name="pool-check")
        await asyncio.shield(self._check)

    @asynccontextmanager
    async def _pooled(self) -> AsyncIterator[Connection]:
        try:
            async with self._pool.connection() as connection:
                yield connection
        except psycopg.OperationalError as lost:
            if not isinstance(lost, PoolTimeout):
                await self.check()
            raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Session]:
        """A connection for reads and single statements; each statement is its own transaction."""
        async with self._pooled() as connection:
            await connection.set_autocommit(True)
            yield Session(connection, self._metrics)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """A connection inside one transaction, with statements pipelined; committed at the end, unless it raises."""
        async with self._pooled() as connection:
            await connection.set_autocommit(False)
            async with connection.pipeline(), connection.transaction():
                yield Session(connection, self._metrics)
        self._metrics.commits.inc()

    async def rows(self, name: str, *parameters: Any) -> list[Row]:
        """Run one named statement on its own and return its rows."""
        async with self.connection() as session:
            return await session.rows(name, *parameters)

    async def read(self, name: str, *parameters: Any) -> list[Row]:
        """Like :meth:`rows`, for a statement that may run twice: a connection that turns out dead is not the end."""
        try:
            return await self.rows(name, *parameters)
        except PoolTimeout:
            raise
        except psycopg.OperationalError:
            return await self.rows(name, *parameters)


class Session:
    """A connection that runs named statements."""

    def __init__(self, connection: Connection, metrics: Metrics) -> None:
        self._connection = connection
        self._metrics = metrics
        self._statements = statements()

    async def send(self, name: str, *parameters: Any) -> AsyncRawCursor[TupleRow]:
        """Send a statement; in a transaction its result may be fetched later."""
        self._metrics.statements.inc()
        cursor: AsyncRawCursor[TupleRow] = self._connection.cursor()  # type: ignore[assignment]  # cursor_factory
        await cursor.execute(self._statements[name].encode(), parameters, prepare=True)
        return cursor

    async def rows(self, name: str, *parameters: Any) -> list[Row]:
        """Send a statement and fetch all its rows."""
        cursor = await self.send(name, *parameters)
        return await cursor.fetchall() if cursor.description or self._connection.pgconn.pipeline_status else []

    async def run(self, name: str, *parameters: Any) -> int:
        """Send a statement that returns no rows; the number of rows it touched."""
        cursor = await self.send(name, *parameters)
        return cursor.rowcount


async def _configure(connection: Connection) -> None:
    connection.prepare_threshold = 0


def first(rows: Sequence[Row]) -> Row | None:
    """The first row, or None."""
    return rows[0] if rows else None
