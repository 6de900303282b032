"""Runs the load process and frames its measured window with two samples."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from benchmarks.plans import Command, IdleOutcome, IdlePlan, LoadOutcome, LoadPlan, Plan, Ready, Report
from benchmarks.results import IdleResult, LoadResult
from benchmarks.sampling import WAITERS, Probe, Sample
from benchmarks.stack import BenchmarkError, Server

HELD_SECONDS: Final = 20
SETTLE_SECONDS: Final = 11
"""An idle Postgres session reports its last transactions up to 10 s late."""
PAUSE_SECONDS: Final = 0.1


class LoadProcess:
    """The other end of the load process's standard streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, command: Command) -> None:
        """Send a command."""
        self._write(command.encode())

    def send(self, plan: Plan) -> None:
        """Send the plan; the first message."""
        self._write(msgspec.json.encode(plan))

    def hear(self) -> Report:
        """Wait for the next report; raises :class:`BenchmarkError` when the process has ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError("The load process ended early; its last words are above.")
        return msgspec.json.decode(line, type=Report)

    def run_for(self, seconds: float) -> None:
        """Let the load run; raises :class:`BenchmarkError` when the process ends meanwhile."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise BenchmarkError("The load process ended early; its last words are above.")

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError("The load process ended early; its last words are above.") from None


@contextmanager
def load_process(plan: Plan) -> Iterator[LoadProcess]:
    """Start the load process with its plan; yield when the load runs, and end it afterwards."""
    command = [sys.executable, "-m", "benchmarks.load_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            running = LoadProcess(process)
            running.send(plan)
            if not isinstance(running.hear(), Ready):
                raise BenchmarkError("The load process did not say that it is ready.")
            yield running
        finally:
            process.kill()


def measure_load(server: Server, probe: Probe, in_flight: int, warm_up: float, seconds: float) -> LoadResult:
    """Keep ``in_flight`` workflows running for the warm-up and then for the window, both in seconds."""
    plan = LoadPlan(url=server.url, queue=f"benchmark-{in_flight}", in_flight=in_flight)
    with load_process(plan) as load:
        load.run_for(warm_up)
        load.tell("begin")
        before = probe.sample(load.pid)
        load.run_for(seconds)
        after = probe.sample(load.pid)
        load.tell("end")
        outcome = load.hear()
    assert isinstance(outcome, LoadOutcome)
    if not outcome.latencies_ms:
        raise BenchmarkError(f"No workflow completed within {seconds} seconds at {in_flight} in flight.")
    return _load_result(in_flight, outcome, after.since(before))


def _load_result(in_flight: int, outcome: LoadOutcome, spent: Sample) -> LoadResult:
    latencies = sorted(outcome.latencies_ms)
    # The counters and the latencies are framed by two processes, a few ms apart: compare rates, not counts.
    rate = len(latencies) / outcome.seconds
    workflows = rate * spent.at
    ours = spent.client_cpu + spent.server_cpu + spent.postgres_cpu
    return LoadResult(
        in_flight=in_flight,
        seconds=outcome.seconds,
        workflows=len(latencies),
        workflows_per_second=rate,
        p50_ms=_percentile(latencies, 0.50),
        p99_ms=_percentile(latencies, 0.99),
        requests_per_workflow=spent.requests / workflows,
        commits_per_workflow=spent.commits / workflows,
        transactions_per_workflow=spent.transactions / workflows,
        statements_per_workflow=spent.statements / workflows,
        client_cores=spent.client_cpu / spent.at,
        server_cores=spent.server_cpu / spent.at,
        postgres_cores=spent.postgres_cpu / spent.at,
        other_cores=max(0.0, spent.machine_cpu - ours) / spent.at,
        cpu_ms_per_workflow=ours * 1000 / workflows,
    )


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def measure_idle(server: Server, probe: Probe, polls: int, queues: int, seconds: float) -> IdleResult:
    """Hold ``polls`` polls on ``queues`` empty queues and watch for ``seconds``, all within one poll window."""
    measure_load(server, probe, in_flight=4, warm_up=0, seconds=1)  # what is loaded and filled on first use, is now
    empty_kib = probe.resident_kib()
    with load_process(IdlePlan(url=server.url, queue="idle", polls=polls, queues=queues)) as load:
        _wait_until_held(probe, polls)
        load.run_for(min(SETTLE_SECONDS, seconds))
        load.tell("begin")
        before = probe.sample(load.pid)
        load.run_for(seconds)
        after = probe.sample(load.pid)
        full_kib = probe.resident_kib()
        load.tell("end")
        outcome = load.hear()
    assert isinstance(outcome, IdleOutcome)
    spent = after.since(before)
    return IdleResult(
        polls=polls,
        queues=queues,
        seconds=spent.at,
        polls_ended_early=outcome.ended_early,
        statements_per_second=spent.statements / spent.at,
        transactions_per_second=spent.transactions / spent.at,
        kib_per_poll=(full_kib - empty_kib) / polls,
        server_cores=spent.server_cpu / spent.at,
    )


def _wait_until_held(probe: Probe, polls: int) -> None:
    deadline = time.monotonic() + HELD_SECONDS
    while (held := int(probe.metrics()(WAITERS))) != polls:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"The server holds {held} polls instead of {polls} after {HELD_SECONDS} seconds.")
        time.sleep(PAUSE_SECONDS)
