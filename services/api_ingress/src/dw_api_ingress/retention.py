"""``/api/system/retention``: what has expired, and one pass by hand (control-plane §22)."""

from __future__ import annotations

from typing import Any, Final

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.queries import page_size
from dw_core.protocol.requests_control import RetentionPass
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.retention import RetentionStore

SCAN_LIMIT: Final = 100
"""Runs that one look or pass takes into account (control-plane §22)."""


class RetentionHandlers:
    """Shows and removes the expired runs of a namespace. Open runs are never removed, nor are those not yet expired."""

    def __init__(self, store: RetentionStore, auditor: Auditor) -> None:
        self._store = store
        self._auditor = auditor

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"system_retention": self.status, "system_retention_pass": self.run_pass}

    async def status(self, call: Call) -> Reply:
        """The oldest expired runs."""
        limit = page_size(call.query, default=SCAN_LIMIT, maximum=SCAN_LIMIT, also="limit")
        found = await self._store.expired(call.namespace, limit)
        return Reply(
            {
                "namespace": call.namespace,
                "retention_mode": "closed_run_age",
                "retention_days": found.retention_days,
                "cutoff": found.cutoff,
                "expired_run_count": len(found.run_ids),
                "expired_run_ids": found.run_ids,
                "scan_limit": limit,
                "scan_pressure": len(found.run_ids) >= limit,
            }
        )

    async def run_pass(self, call: Call) -> Reply:
        """Remove expired runs, or those of the named ones that have expired; says of each what became of it."""
        body: RetentionPass = call.body
        limit = body.limit or SCAN_LIMIT
        before = await self._store.expired(call.namespace, limit)
        pruned = await self._store.prune(call.namespace, limit, body.run_ids)
        results: list[dict[str, Any]] = [
            {
                "run_id": run_id,
                "outcome": "pruned",
                "history_events_deleted": events,
                "tasks_deleted": tasks,
                "external_payloads_deleted": 0,
                "deleted": True,
                "reason": None,
            }
            for run_id, events, tasks in pruned
        ]
        gone = {result["run_id"] for result in results}
        removed = {"run_ids": [run_id for run_id, *_ in pruned]}
        await self._auditor.trail.record(self._auditor.requested(call), "accepted", after=removed)
        left = [run_id for run_id in body.run_ids or () if run_id not in gone]
        results += [_skipped(run_id, reason) for run_id, reason in await self._store.reasons(call.namespace, left)]
        return Reply(
            {
                "namespace": call.namespace,
                "retention_days": before.retention_days,
                "cutoff": before.cutoff,
                "processed": len(results),
                "pruned": len(gone),
                "skipped": len(results) - len(gone),
                "failed": 0,
                "results": results,
            }
        )


def _skipped(run_id: str, reason: str) -> dict[str, Any]:
    counts = dict.fromkeys(("history_events_deleted", "tasks_deleted", "external_payloads_deleted"), 0)
    return {"run_id": run_id, "outcome": "skipped", **counts, "deleted": False, "reason": reason}
