"""The payloads of a process, put together from its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dw_core.limits import Limits
from dw_core.payloads.transport import TransportLimits
from dw_runtime.payloads.disks import Disks, read_disks
from dw_runtime.payloads.service import Payloads
from dw_runtime.settings import Settings
from dw_runtime.store.database import Database
from dw_runtime.store.payloads import PayloadRows
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.telemetry.metrics import Metrics


def build_payloads(
    settings: Settings, database: Database, metrics: Metrics, limits: Limits, new_id: Callable[[], str]
) -> Payloads:
    """Payloads over a database; raises ``SettingsError`` for disks that cannot be read. ``new_id`` draws ULIDs."""
    chosen = settings.external_payloads
    return Payloads(
        PayloadRows(database, expiry_seconds=limits.external_payload_expiry_seconds),
        NamespaceReads(database),
        Disks(
            None if chosen.local_root is None else Path(chosen.local_root),
            read_disks(chosen.disks),
            timeout_seconds=chosen.request_timeout_seconds,
        ),
        metrics,
        limits=TransportLimits(
            payload_bytes_max=limits.external_payload_max_bytes,
            request_timeout_seconds=chosen.request_timeout_seconds,
        ),
        new_id=new_id,
    )
