"""``/api/system/external-payload-cleanup``: what nobody uses, and one pass by hand."""

from __future__ import annotations

from typing import Final

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.queries import page_size
from dw_core.protocol.requests_storage import PayloadCleanupPass
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.store.payloads import PayloadRows

SCAN_LIMIT: Final = 100
"""Payloads that one look or pass takes into account unless it says otherwise."""


class PayloadCleanupHandlers:
    """Shows and removes the payloads of a namespace that no run uses."""

    def __init__(self, rows: PayloadRows, cleanup: PayloadCleanup, auditor: Auditor) -> None:
        self._rows = rows
        self._cleanup = cleanup
        self._auditor = auditor

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "system_external_payload_cleanup": self.status,
            "system_external_payload_cleanup_pass": self.run_pass,
        }

    async def status(self, call: Call) -> Reply:
        """The oldest payloads that nobody has used in time."""
        limit = page_size(call.query, default=SCAN_LIMIT, maximum=SCAN_LIMIT, also="limit")
        found = await self._rows.unused(call.namespace, limit)
        return Reply(
            {
                "namespace": call.namespace,
                "expiry_seconds": self._rows.expiry_seconds,
                "unused_payload_count": len(found),
                "unused_payloads": [
                    {
                        "reference_id": payload.reference_id,
                        "size_bytes": payload.size_bytes,
                        "created_at": wire_time(payload.created_at),
                    }
                    for payload in found
                ],
                "scan_limit": limit,
                "scan_pressure": len(found) >= limit,
            }
        )

    async def run_pass(self, call: Call) -> Reply:
        """Remove payloads of the namespace, and objects that no payload of any namespace needs."""
        body: PayloadCleanupPass = call.body
        cleaned = await self._cleanup.pass_once(call.namespace, body.limit or SCAN_LIMIT)
        removed = {"reference_ids": cleaned.reference_ids}
        await self._auditor.trail.record(self._auditor.requested(call), "accepted", after=removed)
        return Reply(
            {
                "namespace": call.namespace,
                "processed": len(cleaned.reference_ids),
                "removed_reference_ids": cleaned.reference_ids,
                "objects_deleted": cleaned.deleted_count,
                "objects_failed": cleaned.failed_count,
            }
        )
