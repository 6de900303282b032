"""A connection that is spoken to in pipelines: many statements, one round trip.

The pump's transactions are a handful of statements with JSON in and JSON out. Sent through cursors, each statement
costs a turn of the event loop and several system calls, which together are most of what a small batch costs. Here all
statements of an exchange go out in one write and their results come back in one wait, on psycopg's own libpq bindings.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from psycopg import pq

from dw_runtime.store.database import SESSION_OPTIONS
from dw_runtime.store.statements import statements
from dw_runtime.telemetry.metrics import Metrics

Call = tuple[str, ...]
"""A named statement and its parameters, each the text of one JSON value."""

Row = tuple[bytes | None, ...]
Rows = Sequence[Row]

EXCHANGE_SECONDS: Final = 40.0
"""The longest wait for an answer; the server's own statement timeout is shorter."""

CONNECT_SECONDS: Final = 5

LOOK_SECONDS: Final = 0.25
"""How often an exchange looks for itself whether its connection still lives: libuv stops watching a socket that has an
error, and uvloop then calls nobody."""

_BEGIN: Final = b"BEGIN"
_COMMIT: Final = b"COMMIT"
_ROLLBACK: Final = b"ROLLBACK"
_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Link:
    """One connection; opened when it is first needed, and again after it was lost."""

    def __init__(self, url: str, metrics: Metrics) -> None:
        self._url = url
        self._metrics = metrics
        self._connection: psycopg.AsyncConnection | None = None
        self._watched = -1
        self._prepared: set[str] = set()
        self._input = asyncio.Event()
        self._is_exchanging = False
        self._look: asyncio.TimerHandle | None = None
        self._texts = {name: text.encode() for name, text in statements().items()}

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that has not been found lost."""
        return self._connection is not None

    async def close(self) -> None:
        """Close the connection."""
        connection = self._connection
        if connection is not None:
            self._give_up()
            await connection.close()

    def _give_up(self) -> None:
        """The connection is of no use any more: stop watching it."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._watched)
        loop.remove_writer(self._watched)
        os.close(self._watched)
        self._connection, self._watched = None, -1

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """One transaction. :meth:`Transaction.commit` commits it; without that it is rolled back at the end.

        Raises ``psycopg.Error``. A connection that fails is given up and opened again for the next transaction.
        """
        if self._connection is None:
            await self._open()
        transaction = Transaction(self)
        try:
            yield transaction
        finally:
            if self._connection is not None and transaction.is_open:
                await self._roll_back()

    async def _open(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._url,
            autocommit=True,
            options=SESSION_OPTIONS,
            connect_timeout=CONNECT_SECONDS,
            fallback_application_name="dw-server",
        )
        connection.pgconn.nonblocking = 1
        connection.pgconn.enter_pipeline_mode()
        self._prepared.clear()
        self._connection = connection
        # A descriptor of our own: libpq closes its one as soon as it notices a loss, and the event loop must never
        # watch a number that is closed or that the next connection has been given.
        self._watched = os.dup(connection.pgconn.socket)
        asyncio.get_running_loop().add_reader(self._watched, self._on_input)

    def _on_input(self) -> None:
        """Data has come; outside an exchange it can only be a notice or the end of the connection."""
        connection = self._connection
        if self._is_exchanging or connection is None:
            self._input.set()
            return
        try:
            connection.pgconn.consume_input()
        except psycopg.OperationalError:
            self._give_up()
            connection.pgconn.finish()

    async def _roll_back(self) -> None:
        try:
            await self.exchange([], before=None, after=_ROLLBACK)
        except psycopg.OperationalError:
            await self.close()

    async def exchange(self, calls: Sequence[Call], *, before: bytes | None, after: bytes | None) -> list[Rows]:
        """Send ``before``, the calls and ``after`` in one write; the rows of each call.

        Raises the error of the first statement that failed; the following ones were not executed.
        """
        connection = self._connection
        if connection is None:
            raise psycopg.OperationalError("the connection has been lost")
        self._is_exchanging = True
        self._look_later()
        is_whole = False
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                awaited = self._send(connection.pgconn, calls, before, after)
                await self._flush(connection.pgconn)
                found, error = await self._receive(connection.pgconn, awaited)
            is_whole = True
        except TimeoutError as late:
            raise psycopg.OperationalError("the database did not answer in time") from late
        finally:
            self._is_exchanging = False
            if self._look is not None:
                self._look.cancel()
            if not is_whole:
                await self.close()
        if error is not None:
            raise error
        return found

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_now)

    def _look_now(self) -> None:
        self._input.set()
        self._look_later()

    def _send(
        self, pgconn: pq.abc.PGconn, calls: Sequence[Call], before: bytes | None, after: bytes | None
    ) -> list[str | None]:
        """Queue everything. Per result to come: the name of a statement being prepared, ``""`` for rows, or None."""
        awaited: list[str | None] = []
        if before is not None:
            pgconn.send_query_params(before, None)
            awaited.append(None)
        for name, *parameters in calls:
            if name not in self._prepared and name not in awaited:
                pgconn.send_prepare(name.encode(), self._texts[name])
                awaited.append(name)
            pgconn.send_query_prepared(name.encode(), [parameter.encode() for parameter in parameters])
            awaited.append("")
        if after is not None:
            pgconn.send_query_params(after, None)
            awaited.append(None)
        pgconn.pipeline_sync()
        self._metrics.statements.inc(len(calls) + (before is not None) + (after is not None))
        return awaited

    async def _flush(self, pgconn: pq.abc.PGconn) -> None:
        """Write what is queued; the server may want to be read from before it takes more."""
        while pgconn.flush():
            self._input.clear()
            loop = asyncio.get_running_loop()
            try:
                loop.add_writer(self._watched, self._input.set)
            except RuntimeError as gone:  # uvloop has given up a connection that was reset
                raise psycopg.OperationalError("the connection has been lost") from gone
            try:
                await self._input.wait()
            finally:
                loop.remove_writer(self._watched)
            pgconn.consume_input()

    async def _receive(
        self, pgconn: pq.abc.PGconn, awaited: Sequence[str | None]
    ) -> tuple[list[Rows], psycopg.Error | None]:
        found: list[Rows] = []
        error: psycopg.Error | None = None
        position = 0
        while True:
            while pgconn.is_busy():
                self._input.clear()
                await self._input.wait()
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                if pgconn.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection has been lost")
                position += 1
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return found, error
            elif result.status not in _GOOD:
                if error is None and result.status != pq.ExecStatus.PIPELINE_ABORTED:
                    error = _error(result)
            elif awaited[position] == "":
                found.append(_rows(result))
            elif awaited[position] is not None:
                self._prepared.add(awaited[position] or "")

    def count_commit(self) -> None:
        """A transaction has been committed."""
        self._metrics.commits.inc()


class Transaction:
    """The exchanges of one transaction."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._has_begun = False
        self.is_open = False

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """Run statements inside the transaction; the rows of each."""
        before, self._has_begun = (None if self._has_begun else _BEGIN), True
        self.is_open = True
        return await self._link.exchange(calls, before=before, after=None)

    async def commit(self, calls: Sequence[Call] = ()) -> list[Rows]:
        """Run the last statements and commit, in one round trip; the rows of each.

        When the connection is lost here, whether the transaction was committed is unknown.
        """
        before, self._has_begun = (None if self._has_begun else _BEGIN), True
        self.is_open = True
        found = await self._link.exchange(calls, before=before, after=_COMMIT)
        self.is_open = False
        self._link.count_commit()
        return found


def _rows(result: pq.abc.PGresult) -> Rows:
    columns = range(result.nfields)
    return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]


def _error(result: pq.abc.PGresult) -> psycopg.Error:
    """The exception class that belongs to the SQLSTATE, with the server's message; libpq's own errors have none."""
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    if code is None:
        return psycopg.OperationalError("the connection has been lost")
    state = code.decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"unknown error").decode("utf-8", "replace")
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(message)
