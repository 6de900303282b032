"""The load process: a plan and two commands come in on standard input, reports go out on standard output."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import msgspec

from benchmarks.idle import Idle
from benchmarks.load import Load
from benchmarks.plans import IdlePlan, Plan, Ready, Report
from benchmarks.wire import Refused

PLAN_BYTES_MAX: Final = 64 * 1024


def main() -> int:
    """Run one plan; the exit code is 1, with the reason on standard error, when the server lets the load down."""
    code = 0
    try:
        asyncio.run(_run())
    except* (OSError, Refused) as errors:  # a workflow that takes too long is a TimeoutError, hence an OSError
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        print(f"The load failed: {type(first).__name__} {first}", file=sys.stderr, flush=True)
        code = 1
    return code


async def _run() -> None:
    commands = await _standard_input()
    plan = msgspec.json.decode(await commands.readline(), type=Plan)
    load = Idle(plan) if isinstance(plan, IdlePlan) else Load(plan)
    async with asyncio.TaskGroup() as group:
        await load.open(group)
        _say(Ready())
        await _expect(commands, b"begin\n")
        load.begin()
        await _expect(commands, b"end\n")
        _say(load.end())
        await load.close()


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=PLAN_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _expect(commands: asyncio.StreamReader, command: bytes) -> None:
    line = await commands.readline()
    if line != command:
        raise RuntimeError(f"expected {command!r}, read {line!r}")


def _say(report: Report) -> None:
    print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
