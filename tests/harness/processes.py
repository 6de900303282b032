"""Looking at processes and ports from outside."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from dw_standalone.embedded.child import LISTENING


def free_port(count: int = 1) -> int:
    """The first of ``count`` neighbouring TCP ports on 127.0.0.1 that nobody uses at this moment, chosen by chance."""
    while True:
        port = random.SystemRandom().choice(LISTENING)
        if all(_is_free(port + offset) for offset in range(count)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(variable: str, value: str) -> list[int]:
    """Running processes whose environment has ``variable=value``: everything a marked process started."""
    wanted = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environ.split(b"\0") and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found
