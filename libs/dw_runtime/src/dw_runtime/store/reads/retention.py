"""Expired runs: which there are, and removing them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import msgspec

from dw_core.protocol.timestamps import wire_time
from dw_runtime.store.database import Database, first


class Expired(msgspec.Struct, frozen=True):
    """The oldest expired runs of a namespace; ``cutoff`` is when a run must have closed to be one."""

    retention_days: int
    cutoff: str
    run_ids: list[str]


class RetentionStore:
    """Reads and removes what a namespace no longer keeps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, namespace: str, limit: int) -> Expired:
        """At most ``limit`` expired runs of an existing namespace, the oldest first."""
        row = first(await self._database.read("find_expired", namespace, limit))
        assert row is not None, "the namespace has been checked before"
        days, cutoff, _, run_ids = row
        assert isinstance(cutoff, datetime)
        return Expired(days, wire_time(cutoff), json.loads(run_ids))

    async def prune(self, namespace: str, limit: int, run_ids: Sequence[str] | None) -> list[tuple[str, int, int]]:
        """Remove expired runs, only those named when there are names: (run id, events, tasks) of each that has gone."""
        named = None if run_ids is None else json.dumps(list(run_ids))
        rows = await self._database.rows("prune_runs", limit, namespace, named, False)
        return [(run_id, events, tasks) for run_id, events, tasks in rows]

    async def reasons(self, namespace: str, run_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Why each of these runs was left alone."""
        if not run_ids:
            return []
        rows = await self._database.read("judge_runs", namespace, json.dumps(list(run_ids)))
        return [(run_id, _reason(*facts)) for run_id, *facts in rows]


def _reason(exists: bool, is_closed: bool, is_expired: bool | None, is_archived: bool) -> str:
    if not exists:
        return "run_not_found"
    if not is_closed:
        return "run_not_terminal"
    if is_archived:
        return "run_archived"
    return "run_busy" if is_expired else "run_not_expired"
