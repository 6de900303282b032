"""Counters of the server and of Postgres, read from outside at one moment, and what happened between two moments."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

import msgspec
import psycopg
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.processes import cpu_seconds, machine_cpu_seconds, resident_kib
from benchmarks.stack import Server, get, postmaster_pid

REQUESTS: Final = "dw_http_request_seconds_count"
COMMITS: Final = "dw_store_commits_total"
STATEMENTS: Final = "dw_store_statements_total"
WAITERS: Final = "dw_poll_waiters"

_TRANSACTIONS: Final = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the processes began; times in seconds.

    ``transactions`` is what Postgres counted, reads included; ``commits`` and ``statements`` are the server's own.
    """

    at: float
    requests: float
    commits: float
    statements: float
    transactions: int
    client_cpu: float
    server_cpu: float
    postgres_cpu: float
    machine_cpu: float

    def since(self, earlier: Sample) -> Sample:
        """The differences between two samples."""
        return Sample(**{name: getattr(self, name) - getattr(earlier, name) for name in self.__struct_fields__})


class Probe:
    """Takes samples of one stack. Its own connection works in another database, so its reads are not counted."""

    def __init__(self, server: Server, database_url: str) -> None:
        self._server = server
        parts = urlsplit(database_url)
        self._database = parts.path.removeprefix("/")
        self._postgres = psycopg.connect(urlunsplit(parts._replace(path="/postgres")), autocommit=True)
        self._postmaster = postmaster_pid(self._postgres)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._postgres.close()

    def sample(self, client_pid: int) -> Sample:
        """Read everything now."""
        metrics = self.metrics()
        return Sample(
            at=time.monotonic(),
            requests=metrics(REQUESTS),
            commits=metrics(COMMITS),
            statements=metrics(STATEMENTS),
            transactions=self._transactions(),
            client_cpu=cpu_seconds(client_pid),
            server_cpu=cpu_seconds(self._server.pid),
            postgres_cpu=cpu_seconds(self._postmaster),
            machine_cpu=machine_cpu_seconds(),
        )

    def metrics(self) -> Callable[[str], float]:
        """The server's metrics at this moment, as a function from a name to the sum over its labels."""
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(get(self._server.port, "/metrics").decode()):
            for each in family.samples:
                sums[each.name] = sums.get(each.name, 0.0) + each.value
        return lambda name: sums.get(name, 0.0)

    def resident_kib(self) -> int:
        """Resident memory of the server process."""
        return resident_kib(self._server.pid)

    def setting(self, name: str) -> str:
        """A Postgres setting, as SHOW gives it."""
        row = self._postgres.execute("SELECT current_setting(%s)", (name,)).fetchone()
        assert row is not None
        return str(row[0])

    def _transactions(self) -> int:
        row = self._postgres.execute(_TRANSACTIONS, (self._database,)).fetchone()
        assert row is not None and isinstance(row[0], int)
        return row[0]
