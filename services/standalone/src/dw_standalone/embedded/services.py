"""Both stores together: the ones that were named, and embedded ones for the rest."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from dw_standalone.embedded.carriers import EmbeddedError
from dw_standalone.embedded.postgres import EmbeddedPostgres
from dw_standalone.embedded.valkey import EmbeddedValkey


class EmbeddedServices:
    """A context in which ``database_url`` and ``redis_url`` work.

    URLs given to the constructor are used as they are; for a missing one a server is started. ``data_folder`` keeps
    the database between runs, None means a temporary folder that is removed at the end. ``is_fast`` is for tests: the
    database may be lost when the machine crashes. ``postgres_settings`` are parameters of the Postgres started here, by
    name. Entering raises :class:`EmbeddedError` with one sentence.
    """

    def __init__(
        self,
        data_folder: Path | None,
        *,
        database_url: str | None = None,
        redis_url: str | None = None,
        is_fast: bool = False,
        postgres_settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = data_folder
        self._is_temporary = data_folder is None
        self._is_fast = is_fast
        self._postgres_settings = postgres_settings
        self._lock: int | None = None
        self._postgres: EmbeddedPostgres | None = None
        self._valkey: EmbeddedValkey | None = None
        self._database_url = database_url
        self._redis_url = redis_url

    @property
    def folder(self) -> Path | None:
        """Where data is kept, in a temporary folder too; None when everything is kept elsewhere."""
        return self._folder

    @property
    def database_url(self) -> str:
        """URL of the database; inside the context only."""
        assert self._database_url is not None, "the services are not started"
        return self._database_url

    @property
    def redis_url(self) -> str:
        """URL of Redis or Valkey; inside the context only."""
        assert self._redis_url is not None, "the services are not started"
        return self._redis_url

    def __enter__(self) -> Self:
        try:
            if self._database_url is None or self._redis_url is None:
                self._start_missing(self._prepare_folder())
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ended(self) -> str | None:
        """The name of a server that has ended by itself, or None."""
        if self._postgres is not None and self._postgres.has_ended():
            return "Postgres"
        if self._valkey is not None and self._valkey.has_ended():
            return "Valkey"
        return None

    def stop(self) -> None:
        """End what was started here; a temporary folder is removed."""
        started = [server for server in (self._postgres, self._valkey) if server is not None]
        for server in started:
            server.begin_stop()
        for server in started:
            server.stop()
        self._postgres = self._valkey = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._is_temporary and self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def _start_missing(self, folder: Path) -> None:
        if self._redis_url is None:
            self._valkey = EmbeddedValkey(folder / "valkey")
            self._redis_url = self._valkey.start()
        if self._database_url is None:
            self._postgres = EmbeddedPostgres(
                folder / "postgres", is_fast=self._is_fast, settings=self._postgres_settings
            )
            self._database_url = self._postgres.start()

    def _prepare_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dw-"))
            # Postgres may run as another user, which must pass through; its own folder below stays private.
            self._folder.chmod(0o711)
        folder = self._folder = self._folder.absolute()
        try:
            folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            is_other = isinstance(error, FileExistsError | NotADirectoryError)
            reason = "it, or what it should be in, is not a folder" if is_other else error.strerror
            raise EmbeddedError(
                f"The data folder {folder} cannot be used: {reason}; choose another one with --data-dir."
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedError(
                f"Another dw-server uses the data folder {folder}; stop it or choose another one with --data-dir."
            ) from None
        return folder
