"""The entry point of every role process: from settings to an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback
from types import FrameType

import uvloop

from dw_runtime.process.codes import EXIT_CONFIG, EXIT_FAILURE, StartupError
from dw_runtime.process.index import become
from dw_runtime.process.listen import bound_port, open_listener, reserve_port
from dw_runtime.process.parent import end_with_parent
from dw_runtime.process.role import Build
from dw_runtime.process.serve import SHUTDOWN_SECONDS, serve
from dw_runtime.settings import Settings, SettingsError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAVE_SECONDS = 2
"""How long what is still running when the role has ended may take to hear that it is cancelled."""


def run(build: Build, settings: Settings) -> int:
    """Run a role on the configured address, with ``settings.http.processes`` worker processes, until told to stop.

    Returns the exit code: 0 after a drain, 78 for an illegal configuration, 1 for anything else that keeps the role
    from starting; the reason is one sentence on standard error.
    """
    http = settings.http
    try:
        if http.processes == 1:
            with open_listener(http.host, http.port) as listener:
                return _serve(build, settings, listener)
        with reserve_port(http.host, http.port) as reserved:
            return WorkerProcesses(settings).run(build, bound_port(reserved))
    except StartupError as error:
        return _refuse(error, EXIT_FAILURE)


def _refuse(error: Exception, code: int) -> int:
    print(f"dw-server: {error}", file=sys.stderr, flush=True)  # noqa: T201 - the sentence an operator reads
    return code


def _leave(code: int) -> None:
    """End although something that was cancelled has not heard of it: the role has finished what it had to."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(build: Build, settings: Settings, listener: socket.socket) -> int:
    async def body() -> None:
        code = EXIT_FAILURE
        try:
            await serve(build(settings), listener, settings.http.drain_seconds)
            code = 0
        finally:
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, _leave, code)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(body())
    except SettingsError as error:
        return _refuse(error, EXIT_CONFIG)
    except StartupError as error:
        return _refuse(error, EXIT_FAILURE)
    return 0


class WorkerProcesses:
    """The parent of several worker processes on one port: it passes signals on, and when one ends all end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pids: set[int] = set()

    def run(self, build: Build, port: int) -> int:
        """Fork the workers and wait for them; return the exit code of the whole."""
        parent_pid = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        for index in range(self._settings.http.processes):
            pid = os.fork()
            if pid == 0:
                become(index)
                self._be_worker(build, port, parent_pid)
            self._pids.add(pid)
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._kill)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        return self._wait()

    def _be_worker(self, build: Build, port: int, parent_pid: int) -> None:
        """The life of a forked worker; it never returns to the caller's frames."""
        code = EXIT_FAILURE
        try:
            end_with_parent(signal.SIGTERM, parent_pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            with open_listener(self._settings.http.host, port, is_shared=True) as listener:
                code = _serve(build, self._settings, listener)
        except BaseException:  # noqa: BLE001 - a forked worker must not return into its parent's frames
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _wait(self) -> int:
        failures = set[int]()
        while self._pids:
            pid, status = os.wait()
            self._pids.discard(pid)
            if code := os.waitstatus_to_exitcode(status):
                failures.add(code)
            self._stop(0, None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if EXIT_CONFIG in failures:
            return EXIT_CONFIG
        return EXIT_FAILURE if failures else 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._send(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, 2 * self._settings.http.drain_seconds + SHUTDOWN_SECONDS)

    def _kill(self, number: int, frame: FrameType | None) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for pid in list(self._pids):
            with contextlib.suppress(ProcessLookupError):  # it may have ended a moment ago
                os.kill(pid, number)
