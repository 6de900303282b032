"""The processes under test: Postgres, Valkey and the server in one HTTP process."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.processes import parent_of
from benchmarks.protocol import TOKEN
from dw_runtime.settings import load
from dw_standalone import administration
from dw_standalone.embedded import EmbeddedServices
from dw_standalone.embedded.child import Child, free_port

POSTGRES_SETTINGS: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
}
"""Durable, and sized so that no checkpoint falls into a run of a few minutes."""

HOST: Final = "127.0.0.1"
READY_SECONDS: Final = 30
STOP_SECONDS: Final = 20
PAUSE_SECONDS: Final = 0.05


class BenchmarkError(Exception):
    """The benchmark cannot go on; the message says why in one sentence."""


class Server:
    """The running server: where it answers and its process id."""

    def __init__(self, port: int, child: Child) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._child = child

    @property
    def pid(self) -> int:
        """Process id of the one HTTP process."""
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Return when the readiness probe answers 200; raise :class:`BenchmarkError` when it does not."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if self._child.exit_code() is not None:
                raise BenchmarkError("The server did not start; its last words are above.")
            try:
                get(self.port, "/api/ready")
                return
            except (OSError, http.client.HTTPException, BenchmarkError):
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"The server was not ready within {READY_SECONDS} seconds.") from None
                time.sleep(PAUSE_SECONDS)


@contextmanager
def running_stores() -> Iterator[EmbeddedServices]:
    """A durable Postgres and a Valkey in a temporary folder, with the schema and the default namespace."""
    with EmbeddedServices(None, postgres_settings=POSTGRES_SETTINGS) as services:
        administration.run_migration(services.database_url, "expand")
        administration.run_bootstrap(load({"DATABASE_URL": services.database_url}))
        yield services


@contextmanager
def running_server(
    services: EmbeddedServices, profile: Path | None = None, role: str = "standalone"
) -> Iterator[Server]:
    """The server of a role as a child process, ready to serve; with ``profile`` it runs under cProfile.

    The profile is written when the server ends, at the end of the context.
    """
    port = free_port()
    profiler = ["-m", "cProfile", "-o", str(profile)] if profile else []
    command = [sys.executable, *profiler, "-m", "dw_standalone.cli", role, "--host", HOST, "--port", str(port)]
    child = Child(
        command,
        stop_signal=signal.SIGTERM,
        log=None,
        environ=_environment() | {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url},
        folder=Path.cwd(),
        stop_seconds=STOP_SECONDS,
    )
    try:
        server = Server(port, child)
        server.wait_until_ready()
        yield server
    finally:
        child.stop()


def _environment() -> dict[str, str]:
    """The caller's environment without settings of a server, so that every run measures the defaults."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DW_", "DB_", "REDIS_"))}
    return kept | {
        "DW_SERVER_TOPOLOGY_SHAPE": "standalone_server",
        "DW_AUTH_TOKEN": TOKEN,
        "DW_LOG_LEVEL": "warning",
        "DW_DRAIN_SECONDS": "2",
    }


def get(port: int, path: str) -> bytes:
    """The body of a GET on this machine; raises :class:`BenchmarkError` for a status other than 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise BenchmarkError(f"GET {path} answered {answer.status}.")
        return body
    finally:
        connection.close()


def postmaster_pid(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """The process id of the Postgres behind a connection; it must run on this machine."""
    return parent_of(connection.info.backend_pid)
