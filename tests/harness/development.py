"""``dw-server dev`` as a child process of a test."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.harness.processes import free_port, processes_with

MARK = "DW_TEST_MARK"


class Dev:
    """A running ``dw-server dev`` whose every process carries a mark in its environment.

    It uses three neighbouring free ports from ``port`` on. ``environ`` adds to this process's environment, from which
    the stores are left out.
    """

    def __init__(self, folder: Path, *options: str, environ: Mapping[str, str] | None = None) -> None:
        self.port = free_port(3)
        self.mark = uuid.uuid4().hex
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DB_", "REDIS_"))}
        kept.pop("DATABASE_URL", None)
        command = [sys.executable, "-m", "dw_standalone.cli", "dev", "--port", str(self.port), *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**kept, **(environ or {}), MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def url(self, place: int) -> str:
        """Where the process ``place`` ports above the first one answers."""
        return f"http://127.0.0.1:{self.port + place}"

    def greeting(self) -> str:
        """The block that is printed when everything is ready."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if "/api/workflows" in line:
                return "".join(lines)
        raise AssertionError("dev ended without a greeting: " + "".join(lines))

    def processes(self) -> list[int]:
        """Running processes that this dev started."""
        return processes_with(MARK, self.mark)


@contextmanager
def running(folder: Path, *options: str, environ: Mapping[str, str] | None = None) -> Iterator[Dev]:
    """Run ``dw-server dev`` in ``folder`` until the end of the context."""
    dev = Dev(folder, *options, environ=environ)
    try:
        yield dev
    finally:
        dev.process.terminate()
        dev.process.communicate(timeout=30)
