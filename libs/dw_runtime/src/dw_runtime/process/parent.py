"""Ending together with the parent, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals, parent_pid: int) -> None:
    """Ask the kernel to send this process ``number`` when the parent dies, SIGKILL included (Linux only).

    Call it in the child, after any change of user. The kernel watches the parent's *thread*: children must be started
    by a thread that lives as long as they should. When the parent has died already, the signal is sent at once.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), number)
