"""A program that holds the embedded servers until it is killed: ``python launcher.py FOLDER``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from dw_standalone.embedded import EmbeddedServices

if __name__ == "__main__":
    with EmbeddedServices(Path(sys.argv[1])) as services:
        print(services.database_url, flush=True)
        signal.pause()
