"""What /proc says about a process: its processor time, its memory, its children."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_KIB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
# Positions in /proc/PID/stat, counted after the name in brackets.
_PARENT, _USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM = 1, 11, 12, 13, 14


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, of its children, and of those of its children that have ended."""
    return sum(_own_seconds(each) for each in (pid, *_children(pid)))


def machine_cpu_seconds() -> float:
    """Processor time that anything on the machine has used, since it was started; idle and stolen time left out."""
    user, nice, system, _, _, interrupts, soft_interrupts = Path("/proc/stat").read_text().split()[1:8]
    return sum(int(part) for part in (user, nice, system, interrupts, soft_interrupts)) / _TICKS_PER_SECOND


def resident_kib(pid: int) -> int:
    """Resident memory of one process, in KiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB


def parent_of(pid: int) -> int:
    """The process id of the parent."""
    return int(_stat(pid)[_PARENT])


def _own_seconds(pid: int) -> float:
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended since it was listed, and its parent counts it from now on
    return sum(int(fields[place]) for place in (_USER, _SYSTEM, _CHILD_USER, _CHILD_SYSTEM)) / _TICKS_PER_SECOND


def _children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
