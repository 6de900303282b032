"""Deleting a namespace: its content goes in batches, and can be gone on with by anybody."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import msgspec

from dw_core.limits import RETENTION_EVENTS_MAX
from dw_runtime.store.database import Database
from dw_runtime.store.reads.namespaces import KNOWN_SECONDS

BATCH = 500
EVENTS_BATCH = 5_000
FORGET_SECONDS = int(2 * KNOWN_SECONDS)
"""A process that still knows a deleted namespace may have taken requests for it; after this time none does any more."""

BUSY_SECONDS = 0.05
"""Pause when everything that is left is locked by somebody else."""


class NamespacePurge:
    """Removes the content of namespaces that are being deleted. Several may do so at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, name: str) -> bool:
        """Have a namespace take no more requests; False when there is none of that name."""
        return bool(await self._database.rows("close_namespace", name))

    async def purge(self, name: str, *, seconds: float) -> tuple[bool, Counter[str]]:
        """Remove for at most ``seconds``: whether all has gone, and how many rows of each kind this call has removed.

        Where somebody else removes the last of it, all has gone as well.
        """
        end = time.monotonic() + seconds
        gone: Counter[str] = Counter()
        while time.monotonic() < end:
            runs = await self._database.rows("prune_runs", BATCH, name, None, True, RETENTION_EVENTS_MAX)
            gone["workflow_runs"] += len(runs)
            gone["history_events"] += sum(events for _, events, _ in runs)
            gone["tasks"] += sum(tasks for _, _, tasks in runs)
            calls = await self._database.rows("purge_service_calls", name, BATCH)
            gone["service_calls"] += len(calls)
            events = await self._database.rows("purge_schedule_events", name, EVENTS_BATCH)
            if runs or calls or events:
                continue
            for (counts,) in await self._database.rows("purge_namespace", name):
                gone.update(msgspec.json.decode(counts, type=dict[str, int]))
                return True, gone
            if (await self._database.rows("is_namespace_doomed", name)) == [(False,)]:
                return True, gone
            await asyncio.sleep(BUSY_SECONDS)
        return False, gone

    async def go_on(self, *, seconds: float) -> int:
        """Go on with what others have begun, and forget what has gone; how many namespaces were looked at."""
        found = await self._database.read("list_doomed_namespaces", FORGET_SECONDS)
        for name, status in found:
            if status == "deleted":
                await self._database.rows("reopen_deleted_namespace", name)
            is_done, _ = await self.purge(name, seconds=seconds)
            if is_done and status == "deleted":
                await self._database.rows("forget_namespace", name)
        return len(found)
