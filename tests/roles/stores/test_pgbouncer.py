"""The roles behind PgBouncer in transaction mode, set up as the guide says (docs/how-to/external-postgres.md)."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.conftest import NewDatabase
from tests.harness.processes import free_port
from tests.harness.servers import serving
from tests.harness.small_load import run_workflows
from tests.harness.waiting import wait_until

SHAPE = {"DW_SERVER_TOPOLOGY_SHAPE": "split_control_execution"}
COMMANDS = ("api-ingress", "matching", "scheduler")

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "external-postgres.md"
NEEDED = (1, 21)
POOL_SIZE = 4


def find_pgbouncer() -> str | None:
    """The program, if there is one that is new enough."""
    path = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"PgBouncer (\d+)\.(\d+)", said)
    return path if version is not None and (int(version[1]), int(version[2])) >= NEEDED else None


PGBOUNCER = find_pgbouncer()


@contextmanager
def pooled_user(database_url: str) -> Iterator[str]:
    """A user of its own with what the guide sets for the user of a pooled server; yields its URL."""
    name = f"pooled_{uuid.uuid4().hex[:8]}"
    (block,) = re.findall(r"```sql\n(ALTER ROLE.*?)```", GUIDE.read_text(), re.DOTALL)
    parts = urlsplit(database_url)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD 'pooled'".encode())
        admin.execute(block.replace("durable_workflow", name).encode())
    try:
        yield parts._replace(netloc=f"{name}:pooled@{parts.hostname}:{parts.port}").geturl()
    finally:
        with psycopg.connect(database_url, autocommit=True) as admin:
            admin.execute(f"DROP OWNED BY {name}".encode())
            admin.execute(f"DROP ROLE {name}".encode())


@contextmanager
def pgbouncer(program: str, database_url: str) -> Iterator[str]:
    """PgBouncer before the database until the end of the context; yields the URL that leads through it."""
    parts, port = urlsplit(database_url), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "users.txt").write_text(f'"{parts.username}" "{parts.password}"\n')
        (folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"* = host={parts.hostname} port={parts.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = plain\nauth_file = {folder}/users.txt\n"
            f"pool_mode = transaction\ndefault_pool_size = {POOL_SIZE}\nmax_client_conn = 200\n"
            "max_prepared_statements = 500\nignore_startup_parameters = options\n"
        )
        command = [program, str(folder / "pgbouncer.ini")]
        if os.geteuid() == 0:  # PgBouncer refuses to run as root.
            command[1:1] = ["--user", pwd.getpwuid(65534).pw_name]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            through = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()

            def takes_connections() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    psycopg.connect(through, connect_timeout=2).close()
                except psycopg.OperationalError:
                    return False
                return True

            wait_until(takes_connections, "PgBouncer takes connections")
            yield through
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(PGBOUNCER is None, reason="there is no PgBouncer 1.21 or newer on this machine")
async def test_the_roles_work_through_a_pooler_with_fewer_connections_than_they_open(
    tmp_path: Path, new_database: NewDatabase, redis_url: str
) -> None:
    assert PGBOUNCER is not None
    with new_database("pooled") as url, pooled_user(url) as own, pgbouncer(PGBOUNCER, own) as through:
        environ = {"DATABASE_URL": through, "REDIS_URL": redis_url, "DW_DB_POOL_SIZE": "10", **SHAPE}
        context = serving(tmp_path, environ, *COMMANDS)
        ingress, matching, _ = await asyncio.to_thread(context.__enter__)
        try:
            await run_workflows(ingress.url, matching.url, 40)
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)
        with psycopg.connect(url) as admin:
            (row,) = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'pooled_%'").fetchall()
        assert row[0] <= POOL_SIZE
