"""One worker process: serve the role's application until told to stop, then end politely."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
from typing import Any, cast

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config

from dw_runtime.process.listen import BACKLOG
from dw_runtime.process.role import Application, Message, Receive, Role, Scope, Send

log = logging.getLogger("dw.process")

KEEP_ALIVE_SECONDS = 75
"""Longer than the gap between two polls of a worker."""
KEEP_ALIVE_REQUESTS = 10**9
SHUTDOWN_SECONDS = 10
CLOSE_SECONDS = 1
COLLECT_AFTER = 50_000
"""New objects between two looks for garbage in cycles, which requests hardly leave: the default of 700 looks at every
request in progress several times per batch, for a tenth of the process's time."""


async def serve(role: Role, listener: socket.socket, drain_seconds: int) -> None:
    """Start the role, serve it on ``listener``, and drain it on SIGTERM or SIGINT.

    Draining takes at most ``drain_seconds`` for held polls and as long again for requests that have begun; what is
    then still running is cut off. A second SIGINT ends the process at once. Errors of the role's startup pass through.
    """
    stop = _stop_on_signals()
    closing = asyncio.Event()
    await role.startup()
    # What start-up has built stays; the collector need not walk it again for every few thousand requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)
    log.info("serving on %s port %d", *listener.getsockname()[:2])
    try:
        requests = Requests(role.app)
        server = asyncio.create_task(
            hypercorn_serve(
                cast(Any, requests), _config(listener, drain_seconds), shutdown_trigger=closing.wait, mode="asgi"
            )
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({server, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not server.done():
            log.info("draining")
            await _drain(role, drain_seconds)
            closing.set()
            await requests.end(drain_seconds)
        await _finish(server)
    finally:
        await _shut_down(role)


async def _shut_down(role: Role) -> None:
    """Raises ``TimeoutError`` when it takes too long, also when it does not hear that it is cut off."""
    shutdown = asyncio.ensure_future(role.shutdown())
    done, _ = await asyncio.wait({shutdown}, timeout=SHUTDOWN_SECONDS)
    if not done:
        shutdown.cancel()
        raise TimeoutError(f"the role did not shut down within {SHUTDOWN_SECONDS} seconds")
    await shutdown


async def _drain(role: Role, seconds: int) -> None:
    try:
        await asyncio.wait_for(role.drain(), seconds)
    except TimeoutError:
        log.warning("held requests did not end within %d seconds", seconds)


async def _finish(server: asyncio.Task[None]) -> None:
    """Wait for the server to close its idle connections; cut off what stays open, and what does not hear of that."""
    done, _ = await asyncio.wait({server}, timeout=CLOSE_SECONDS)
    if done:
        await server
        return
    server.cancel()
    done, _ = await asyncio.wait({server}, timeout=CLOSE_SECONDS)
    if not done or not (server.cancelled() or server.exception() is None):
        log.warning("connections did not close and are left behind")


class Requests:
    """An ASGI application around another one that knows the requests being answered and can end them."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._running: set[asyncio.Task[Any]] = set()
        self._cut_off: set[asyncio.Task[Any]] = set()
        self._none: asyncio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        task = asyncio.current_task()
        assert task is not None, "a request is served in a task"
        self._running.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if task not in self._cut_off:
                raise
            task.uncancel()
        finally:
            self._running.discard(task)
            if self._none is not None and not self._running:
                self._none.set()

    async def end(self, seconds: int) -> None:
        """Return when no request is being answered; requests that take longer than ``seconds`` are cut off."""
        if not self._running:
            return
        self._none = asyncio.Event()
        try:
            await asyncio.wait_for(self._none.wait(), seconds)
        except TimeoutError:
            log.warning("%d requests did not end within %d seconds and are cut off", len(self._running), seconds)
            self._cut_off = set(self._running)
            for task in self._cut_off:
                task.cancel()


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """The role is started and stopped by :func:`serve`, so the server's own lifespan has nothing to do."""
    message: Message = {"type": ""}
    while message["type"] != "lifespan.shutdown":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


def _config(listener: socket.socket, drain_seconds: int) -> Config:
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # Hypercorn closes it
    config.backlog = BACKLOG
    config.keep_alive_max_requests = KEEP_ALIVE_REQUESTS
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.graceful_timeout = drain_seconds + CLOSE_SECONDS
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.loglevel = "WARNING"
    config.include_server_header = False
    return config


def _stop_on_signals() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    interrupts = 0

    def interrupted() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            os._exit(130)
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    return stop
