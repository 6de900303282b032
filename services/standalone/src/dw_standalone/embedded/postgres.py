"""The embedded Postgres: one cluster in one folder, reached over 127.0.0.1 with a password."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from dw_standalone.embedded.account import Account, choose_account, readable_bin
from dw_standalone.embedded.carriers import EmbeddedError, postgres_bin
from dw_standalone.embedded.child import Child, free_port

SUPERUSER = "postgres"
DATABASE = "durable_workflow"
START_SECONDS = 30
START_ATTEMPTS = 3
PAUSE_SECONDS = 0.02

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "logging_collector": "off",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "wal_compression": "on",
}
FAST_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""For throw-away data of tests: a crash of the machine may lose or damage it."""


class EmbeddedPostgres:
    """A Postgres server in ``folder``; ``is_fast`` trades durability for speed and is for tests only.

    ``settings`` are server parameters by name; they win over the ones chosen here.
    """

    def __init__(self, folder: Path, *, is_fast: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._cluster = folder / "cluster"
        self._password_file = folder / "password"
        self._settings = SETTINGS | (FAST_SETTINGS if is_fast else {}) | dict(settings or {})
        self._child: Child | None = None

    def start(self) -> str:
        """Create the cluster if there is none, start it, and return the URL of its database.

        Raises :class:`EmbeddedError` when the folder cannot be used or the server does not come up.
        """
        account = choose_account()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        account.take_over(self._folder)
        if not account.can("w", self._folder):
            raise EmbeddedError(
                f"Postgres runs as the user nobody here and cannot reach {self._folder}; choose another folder with "
                "--data-dir."
            )
        binaries = readable_bin(account, postgres_bin())
        if not (self._cluster / "PG_VERSION").exists():
            self._create(account, binaries)
        self._stop_leftover()
        for attempt in range(1, START_ATTEMPTS + 1):
            port = free_port()
            self._child = self._launch(account, binaries, port)
            url = f"postgresql://{SUPERUSER}:{self._password_file.read_text().strip()}@127.0.0.1:{port}"
            if self._wait_until_ready(f"{url}/postgres", attempt):
                return f"{url}/{DATABASE}"
        raise AssertionError("the last attempt returns or raises")

    def begin_stop(self) -> None:
        """Ask the server to end, without waiting."""
        if self._child is not None:
            self._child.begin_stop()

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back and the data is left consistent."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def has_ended(self) -> bool:
        """Whether a started server has ended by itself."""
        return self._child is not None and self._child.exit_code() is not None

    def _create(self, account: Account, binaries: Path) -> None:
        """Make the cluster under a working name first, so that a creation that is interrupted leaves no half of one."""
        making = self._folder / "cluster.making"
        shutil.rmtree(making, ignore_errors=True)
        password = secrets.token_urlsafe(24)
        self._password_file.write_text(f"{password}\n")
        self._password_file.chmod(0o600)
        if account.uid is not None and account.gid is not None:
            os.chown(self._password_file, account.uid, account.gid)
        command = account.command(
            str(binaries / "initdb"),
            *("-D", str(making), "-U", SUPERUSER, "-A", "scram-sha-256", f"--pwfile={self._password_file}"),
            *("-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"),
        )
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd="/", **account.user_arguments()
            )
        except OSError as error:
            raise EmbeddedError(f"The Postgres in {binaries} cannot be run: {error.strerror}.") from None
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1].rstrip(".")
            raise EmbeddedError(f"The data folder {self._cluster} cannot be created: {reason}.")
        making.rename(self._cluster)

    def _launch(self, account: Account, binaries: Path, port: int) -> Child:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = account.command(str(binaries / "postgres"), "-D", str(self._cluster), "-p", str(port), *options)
        log = self._folder / "postgres.log"
        log.write_bytes(b"")
        try:
            return Child(command, stop_signal=signal.SIGINT, log=log, account=account)
        except OSError as error:
            raise EmbeddedError(f"The Postgres in {binaries} cannot be run: {error.strerror}.") from None

    def _wait_until_ready(self, url: str, attempt: int) -> bool:
        """Wait for the server; False when it ended by itself and another attempt may help."""
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._child.exit_code() is not None:
                if attempt < START_ATTEMPTS:
                    time.sleep(PAUSE_SECONDS * 10)  # backends of a killed server may need a moment to go
                    return False
                raise EmbeddedError(f"Postgres did not start in {self._cluster}: {self._child.last_words()}.")
            try:
                with psycopg.connect(url, autocommit=True, connect_timeout=2) as connection:
                    _create_database(connection)
                return True
            except psycopg.OperationalError:
                time.sleep(PAUSE_SECONDS)
        self.stop()
        raise EmbeddedError(f"Postgres was not ready within {START_SECONDS} seconds; see {self._folder}/postgres.log.")

    def _stop_leftover(self) -> None:
        """Deal with the lock file of a server that was not stopped: end it if it runs, else remove the file.

        The caller holds the folder's lock, so no living launcher uses the cluster.
        """
        lock = self._cluster / "postmaster.pid"
        if not lock.exists() or not Path("/proc/self").exists():
            return  # without /proc, Postgres judges its lock file by itself
        pid = int(lock.read_text().split()[0])
        deadline = time.monotonic() + START_SECONDS
        while _is_postmaster_of(pid, self._cluster):
            if time.monotonic() > deadline:
                raise EmbeddedError(f"A Postgres of an earlier run (process {pid}) uses {self._cluster}; end it first.")
            os.kill(pid, signal.SIGINT)
            time.sleep(PAUSE_SECONDS)
        lock.unlink(missing_ok=True)


def _create_database(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
    if found is None:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _is_postmaster_of(pid: int, cluster: Path) -> bool:
    """Whether the process ``pid`` is alive and works in the cluster's folder, as a postmaster does."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == cluster.resolve()
    except OSError:
        return False
