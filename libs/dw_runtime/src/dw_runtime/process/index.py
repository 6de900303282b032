"""Which of the worker processes that share a port this one is: a fact of the process, known from its fork on."""

from __future__ import annotations

_index: int | None = None


def become(index: int) -> None:
    """This process is the ``index``-th (from 0) of those that share a port."""
    global _index
    _index = index


def process_index() -> int | None:
    """The number of this process, None when it has its port to itself."""
    return _index
