"""Deleting what no run uses any more. Several processes may do so at once."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from dw_runtime.payloads.disks import Disks
from dw_runtime.payloads.errors import NoDriver, StorageAway
from dw_runtime.store.payloads import PayloadRows
from dw_runtime.telemetry.metrics import Metrics

DELETES_AT_ONCE: Final = 8


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass has done: the payloads let go of, and the objects that are gone, and those that could not be deleted.

    ``taken_count`` objects were looked at.
    """

    reference_ids: list[str]
    taken_count: int
    deleted_count: int
    failed_count: int


class PayloadCleanup:
    """Lets go of payloads that nobody uses, then deletes the objects that no payload claims.

    An object is marked before it is deleted, and from then on nobody can keep it: whoever uploads the same bytes just
    then is told to come again. One whose storage is away stays marked, and is tried again later.
    """

    def __init__(self, rows: PayloadRows, disks: Disks, metrics: Metrics) -> None:
        self._rows = rows
        self._disks = disks
        self._metrics = metrics

    async def pass_once(self, namespace: str | None, limit: int) -> Cleaned:
        """Take at most ``limit`` payloads, of one namespace or of all, and as many objects, of whichever."""
        gone = await self._rows.review(namespace, limit)
        taken = await self._rows.doom(limit)
        gate = asyncio.Semaphore(DELETES_AT_ONCE)

        async def delete(uri: str, disk: str | None) -> bool:
            try:
                async with gate:
                    objects, key = self._disks.locate(uri, disk)
                    await objects.delete(key)
            except (NoDriver, StorageAway):
                return False
            return True

        outcomes = await asyncio.gather(*(delete(uri, disk) for uri, disk in taken))
        deleted = [uri for (uri, _), is_deleted in zip(taken, outcomes, strict=True) if is_deleted]
        if deleted:
            await self._rows.forget(deleted)
        self._metrics.payloads_deleted["deleted"].inc(len(deleted))
        self._metrics.payloads_deleted["failed"].inc(len(taken) - len(deleted))
        return Cleaned(
            reference_ids=gone,
            taken_count=len(taken),
            deleted_count=len(deleted),
            failed_count=len(taken) - len(deleted),
        )
