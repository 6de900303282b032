"""A role with one quick route, one held route and a readiness flag, run as a program by the tests.

``python sample_role.py PORT PROCESSES DRAIN_SECONDS`` serves until a signal comes. ``/hold`` answers
``empty`` when the role drains; ``/slow`` answers when a file named by the query exists, as a request that has begun
and must be let finish; ``/deaf`` is never answered, nor does it hear that it is cut off; ``/leftover`` leaves such a
task behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from dw_runtime.process import run
from dw_runtime.process.role import Receive, Scope, Send
from dw_runtime.settings import Settings, load


class SampleRole:
    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.held = 0
        self.left: asyncio.Task[None] | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, body = 200, str(os.getpid())
        match scope["path"]:
            case "/ready":
                status = 503 if self.draining.is_set() else 200
            case "/held":
                body = str(self.held)
            case "/hold":
                self.held += 1
                await self.draining.wait()
                self.held -= 1
                body = "empty"
            case "/deaf":
                await deaf()
            case "/leftover":
                self.left = asyncio.create_task(deaf())
            case "/slow":
                path = Path(scope["query_string"].decode())
                path.with_suffix(".begun").touch()
                while not path.exists():
                    await asyncio.sleep(0.01)
                body = "finished"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body.encode()})

    async def startup(self) -> None:
        print("started", os.getpid(), flush=True)

    async def drain(self) -> None:
        self.draining.set()
        while self.held:
            await asyncio.sleep(0.01)

    async def shutdown(self) -> None:
        print("stopped", os.getpid(), flush=True)


async def deaf() -> None:
    """Never ends, whoever cancels it."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def build(settings: Settings) -> SampleRole:
    return SampleRole()


if __name__ == "__main__":
    environ = {
        "DW_HTTP_HOST": "127.0.0.1",
        "DW_HTTP_PORT": sys.argv[1],
        "DW_PROCESSES": sys.argv[2],
        "DW_DRAIN_SECONDS": sys.argv[3],
    }
    sys.exit(run(build, load(environ)))
