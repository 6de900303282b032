"""What a database needs before the first request: the schema and the default namespace."""

from __future__ import annotations

import asyncio

import structlog

from dw_runtime.process.codes import StartupError
from dw_runtime.settings import Settings
from dw_runtime.store.administration import StoreUnreachable, administration
from dw_runtime.store.migrate import expand

_log = structlog.get_logger()

DEFAULT_DESCRIPTION = "Created at bootstrap."


async def bootstrap(settings: Settings) -> None:
    """Wait for the database, expand the schema, create the default namespace; safe to repeat and to run side by side.

    Raises ``StoreUnreachable`` when the database does not answer within the configured attempts, ``MigrationError``
    when the schema cannot be migrated, :class:`StartupError` when no database is configured.
    """
    url = settings.stores.database_url
    if url is None:
        raise StartupError("No database is configured; set DATABASE_URL, DB_URL or DB_HOST.")
    await _wait(url, settings.bootstrap.retries, settings.bootstrap.delay_seconds)
    await expand(url)
    async with administration(url) as session:
        await session.rows(
            "ensure_namespace",
            settings.topology.default_namespace,
            DEFAULT_DESCRIPTION,
            settings.retention.history_days,
        )


async def _wait(database_url: str, attempts: int, pause_seconds: int) -> None:
    for attempt in range(1, attempts + 1):
        try:
            async with administration(database_url):
                return
        except StoreUnreachable as error:
            if attempt == attempts:
                raise
            _log.warning("bootstrap.waiting_for_database", attempt=attempt, attempts=attempts, reason=str(error))
            await asyncio.sleep(pause_seconds)
