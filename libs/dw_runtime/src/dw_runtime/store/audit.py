"""The audit trail: who has changed what, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from dw_core.ids import ULID_LENGTH, ulid
from dw_runtime.store.database import Database, Row, Session
from dw_runtime.store.encoding import encode_rows

FIRST_ID = ""
LAST_ID = "~"
"""Below and above every entry id."""

CLOCK_TOLERANCE = timedelta(hours=1)
"""An entry id has the time of the process that took the request, which may differ from that of the database."""

_encode = msgspec.json.Encoder().encode


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """A command that somebody has given over HTTP.

    ``entry_id`` is a ULID; ``namespace`` the namespace it is about; ``subject``, ``role`` and ``auth_method`` who has
    given it, ``address`` from where; ``command`` is the name of the route, ``target`` the name of what it acts on.
    """

    entry_id: str
    namespace: str
    subject: str
    role: str
    auth_method: str
    address: str | None
    request_id: str
    command: str
    target: str


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as it is kept; ``before`` and ``after`` are the changed row of a configuration."""

    entry_id: str
    recorded_at: datetime
    namespace: str
    subject: str | None
    role: str | None
    auth_method: str | None
    address: str | None
    request_id: str | None
    command: str
    target: str
    run_id: str | None
    outcome: str
    reason: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are asked for: of one ``namespace`` or of all, recorded from ``since`` on and before ``until``, and
    older than the entry ``behind``."""

    namespace: str | None
    target: str | None = None
    subject: str | None = None
    command: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    behind: str | None = None


_decode = msgspec.json.Decoder(AuditEntry).decode


class AuditTrail:
    """Writes and reads the audit trail."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def change(self, relation: str, requested: Requested) -> AsyncIterator[Session]:
        """A transaction in which every changed row of the table ``relation`` is recorded as what ``requested`` did."""
        async with self._database.transaction() as session:
            about = {"relation": relation} | msgspec.structs.asdict(requested)
            await session.send("begin_audit", _encode(about).decode())
            yield session

    async def rows(self, relation: str, requested: Requested, name: str, *parameters: Any) -> list[Row]:
        """Run one statement that changes ``relation`` and return its rows."""
        async with self.change(relation, requested) as session:
            return await session.rows(name, *parameters)

    async def admit(self, requested: Requested, name: str, *parameters: Any) -> list[Row]:
        """Run one statement and return its rows; that it gave some back is recorded with it."""
        async with self._database.transaction() as session:
            rows = await session.rows(name, *parameters)
            if rows:
                entry = msgspec.structs.asdict(requested) | {"outcome": "accepted"}
                await session.send("record_audit", encode_rows([entry]))
            return rows

    async def admit_in_turn(
        self,
        requested: Requested,
        name: str,
        *parameters: Any,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> list[Row]:
        """Run one statement on the locked namespace, otherwise like ``admit``; record ``before`` and ``after`` too.

        Locking is a statement of its own, because what a statement sees is settled before it waits for a lock.
        """
        async with self._database.transaction() as session:
            await session.rows("lock_namespace", requested.namespace)
            rows = await session.rows(name, *parameters)
            if rows:
                entry = msgspec.structs.asdict(requested)
                entry |= {"outcome": "accepted", "before": before, "after": after}
                await session.send("record_audit", encode_rows([entry]))
            return rows

    async def record(
        self,
        requested: Requested,
        outcome: Literal["accepted", "rejected"],
        reason: str | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        """Record a command that changes no row of a configuration, or one that was refused."""
        entry = msgspec.structs.asdict(requested) | {"outcome": outcome, "reason": reason, "after": after}
        await self._database.rows("record_audit", encode_rows([entry]))

    async def page(self, asked: AuditFilter, limit: int) -> list[AuditEntry]:
        """At most ``limit`` entries, the newest first."""
        first = FIRST_ID if asked.since is None else id_at(asked.since, -CLOCK_TOLERANCE)
        last = LAST_ID if asked.until is None else id_at(asked.until, CLOCK_TOLERANCE)
        bounds = (first, min(last, asked.behind or LAST_ID))
        common = (limit, *bounds, asked.subject, asked.command, asked.outcome, asked.since, asked.until)
        if asked.namespace is None:
            rows = await self._database.read("list_audit", *common)
        elif asked.target is None:
            rows = await self._database.read("list_namespace_audit", *common, asked.namespace)
        else:
            rows = await self._database.read("list_target_audit", *common, asked.namespace, asked.target)
        return [_decode(text) for (text,) in rows]

    async def prune(self, limit: int, days: int) -> int:
        """Remove at most ``limit`` entries older than ``days``; how many have gone."""
        return len(await self._database.rows("prune_audit", limit, days))


def id_at(moment: datetime, tolerance: timedelta) -> str:
    """What every entry id of ``moment``, put off by ``tolerance``, and later is not below."""
    return ulid(max(0, int((moment.timestamp() + tolerance.total_seconds()) * 1000)), bytes(10))


def is_entry_id(text: str) -> bool:
    """Whether a text can be the id of an entry."""
    ulid_part, _, row = text.partition(".")
    return len(ulid_part) == ULID_LENGTH and text.isascii() and ulid_part.isalnum() and (not row or row.isdigit())
