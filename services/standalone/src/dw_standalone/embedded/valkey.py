"""The embedded Valkey: hints between processes, kept nowhere."""

from __future__ import annotations

import secrets
import signal
import time
from pathlib import Path

import redis

from dw_standalone.embedded.carriers import EmbeddedError, valkey_server
from dw_standalone.embedded.child import Child, free_port

START_SECONDS = 10
PAUSE_SECONDS = 0.01


class EmbeddedValkey:
    """A Valkey server whose log lies in ``folder``; it writes no data to disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: Child | None = None

    def start(self) -> str:
        """Start the server and return its URL; raises :class:`EmbeddedError` when it does not come up."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        binary, port, password = valkey_server(), free_port(), secrets.token_urlsafe(24)
        lines = ("bind 127.0.0.1", f"port {port}", f"requirepass {password}", 'save ""', "appendonly no")
        log = self._folder / "valkey.log"
        log.write_bytes(b"")
        # The configuration goes through standard input, so that the password is in no command line and no file.
        configuration = "\n".join((*lines, f'dir "{self._folder}"', "")).encode()
        try:
            self._child = Child([str(binary), "-"], stop_signal=signal.SIGTERM, log=log, standard_input=configuration)
        except OSError as error:
            raise EmbeddedError(f"The Valkey {binary} cannot be run: {error.strerror}.") from None
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        self._wait_until_ready(url)
        return url

    def begin_stop(self) -> None:
        """Ask the server to end, without waiting."""
        if self._child is not None:
            self._child.begin_stop()

    def stop(self) -> None:
        """End the server."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def has_ended(self) -> bool:
        """Whether a started server has ended by itself."""
        return self._child is not None and self._child.exit_code() is not None

    def _wait_until_ready(self, url: str) -> None:
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        with redis.Redis.from_url(url) as client:
            while time.monotonic() < deadline:
                if self._child.exit_code() is not None:
                    raise EmbeddedError(f"Valkey did not start: {self._child.last_words()}.")
                try:
                    client.ping()
                    return
                except redis.exceptions.ConnectionError:
                    time.sleep(PAUSE_SECONDS)
        self.stop()
        raise EmbeddedError(f"Valkey was not ready within {START_SECONDS} seconds; see {self._folder}/valkey.log.")
