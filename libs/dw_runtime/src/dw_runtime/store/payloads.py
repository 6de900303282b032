"""Rows of external payloads: what a namespace keeps, which runs use it, and what nobody needs any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import msgspec

from dw_core.payloads.references import RuntimeReference
from dw_runtime.store.database import Database, first

REVIEW_PAUSE_SECONDS = 60
"""An expired payload stays so much longer, for requests that found it in time and are not done."""
ABANDONED_SECONDS = 600
"""A process that has taken objects to delete them and not done it in this time has died."""


class KeptPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload and where its object lies. One that ``is_expired`` is about to go, and takes no more uses."""

    reference: RuntimeReference
    object_uri: str
    disk: str | None
    is_expired: bool


class KnownPayload(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may name."""

    reference: RuntimeReference
    is_expired: bool


class UnusedPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload that no run uses."""

    reference_id: str
    size_bytes: int
    created_at: datetime


class ObjectBusy(Exception):
    """The object of a payload is just being deleted; a moment later it can be written again."""


class PayloadRows:
    """Reads and writes the rows. ``expiry_seconds`` is how long a payload is kept that nobody uses."""

    def __init__(self, database: Database, *, expiry_seconds: int) -> None:
        self._database = database
        self.expiry_seconds = expiry_seconds

    async def keep(self, namespace: str, offered: RuntimeReference, uri: str, disk: str | None) -> RuntimeReference:
        """Have a namespace keep a payload: the reference offered, or the one it has for the same bytes already.

        Raises :class:`ObjectBusy`.
        """
        async with self._database.transaction() as session:
            row = first(
                await session.rows(
                    "keep_payload",
                    offered.reference_id,
                    namespace,
                    offered.codec,
                    str(offered.size_bytes),
                    offered.sha256,
                    uri,
                    disk,
                )
            )
            if row is None:
                raise ObjectBusy
        return msgspec.structs.replace(offered, reference_id=row[0])

    async def find(self, namespace: str, reference_id: str) -> KeptPayload | None:
        """A payload that a namespace may read, or None."""
        row = first(await self._database.read("find_payload", reference_id, namespace, self.expiry_seconds))
        if row is None:
            return None
        codec, size_bytes, sha256, uri, disk, is_expired = row
        reference = RuntimeReference(reference_id=reference_id, codec=codec, size_bytes=size_bytes, sha256=sha256)
        return KeptPayload(reference=reference, object_uri=uri, disk=disk, is_expired=is_expired is True)

    async def known(self, namespace: str, reference_ids: Sequence[str]) -> dict[str, KnownPayload]:
        """Those of the payloads that a request in this namespace may name, by id; they stay until it is done."""
        rows = await self._database.rows(
            "check_payloads", json.dumps(list(reference_ids)), namespace, self.expiry_seconds
        )
        return {
            reference_id: KnownPayload(
                reference=RuntimeReference(
                    reference_id=reference_id, codec=codec, size_bytes=size_bytes, sha256=sha256
                ),
                is_expired=is_expired,
            )
            for reference_id, codec, size_bytes, sha256, is_expired in rows
        }

    async def unused(self, namespace: str, limit: int) -> list[UnusedPayload]:
        """The oldest payloads of a namespace that nobody uses."""
        rows = await self._database.read("find_unused_payloads", namespace, self.expiry_seconds, limit)
        return [
            UnusedPayload(reference_id=reference_id, size_bytes=size, created_at=at) for reference_id, size, at in rows
        ]

    async def review(self, namespace: str | None, limit: int) -> list[str]:
        """Let go of payloads that nobody uses, of one namespace or of all: the ids of those that have gone."""
        rows = await self._database.rows(
            "review_payloads", namespace, self.expiry_seconds + REVIEW_PAUSE_SECONDS, limit
        )
        return [reference_id for (reference_id,) in rows]

    async def doom(self, limit: int) -> list[tuple[str, str | None]]:
        """Take objects that no payload claims any more, by address and disk; nobody can keep them from then on."""
        rows = await self._database.rows("doom_objects", limit, ABANDONED_SECONDS)
        return [(uri, disk) for uri, disk in rows]

    async def forget(self, uris: Sequence[str]) -> None:
        """Forget objects that have been deleted."""
        await self._database.rows("forget_objects", json.dumps(list(uris)))
