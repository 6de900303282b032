"""The benchmark measures something; how fast it is, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.results import Results

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "benchmarks", "--in-flight", "2", "--seconds", "1", "--warm-up", "0.2"]
IDLE = ["--idle-polls", "40", "--idle-queues", "4", "--idle-seconds", "1"]


def test_a_short_run_completes_workflows_and_fills_every_row(tmp_path: Path) -> None:
    written = tmp_path / "results.json"
    done = subprocess.run(
        [*COMMAND, *IDLE, "--json", str(written)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    results = msgspec.json.decode(written.read_bytes(), type=Results)

    (load,) = results.loads
    assert load.in_flight == 2
    assert load.workflows > 0
    assert 0 < load.p50_ms <= load.p99_ms
    # start, three polls, three completions; the polls that wait at either end of the window make it inexact
    assert 5 < load.requests_per_workflow < 9
    assert load.commits_per_workflow > 0
    assert load.statements_per_workflow > 0
    assert load.server_cores > 0
    assert load.cpu_ms_per_workflow > 0

    assert results.idle is not None
    assert results.idle.polls == 40
    assert results.idle.polls_ended_early == 0
    assert results.idle.kib_per_poll > 0

    assert {"server", "python", "hypercorn", "postgres", "valkey"} <= results.environment.versions.keys()
    assert results.environment.postgres_settings["synchronous_commit"] == "on"
    assert results.environment.postgres_settings["fsync"] == "on"
    measured = {bar.name for bar in results.bars if bar.measured is not None}
    assert measured == {"idle statements/s", "KiB per held poll"}
    for bar in results.bars:
        assert bar.name in done.stdout
    for heading in ("workflows/s", "p99 ms", "statements", "Postgres", "KiB per poll", "verdict"):
        assert heading in done.stdout


def test_a_worker_that_keeps_a_long_history_reads_its_end_only() -> None:
    command = [sys.executable, "-m", "benchmarks.sticky", "--events", "1000", "--steps", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[-2:]]
    assert [row[:3] for row in rows] == [["1000", "no", "3.0"], ["1000", "yes", "2.0"]]
    assert int(rows[1][3]) < int(rows[0][3])
