"""Schema migrations: expand before new code runs, contract after the old code is gone.

Each file runs in a transaction of its own together with its bookkeeping row. A file whose first line is
``-- no transaction`` runs outside one, statement by statement, and must be safe to repeat. Any number of processes may
call these functions at once: one works, the others wait for it and then find nothing to do. The lock belongs to a
session, so the URL must lead straight to Postgres and not through a pooler in transaction mode.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import psycopg
import structlog

from dw_runtime.discovery.probes import MigrationStatus
from dw_runtime.process.codes import StartupError
from dw_runtime.store.administration import Administration, administration, explain
from dw_runtime.store.migration_files import Migration, Phase, bookkeeping, migrations
from dw_runtime.store.surface import BOOKKEEPING_TABLE, inspected_relations, is_adoptable, judge

_log = structlog.get_logger()

OTHERS_SECONDS = 600.0
"""How long another process may take with its migrations."""
OTHERS_PAUSE_SECONDS = 0.1
LOCK_TIMEOUT_MS = 5000
LOCK_ATTEMPTS = 5
"""A statement that cannot get its table lock in time gives way to the traffic and is tried again."""


class MigrationError(StartupError):
    """A migration cannot be applied; the message says which and why."""


class SchemaDiffers(MigrationError):
    """The database was migrated by code whose migrations have another content."""


async def expand(database_url: str) -> list[str]:
    """Apply the expand files this database does not have; returns their names.

    A file whose tables exist already is only recorded. Raises :class:`MigrationError`, and ``StoreUnreachable`` when
    there is no connection.
    """
    return await _apply(database_url, "expand")


async def contract(database_url: str) -> list[str]:
    """Apply the contract files this database does not have, once every expand file is in; returns their names.

    Raises :class:`MigrationError`, and ``StoreUnreachable`` when there is no connection.
    """
    return await _apply(database_url, "contract")


async def status(database_url: str) -> MigrationStatus:
    """Where the schema stands; changes nothing. Raises ``StoreUnreachable`` when there is no connection."""
    async with administration(database_url) as session:
        missing = await _missing(session)
        applied = {} if BOOKKEEPING_TABLE in missing else await _applied(session)
        return judge(missing, applied)


async def _apply(database_url: str, phase: Phase) -> list[str]:
    async with administration(database_url) as session:
        try:
            await _take_lock(session)
            await session.script(bookkeeping())
            await session.rows("set_lock_timeout", str(LOCK_TIMEOUT_MS))
            applied = await _applied(session)
            _check(applied, phase)
            missing = await _missing(session)
            done = []
            for migration in migrations():
                if migration.phase == phase and migration.key not in applied:
                    await _apply_one(session, migration, is_there=is_adoptable(migration, missing))
                    done.append(migration.name)
        except psycopg.Error as error:
            raise MigrationError(f"The schema cannot be migrated: {explain(error)}.") from error
        return done


async def _take_lock(session: Administration) -> None:
    deadline = time.monotonic() + OTHERS_SECONDS
    while not (await session.rows("try_migration_lock"))[0][0]:
        if time.monotonic() > deadline:
            raise MigrationError("Another process holds the lock of the migrations; look for one that hangs.")
        await asyncio.sleep(OTHERS_PAUSE_SECONDS)


async def _applied(session: Administration) -> dict[str, str]:
    return {f"{name}.{phase}": checksum for name, phase, checksum in await session.rows("read_applied")}


async def _missing(session: Administration) -> set[str]:
    return {name for (name,) in await session.rows("find_missing_relations", inspected_relations())}


def _check(applied: Mapping[str, str], phase: Phase) -> None:
    """Refuse a database that was migrated with other texts, and to contract what has not been expanded."""
    for migration in migrations():
        recorded = applied.get(migration.key)
        if recorded is not None and recorded != migration.checksum:
            raise SchemaDiffers(
                f"The migration {migration.key} was applied to this database with another content; "
                "restore the file as it was released and add a new migration instead of changing it."
            )
        if phase == "contract" and migration.phase == "expand" and recorded is None:
            raise MigrationError(f"The migration {migration.key} has not been applied; run the expand step first.")


async def _apply_one(session: Administration, migration: Migration, *, is_there: bool) -> None:
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            if is_there:
                await _record(session, migration)
            elif migration.is_transactional:
                async with session.transaction():
                    await session.script(migration.text)
                    await _record(session, migration)
            else:
                for part in migration.parts:
                    await session.script(part)
                await _record(session, migration)
        except psycopg.errors.LockNotAvailable as error:
            if attempt == LOCK_ATTEMPTS:
                raise MigrationError(
                    f"The migration {migration.key} did not get its table lock in {LOCK_ATTEMPTS} attempts of "
                    f"{LOCK_TIMEOUT_MS} ms; look for long transactions and run it again."
                ) from error
            _log.warning("migration.lock_timeout", migration=migration.key, attempt=attempt)
        except psycopg.Error as error:
            raise MigrationError(f"The migration {migration.key} failed: {explain(error)}.") from error
        else:
            _log.info("migration.applied", migration=migration.key, adopted=is_there)
            return


async def _record(session: Administration, migration: Migration) -> None:
    await session.rows("record_migration", migration.name, migration.phase, migration.checksum)
