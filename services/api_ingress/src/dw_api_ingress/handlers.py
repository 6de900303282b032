"""The handlers of the control plane by route name; a control route that is not here answers 501."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dw_api_ingress.auditing import AuditHandlers, Auditor
from dw_api_ingress.bridge import BridgeHandlers
from dw_api_ingress.exporting import ExportHandlers
from dw_api_ingress.history import HistoryHandlers, WaitForHistory
from dw_api_ingress.listing import ListingHandlers
from dw_api_ingress.namespaces import NamespaceHandlers
from dw_api_ingress.payload_cleanup import PayloadCleanupHandlers
from dw_api_ingress.run_commands import RunCommandHandlers
from dw_api_ingress.search_attributes import SearchAttributeHandlers
from dw_api_ingress.signaling import SignalHandlers
from dw_api_ingress.starting import StartHandlers
from dw_api_ingress.storage_test import StorageTestHandlers
from dw_api_ingress.updating import UpdateHandlers
from dw_core.ids import NewId
from dw_core.limits import Limits
from dw_runtime.http.call import Handler, Handlers
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.payloads.service import Payloads
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.runs import RunReads
from dw_runtime.store.reads.visibility import Listing


def control_handlers(
    *,
    runs: RunReads,
    listing: Listing,
    attributes: AttributeReads,
    namespaces: NamespaceHandlers,
    auditor: Auditor,
    pump: Pump,
    limits: Limits,
    new_id: NewId,
    payloads: PayloadHandlers,
    updates: UpdateHandlers | None = None,
    bridge_keys: Mapping[str, str] | None = None,
    wait_for_history: WaitForHistory | None = None,
    families: Iterable[Handlers] = (),
) -> Handlers:
    """Handlers of the control plane: what every one has, and the ``families`` of this one.

    ``new_id`` draws ULIDs for runs and commands. ``wait_for_history`` waits for news of a run at most some seconds;
    without it a held history read looks again twice per second. Without ``updates`` webhooks send none.
    """
    start = StartHandlers(pump, attributes, limits, new_id)
    signals = SignalHandlers(pump, runs, limits, new_id)
    reads = ListingHandlers(runs, listing, attributes, payloads.kept)
    handlers: dict[str, Handler] = {
        "bridge_webhook": BridgeHandlers(start, signals, updates, bridge_keys or {}).webhook,
        "workflow_start": start.start,
        "workflow_signal": signals.send,
        "workflow_run_signal": signals.send,
        "workflow_list": reads.page,
        "workflow_runs": reads.runs,
        "workflow_describe": reads.describe,
        "workflow_run_describe": reads.describe,
        "workflow_history": HistoryHandlers(runs, wait_for_history).read,
        "workflow_history_export": ExportHandlers(runs, payloads.kept).export,
        "system_audit": AuditHandlers(auditor.trail).page,
        **RunCommandHandlers(pump, runs, new_id).by_route(),
        **auditor.recorded(namespaces.by_route()),
        **payloads.by_route(auditor),
        **auditor.recorded(SearchAttributeHandlers(attributes, auditor, limits).by_route()),
        **({} if updates is None else updates.by_route()),
    }
    for family in families:
        handlers.update(family)
    return handlers


class PayloadHandlers(msgspec.Struct, frozen=True):
    """The external payloads of a process, and what clears them away."""

    kept: Payloads
    cleanup: PayloadCleanup

    def by_route(self, auditor: Auditor) -> Handlers:
        """The handlers by route name."""
        cleanup = PayloadCleanupHandlers(self.kept.rows, self.cleanup, auditor)
        return auditor.recorded(cleanup.by_route()) | {"storage_test": StorageTestHandlers(self.kept).test}
