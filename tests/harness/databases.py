"""A migrated database for every test process, copied from one template per run."""

from __future__ import annotations

import asyncio
import importlib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from dw_runtime.settings import load

ADVISORY_LOCK = 7_215_003
"""Held while the template is made; any number that other users of the server do not take."""


def sibling(url: str, database: str) -> str:
    """The same server's URL with another database name."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, f"/{database}", parts.query, ""))


@contextmanager
def copied_database(postgres_url: str, run_id: str, process: str) -> Iterator[str]:
    """Yield the URL of a fresh migrated database; it is dropped at the end.

    ``run_id`` names the template that all processes of a run share; ``process`` is unique within the run.
    """
    template, database = template_name(run_id), f"dw_test_{run_id}_{process}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(%s)", (ADVISORY_LOCK,))
        if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (template,)).fetchone() is None:
            _create_template(admin, postgres_url, template)
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(database), sql.Identifier(template))
        )
        admin.execute("SELECT pg_advisory_unlock(%s)", (ADVISORY_LOCK,))
    try:
        yield sibling(postgres_url, database)
    finally:
        drop_database(postgres_url, database)


@contextmanager
def temporary_database(postgres_url: str) -> Iterator[str]:
    """Yield the URL of a new database without tables; it is dropped at the end."""
    name = f"dw_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield sibling(postgres_url, name)
    finally:
        drop_database(postgres_url, name)


@contextmanager
def migrated_database(postgres_url: str) -> Iterator[str]:
    """Yield the URL of a new database with the schema and the default namespace; it is dropped at the end."""
    with temporary_database(postgres_url) as url:
        _prepare_in_thread(url)
        yield url


def template_name(run_id: str) -> str:
    """Name of the migrated template of a run."""
    return f"dw_test_{run_id}_template"


def drop_database(postgres_url: str, database: str) -> None:
    """Drop a database if it exists, with the connections it still has."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))


def _create_template(admin: psycopg.Connection[tuple[object, ...]], postgres_url: str, template: str) -> None:
    """Make the template under a working name first, so that a failed migration leaves no half template."""
    making = f"{template}_making"
    drop_database(postgres_url, making)
    admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(making)))
    _prepare_in_thread(sibling(postgres_url, making))
    admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(making), sql.Identifier(template)))


def _prepare_in_thread(url: str) -> None:
    """In a thread of its own, because the caller may sit below a running event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _prepare(url)).result()


async def _prepare(url: str) -> None:
    await importlib.import_module("dw_runtime.store.migrate").expand(url)
    await importlib.import_module("dw_runtime.store.bootstrap").bootstrap(load({"DATABASE_URL": url}))
