"""A server of either shape and worker programs for it, which a test may kill."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from durable_workflow import Client

from tests.harness.development import running

PROGRAMS = Path(__file__).with_name("programs")
SHAPES = {"standalone": (), "split": ("--split",)}


class RecordingServer(msgspec.Struct, frozen=True):
    """Where the planes answer, and the queue of one test."""

    control_url: str
    worker_url: str
    queue: str

    def client(self) -> Client:
        """A client of the control plane."""
        return Client(self.control_url, token="dev-token")

    async def describe(self, workflow_id: str) -> dict[str, Any]:
        """The whole description of a workflow's current run."""
        return await self.read(f"/workflows/{workflow_id}")

    async def read(self, path: str) -> dict[str, Any]:
        """What the control plane answers to a ``GET`` of this path below ``/api``."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> dict[str, Any]:
        headers = {"Authorization": "Bearer dev-token", "X-Durable-Workflow-Control-Plane-Version": "2"}
        request = urllib.request.Request(f"{self.control_url}/api{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            return msgspec.json.decode(response.read(), type=dict[str, Any])

    async def holds_no_poll(self) -> bool:
        """Whether the server has noticed that its workers are gone."""
        return await asyncio.to_thread(self._held_polls) == 0

    def _held_polls(self) -> float:
        with urllib.request.urlopen(f"{self.worker_url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("dw_poll_waiters{"))

    @contextmanager
    def worker(self, program: str = "recording.py") -> Iterator[subprocess.Popen[bytes]]:
        """A worker program; what is left of it is killed at the end."""
        process = subprocess.Popen([sys.executable, str(PROGRAMS / program), self.worker_url, self.queue])
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def recording_server(folder: Path, shape: str, database_url: str, redis_url: str) -> Iterator[RecordingServer]:
    """A server of this shape."""
    with running(folder, *SHAPES[shape], environ={"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as dev:
        dev.greeting()
        worker_url = dev.url(1) if shape == "split" else dev.url(0)
        yield RecordingServer(dev.url(0), worker_url, f"recording-{uuid.uuid4().hex[:8]}")
