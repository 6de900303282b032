"""One connection for commands that change or inspect the schema, outside the pool of a serving process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncRawCursor

from dw_runtime.process.codes import StartupError
from dw_runtime.store.database import Connection, Row
from dw_runtime.store.statements import statements

CONNECT_SECONDS = 5


class StoreUnreachable(StartupError):
    """The database does not answer or refuses the connection."""


class Administration:
    """A session in autocommit mode that runs named statements and whole files."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rows(self, name: str, *parameters: Any) -> list[Row]:
        """Run a named statement; its rows, or none."""
        cursor = AsyncRawCursor(self._connection)
        await cursor.execute(statements()[name].encode(), parameters)
        return await cursor.fetchall() if cursor.description else []

    async def script(self, text: str) -> None:
        """Send text as one simple query; several statements in it are one transaction."""
        await self._connection.execute(text.encode())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Make the statements inside one transaction."""
        async with self._connection.transaction():
            yield


@asynccontextmanager
async def administration(database_url: str) -> AsyncIterator[Administration]:
    """Connect to ``database_url`` (a libpq URL, straight to Postgres) for the time of the context.

    Raises :class:`StoreUnreachable`, whose message names the cause but neither address nor user.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            database_url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="dw-server migrate"
        )
    except psycopg.OperationalError as error:
        raise StoreUnreachable(f"The database cannot be reached: {_cause(error)}.") from None
    async with connection:
        yield Administration(connection)


def explain(error: psycopg.Error) -> str:
    """What Postgres says is wrong, without statement text or connection details."""
    return error.diag.message_primary or type(error).__name__


def _cause(error: psycopg.OperationalError) -> str:
    text = str(error)
    for sign, words in (
        ("password authentication failed", "it refuses the user or the password"),
        ("does not exist", "the database or the user does not exist"),
        ("too many clients", "it takes no more connections"),
        ("starting up", "it is starting up"),
        ("Connection refused", "nothing listens at the configured address"),
        ("timeout", "it does not answer in time"),
    ):
        if sign in text:
            return words
    return "the connection failed"
