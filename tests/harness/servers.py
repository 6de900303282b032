"""Role processes of ``dw-server`` as children of a test."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.processes import free_port
from tests.harness.waiting import wait_until

TOKEN = "test-token"
STOP_SECONDS = 15
OWN_NAMES = ("DB_", "DW_", "REDIS_")


class Server:
    """One process ``dw-server <command>`` on a free port of 127.0.0.1; its log goes to a file below ``folder``."""

    def __init__(self, command: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.command = command
        self.environ = dict(environ)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"{command}-{self.port}.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_NAMES)}
        kept.pop("DATABASE_URL", None)
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dw_standalone.cli", command, "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=folder,
                env={**kept, "DW_AUTH_TOKEN": TOKEN, "DW_LOG_LEVEL": "info", **environ},
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        """What the process has written so far."""
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded body of an unauthenticated ``GET``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def held_polls(self) -> int:
        """How many polls the process holds, by its metrics."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        return int(sum(float(line.split()[-1]) for line in lines if line.startswith("dw_poll_waiters{")))

    async def holds(self, polls: int) -> bool:
        """Whether the process holds exactly this many polls."""
        return await asyncio.to_thread(self.held_polls) == polls

    def wait_until_ready(self) -> None:
        """Return when the process says that it is ready; fail with its log when it ends before that."""
        wait_until(self._is_ready, f"{self.command} is ready", seconds=60)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, f"{self.command} ended with {self.process.returncode}:\n{self.log}"
        try:
            return self.get("/api/ready")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        """End the process without a chance to clean up."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def terminate(self) -> None:
        """Ask the process to end; :meth:`exit_code` waits for it."""
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, seconds: float = STOP_SECONDS) -> int:
        """The exit code of a process that is about to end."""
        return self.process.wait(seconds)


@contextmanager
def serving(folder: Path, environ: Mapping[str, str], *commands: str) -> Iterator[list[Server]]:
    """Run these commands side by side until the end of the context; they are ready when it begins."""
    servers: list[Server] = []
    try:
        for command in commands:
            servers.append(Server(command, folder, environ))
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.terminate()
        for server in servers:
            try:
                server.exit_code()
            except subprocess.TimeoutExpired:
                server.kill()
                raise
