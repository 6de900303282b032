"""One server process that ends with the process that started it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dw_runtime.process.parent import end_with_parent
from dw_standalone.embedded.account import Account

STOP_SECONDS = 2.5
LISTENING: Final = range(10_000, 32_000)
"""Below the ports that the kernel gives to outgoing connections, which would take a chosen one before it is used."""


class Child:
    """A running server. It has a session of its own, so that Ctrl-C reaches it only through :meth:`stop`."""

    def __init__(
        self,
        command: list[str],
        *,
        stop_signal: signal.Signals,
        log: Path | None,
        account: Account | None = None,
        environ: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
        stop_seconds: float = STOP_SECONDS,
        standard_input: bytes = b"",
    ) -> None:
        """Start ``command`` as ``account`` in ``folder``; ``stop_signal`` is its polite end.

        Output is appended to ``log``; without one it goes where this process's output goes.
        """
        self._stop_signal = stop_signal
        self._stop_seconds = stop_seconds
        self._log = log
        parent_pid = os.getpid()
        with log.open("ab") if log else contextlib.nullcontext() as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT if log else None,
                cwd=folder,
                env=environ,
                start_new_session=True,
                preexec_fn=lambda: end_with_parent(stop_signal, parent_pid),
                **(account.user_arguments() if account else {}),
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:  # its exit code tells of an early end
            pipe.write(standard_input)

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """The exit code when the server has ended, else None."""
        return self._process.poll()

    def begin_stop(self) -> None:
        """Ask the server to end, without waiting."""
        if self._process.poll() is None:
            self._process.send_signal(self._stop_signal)

    def stop(self) -> None:
        """Ask the server to end and wait; it is killed when it takes longer than ``stop_seconds``."""
        self.begin_stop()
        try:
            self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line that looks like an error in the log, for a message in one sentence."""
        assert self._log is not None
        lines = self._log.read_text(errors="replace").splitlines()
        telling = [line for line in lines if any(mark in line for mark in ("FATAL", "PANIC", "rror", "ould not"))]
        return (telling or lines or ["no output"])[-1].strip().rstrip(".")


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody uses at this moment, chosen by chance."""
    while True:
        port = random.SystemRandom().choice(LISTENING)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
