"""Postgres and Redis that take verified TLS with client certificates only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg
import pytest

from tests.conftest import NewDatabase
from tests.harness.certificates import Authority
from tests.harness.servers import Server, serving
from tests.harness.small_load import run_workflows
from tests.harness.tls_proxy import TlsProxy, server_context
from tests.harness.waiting import eventually

SHAPE = {"DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution"}
COMMANDS = ("api-ingress", "matching", "scheduler")


class Secured(msgspec.Struct, frozen=True):
    """What a process is told of stores behind TLS."""

    environ: dict[str, str]
    postgres: TlsProxy
    redis: TlsProxy


@asynccontextmanager
async def secured(folder: Path, database_url: str, redis_url: str) -> AsyncIterator[Secured]:
    """Both stores behind TLS under the name ``localhost``."""
    authority = Authority(folder, "authority")
    context = server_context(authority.sign("stores", "localhost"), authority.file)
    client = authority.sign("dw-server")
    async with AsyncExitStack() as stack:
        proxies = []
        for url, is_postgres in ((database_url, True), (redis_url, False)):
            parts = urlsplit(url)
            assert parts.hostname is not None and parts.port is not None
            proxy = TlsProxy(parts.hostname, parts.port, context, is_postgres=is_postgres)
            proxies.append(await stack.enter_async_context(proxy))
        postgres, redis = proxies
        environ = {
            "DATABASE_URL": _at(database_url, "postgresql", postgres.port),
            "REDIS_URL": _at(redis_url, "rediss", redis.port),
            "DB_SSLMODE": "verify-full",
            **dict.fromkeys(("DB_SSLROOTCERT", "REDIS_SSLROOTCERT"), str(authority.file)),
            **dict.fromkeys(("DB_SSLCERT", "REDIS_SSLCERT"), str(client.certificate)),
            **dict.fromkeys(("DB_SSLKEY", "REDIS_SSLKEY"), str(client.key)),
        }
        yield Secured(environ | SHAPE, postgres, redis)


def _at(url: str, scheme: str, port: int) -> str:
    parts = urlsplit(url)
    credentials, at, _ = parts.netloc.rpartition("@")
    return parts._replace(scheme=scheme, netloc=f"{credentials}{at}localhost:{port}").geturl()


async def test_the_roles_work_over_verified_tls(tmp_path: Path, new_database: NewDatabase, redis_url: str) -> None:
    with new_database("tls") as url:
        async with secured(tmp_path, url, redis_url) as stores:
            context = serving(tmp_path, stores.environ, *COMMANDS)
            ingress, matching, _ = await asyncio.to_thread(context.__enter__)
            try:
                await run_workflows(ingress.url, matching.url, 5)
                status, ready = await asyncio.to_thread(ingress.get, "/api/ready")
                assert (status, ready["status"]) == (200, "ready")
                assert stores.postgres.admitted > 0 and stores.redis.admitted > 0
            finally:
                await asyncio.to_thread(context.__exit__, None, None, None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("another authority", "certificate verify failed"),
        ("another host name", "does not match host name"),
        ("no client certificate", "error connecting"),
    ],
)
async def test_a_store_that_does_not_trust_or_cannot_be_trusted_is_not_used(
    tmp_path: Path, new_database: NewDatabase, redis_url: str, wrong: str, said: str
) -> None:
    with new_database("tls_refused") as url:
        async with secured(tmp_path, url, redis_url) as stores:
            environ = dict(stores.environ)
            if wrong == "another authority":
                environ["DB_SSLROOTCERT"] = str(Authority(tmp_path, "stranger").file)
            elif wrong == "no client certificate":
                del environ["DB_SSLCERT"], environ["DB_SSLKEY"]
            else:
                environ["DATABASE_URL"] = environ["DATABASE_URL"].replace("localhost", "127.0.0.1")
            server = Server("api-ingress", tmp_path, environ)
            try:

                async def says_why() -> bool:
                    assert server.process.poll() is None, server.log
                    return said in server.log

                await eventually(says_why, f"the log says {said}", 30)
                status, body = await asyncio.to_thread(server.get, "/api/ready")
                assert (status, body["checks"]["database"]["status"]) == (503, "unavailable")
            finally:
                server.kill()


async def test_stores_turn_plain_clients_away(tmp_path: Path, database_url: str, redis_url: str) -> None:
    async with secured(tmp_path, database_url, redis_url) as stores:
        plain = stores.environ["DATABASE_URL"] + "?sslmode=disable"
        with pytest.raises(psycopg.OperationalError):
            await psycopg.AsyncConnection.connect(plain)
        assert stores.postgres.admitted == 0
