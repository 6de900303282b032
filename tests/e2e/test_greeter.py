"""The example of the README, exactly as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.development import running

EXAMPLE = Path(__file__).parents[2] / "examples" / "greeter.py"


def test_the_greeter_greets_on_one_port(tmp_path: Path, database_url: str, redis_url: str) -> None:
    with running(tmp_path, environ={"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as dev:
        dev.greeting()
        assert greet({"DURABLE_WORKFLOW_SERVER_URL": dev.url(0)}) == "Hello, Ada!\n"


def test_the_greeter_greets_with_its_planes_apart(tmp_path: Path, database_url: str, redis_url: str) -> None:
    with running(tmp_path, "--split", environ={"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as dev:
        dev.greeting()
        urls = {"DURABLE_WORKFLOW_SERVER_URL": dev.url(0), "DURABLE_WORKFLOW_WORKER_URL": dev.url(1)}
        assert greet(urls) == "Hello, Ada!\n"


def greet(urls: dict[str, str]) -> str:
    """What the example prints; it fails with the example's own words when it does not end well."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=os.environ | urls, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
