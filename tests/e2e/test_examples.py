"""The examples, exactly as a newcomer runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.development import running
from tests.harness.processes import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "greeter": "Hello, Ada!\n",
    "schedule": "Report of eu\n" * 3,
    "search": "500 completed\n50 completed\n",
}
"""What each example prints."""


@pytest.mark.parametrize("options", [(), ("--split",)], ids=["standalone", "split"])
def test_every_example_prints_what_it_promises(
    tmp_path: Path, database_url: str, redis_url: str, options: tuple[str, ...]
) -> None:
    with running(tmp_path, *options, environ={"DATABASE_URL": database_url, "REDIS_URL": redis_url}) as dev:
        dev.greeting()
        urls = {"DURABLE_WORKFLOW_SERVER_URL": dev.url(0), "DURABLE_WORKFLOW_WORKER_URL": dev.url(len(options))}
        for name, text in PRINTED.items():
            done = example(name, urls)
            assert (done.returncode, done.stdout) == (0, text), done.stderr
        refused = example("greeter", urls | {"DURABLE_WORKFLOW_AUTH_TOKEN": "other"})
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "DURABLE_WORKFLOW_AUTH_TOKEN" in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_without_a_server_says_what_to_do(name: str) -> None:
    done = example(name, {"DURABLE_WORKFLOW_SERVER_URL": f"http://127.0.0.1:{free_port()}"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "`make dev`" in done.stderr and done.stderr.count("\n") == 1


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTED, "local_server"}


def example(name: str, urls: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DURABLE_WORKFLOW_")}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, env=kept | urls, capture_output=True, text=True, timeout=60, check=False)
