"""``dw-server migrate`` as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.harness.databases import temporary_database


@pytest.mark.parametrize("step", ["expand", "status"])
def test_what_a_migration_says_is_json(postgres_url: str, step: str) -> None:
    with temporary_database(postgres_url) as url:
        done = subprocess.run(
            [sys.executable, "-m", "dw_standalone.cli", "migrate", step],
            env=os.environ | {"DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert set(events) == ({"migration.applied"} if step == "expand" else set())
    assert bool(done.stdout) is (step == "status")
