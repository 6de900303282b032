"""Server processes that a test starts, kills, pauses and starts again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.harness.processes import free_port

TOKEN = "chaos-token"
LEASE_SECONDS = 2


class Process:
    """One server process of ``role`` on a port of its own; its output goes to ``log``."""

    def __init__(self, role: str, environ: Mapping[str, str], log: Path) -> None:
        self.role = role
        self.port = free_port()
        self.log = log
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; a running process stays."""
        if self.is_running:
            return
        command = [sys.executable, "-m", "dw_standalone.cli", self.role, "--host", "127.0.0.1"]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port)], env=dict(self._environ), stdout=output, stderr=output
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = 20) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None, "a process that was started"
        return self._process.wait(seconds)


class Cluster:
    """Processes by role name, all on the same stores: ``roles`` may name a role more than once.

    Leases are :data:`LEASE_SECONDS` long. ``environ`` adds settings. Every process is killed at the end.
    """

    def __init__(
        self,
        folder: Path,
        roles: tuple[str, ...],
        *,
        database_url: str,
        redis_url: str | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DW_", "DB_", "REDIS_"))}
        shape = "standalone_server" if "standalone" in roles else "split_control_execution"
        settings = {
            "DATABASE_URL": database_url,
            "DW_AUTH_TOKEN": TOKEN,
            "DW_SERVER_TOPOLOGY_SHAPE": shape,
            "DW_WORKFLOW_TASK_TIMEOUT": str(LEASE_SECONDS),
            "DW_ACTIVITY_TASK_TIMEOUT": str(LEASE_SECONDS),
            "DW_ALLOW_UNSAFE_LIMITS": "true",
            "DW_DRAIN_SECONDS": "5",
            "DW_LOG_LEVEL": "info",
        }
        if redis_url is not None:
            settings["REDIS_URL"] = redis_url
        self.processes = [
            Process(role, kept | settings | dict(environ or {}), folder / f"{number}-{role}.log")
            for number, role in enumerate(roles)
        ]

    def of(self, *roles: str) -> list[Process]:
        """The processes of these roles."""
        return [process for process in self.processes if process.role in roles]

    def logs(self) -> str:
        """Everything that the processes have written."""
        return "\n".join(process.log.read_text(errors="replace") for process in self.processes if process.log.exists())

    def __enter__(self) -> Self:
        for process in self.processes:
            process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.send(signal.SIGCONT)
                process.kill()
