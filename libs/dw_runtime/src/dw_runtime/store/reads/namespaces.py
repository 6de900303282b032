"""Namespaces, and the cached answer to whether one exists."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from dw_runtime.discovery.single_flight import SingleFlight
from dw_runtime.store.database import Database, first
from dw_runtime.store.reads.rows import Namespace

KNOWN_SECONDS = 30.0
UNKNOWN_SECONDS = 1.0
"""A new namespace is served by every process within this time."""
CACHED_MAX = 4096

decode_namespace = msgspec.json.Decoder(Namespace).decode


class NamespaceReads:
    """Reads namespaces."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Namespace]:
        """Every namespace, by name."""
        return [decode_namespace(text) for (text,) in await self._database.read("list_namespaces")]

    async def get(self, name: str) -> Namespace | None:
        """One namespace, or None."""
        row = first(await self._database.read("describe_namespace", name))
        return None if row is None else decode_namespace(row[0])


class NamespaceCache:
    """Answers the namespace gate of the shell: one statement per miss, however many requests wait for it.

    That a namespace exists is remembered for 30 seconds, that it does not for one. ``clock`` gives monotonic seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._answers: OrderedDict[str, SingleFlight[bool]] = OrderedDict()

    async def exists(self, name: str) -> bool:
        """Whether the namespace takes requests. Raises ``psycopg.Error`` when the database cannot be asked."""
        answer = self._answers.get(name)
        if answer is None:
            answer = self._answers[name] = SingleFlight(lambda: self._read(name), UNKNOWN_SECONDS, self._clock)
            if len(self._answers) > CACHED_MAX:
                self._answers.popitem(last=False)
        if answer.value and answer.age_seconds() < KNOWN_SECONDS:
            return True
        self._answers.move_to_end(name)
        return await answer.fresh()

    async def _read(self, name: str) -> bool:
        ((found,),) = await self._database.read("namespace_exists", name)
        return bool(found)
