"""``python -m benchmarks``: run the cases, print the table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks import profiling
from benchmarks.bars import judge
from benchmarks.driver import measure_idle, measure_load
from benchmarks.machine import Environment, environment
from benchmarks.results import IdleResult, LoadResult, Results
from benchmarks.sampling import Probe
from benchmarks.stack import BenchmarkError, running_server, running_stores
from benchmarks.table import render
from dw_runtime.process import StartupError
from dw_runtime.telemetry.logs import configure_logs
from dw_standalone.embedded import EmbeddedServices

IDLE_SECONDS_MAX = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code is 0 whenever every case could be measured, whatever the bars say."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.idle_seconds > IDLE_SECONDS_MAX:
        parser.error(f"--idle-seconds must be at most {IDLE_SECONDS_MAX}: all of it lies within one poll")
    configure_logs("warning")
    try:
        results = _run(options)
    except (BenchmarkError, StartupError) as error:
        print(f"benchmarks: {error}", file=sys.stderr, flush=True)
        return 1
    print(render(results))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    return 0


def _run(options: argparse.Namespace) -> Results:
    idle: IdleResult | None = None
    with running_stores() as services:
        found, loads = _run_loads(services, options)
        if options.idle_polls:
            _say(f"{options.idle_polls} idle polls for {options.idle_seconds:g} s")
            with running_server(services) as server, Probe(server, services.database_url) as probe:
                idle = measure_idle(server, probe, options.idle_polls, options.idle_queues, options.idle_seconds)
    return Results(environment=found, loads=loads, idle=idle, bars=judge(loads, idle))


def _run_loads(services: EmbeddedServices, options: argparse.Namespace) -> tuple[Environment, list[LoadResult]]:
    with ExitStack() as stack:
        profile: Path | None = None
        if options.profile:
            profile = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "server.profile"
        with running_server(services, profile) as server, Probe(server, services.database_url) as probe:
            found = environment(probe.setting, services.redis_url)
            loads = []
            for in_flight in options.in_flight:
                _say(f"{in_flight} in flight for {options.warm_up:g} + {options.seconds:g} s")
                loads.append(measure_load(server, probe, in_flight, options.warm_up, options.seconds))
        if profile is not None:
            print(profiling.render(profile), end="\n\n")
    return found, loads


def _say(what: str) -> None:
    print(f"benchmarks: {what}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure one no-op workflow with one no-op activity over the HTTP worker protocol.",
    )
    parser.add_argument(
        "--in-flight", type=int, nargs="*", default=[1, 16, 64], metavar="N", help="workflows in flight, by case"
    )
    parser.add_argument("--seconds", type=float, default=8, help="measured window of each case (default: 8)")
    parser.add_argument("--warm-up", type=float, default=2, help="seconds before the window (default: 2)")
    parser.add_argument("--idle-polls", type=int, default=2000, help="held polls of the idle case; 0 leaves it out")
    parser.add_argument("--idle-queues", type=int, default=50, help="queues the idle polls wait on (default: 50)")
    parser.add_argument("--idle-seconds", type=float, default=20, help="window of the idle case (default: 20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to a file")
    parser.add_argument("--profile", action="store_true", help="run the server under cProfile and show where time goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
