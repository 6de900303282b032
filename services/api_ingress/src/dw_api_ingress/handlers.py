"""The handlers of the control plane by route name; a control route that is not here answers 501."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dw_api_ingress.activities import ActivityHandlers
from dw_api_ingress.auditing import AuditHandlers, Auditor
from dw_api_ingress.bridge import BridgeHandlers
from dw_api_ingress.builds import BuildHandlers
from dw_api_ingress.diagnosis import DebugHandlers
from dw_api_ingress.exporting import ExportHandlers
from dw_api_ingress.fleet import FleetHandlers
from dw_api_ingress.history import HistoryHandlers, WaitForHistory
from dw_api_ingress.listing import ListingHandlers
from dw_api_ingress.message_streams import MessageStreamHandlers
from dw_api_ingress.namespaces import NamespaceHandlers
from dw_api_ingress.output_streams import OutputStreamHandlers
from dw_api_ingress.passes import PassHandlers
from dw_api_ingress.payload_cleanup import PayloadCleanupHandlers
from dw_api_ingress.querying import QueryHandlers
from dw_api_ingress.retention import RetentionHandlers
from dw_api_ingress.run_commands import RunCommandHandlers
from dw_api_ingress.schedule_listing import ScheduleListing
from dw_api_ingress.schedules import ScheduleHandlers
from dw_api_ingress.search_attributes import SearchAttributeHandlers
from dw_api_ingress.service_calls import ServiceCallHandlers
from dw_api_ingress.service_catalogue import CatalogueHandlers
from dw_api_ingress.signaling import SignalHandlers
from dw_api_ingress.starting import StartHandlers
from dw_api_ingress.storage_test import StorageTestHandlers
from dw_api_ingress.system import SystemHandlers
from dw_api_ingress.updating import UpdateHandlers
from dw_core.ids import NewId
from dw_core.limits import Limits
from dw_runtime.http.call import Handlers
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.payloads.service import Payloads
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.activities import ActivityReads
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.builds import Builds
from dw_runtime.store.reads.retention import RetentionStore
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
    queries: QueryHandlers | None = None,
    services: tuple[CatalogueHandlers, ServiceCallHandlers] | None = None,
    activities: ActivityReads | None = None,
    builds: Builds | None = None,
    fleet: FleetHandlers | None = None,
    system: SystemHandlers | None = None,
    passes: PassHandlers | None = None,
    debug: DebugHandlers | None = None,
    updates: UpdateHandlers | None = None,
    retention: RetentionStore | None = None,
    schedules: tuple[ScheduleHandlers, ScheduleListing] | None = None,
    bridge_keys: Mapping[str, str] | None = None,
    wait_for_history: WaitForHistory | None = None,
    messages: MessageStreamHandlers | None = None,
    outputs: OutputStreamHandlers | None = None,
) -> Handlers:
    """Handlers of the control plane.

    ``new_id`` draws ULIDs for runs and commands. ``wait_for_history`` waits for news of a run at most some seconds;
    without it a held history read looks again twice per second. Without ``queries``, ``activities``, ``builds``,
    ``updates``, ``messages``, ``outputs``, ``schedules`` or ``services`` their routes answer 501.
    """
    start = StartHandlers(pump, attributes, limits, new_id)
    signals = SignalHandlers(pump, runs, limits, new_id)
    reads = ListingHandlers(runs, listing, attributes, payloads.kept)
    history = HistoryHandlers(runs, wait_for_history)
    asking = {} if queries is None else {"workflow_query": queries.current, "workflow_run_query": queries.named_run}
    jobs = {} if activities is None else ActivityHandlers(pump, activities, new_id).by_route()
    rollouts = {} if builds is None else auditor.recorded(BuildHandlers(builds, auditor).by_route())
    updating = {} if updates is None else {"workflow_update": updates.send, "workflow_run_update": updates.send}
    return {
        **asking,
        **({} if services is None else auditor.recorded(_service_handlers(*services))),
        **({} if schedules is None else _schedules(*schedules, auditor)),
        **({} if retention is None else _retention(retention, auditor)),
        **updating,
        **({} if messages is None else messages.by_route()),
        **({} if outputs is None else outputs.by_route()),
        **jobs,
        **rollouts,
        **({} if system is None else system.by_route()),
        **({} if passes is None else auditor.recorded(passes.by_route())),
        **({} if debug is None else {"workflow_debug": debug.diagnose, "workflow_run_debug": debug.diagnose}),
        **({} if fleet is None else auditor.recorded(fleet.by_route())),
        "bridge_webhook": BridgeHandlers(start, signals, updates, bridge_keys or {}).webhook,
        "workflow_start": start.start,
        "workflow_signal": signals.send,
        "workflow_run_signal": signals.send,
        **RunCommandHandlers(pump, runs, new_id).by_route(),
        "workflow_list": reads.page,
        "workflow_runs": reads.runs,
        "workflow_describe": reads.describe,
        "workflow_run_describe": reads.describe,
        "workflow_history": history.read,
        "workflow_history_export": ExportHandlers(runs, payloads.kept).export,
        **auditor.recorded(namespaces.by_route()),
        **payloads.by_route(auditor),
        **auditor.recorded(SearchAttributeHandlers(attributes, auditor, limits).by_route()),
        "system_audit": AuditHandlers(auditor.trail).page,
    }


class PayloadHandlers(msgspec.Struct, frozen=True):
    """The external payloads of a process, and what clears them away."""

    kept: Payloads
    cleanup: PayloadCleanup

    def by_route(self, auditor: Auditor) -> Handlers:
        """The handlers by route name."""
        cleanup = PayloadCleanupHandlers(self.kept.rows, self.cleanup, auditor)
        return auditor.recorded(cleanup.by_route()) | {"storage_test": StorageTestHandlers(self.kept).test}


def _schedules(changes: ScheduleHandlers, reads: ScheduleListing, auditor: Auditor) -> Handlers:
    return {**auditor.recorded(changes.by_route()), **reads.by_route()}


def _service_handlers(catalogue: CatalogueHandlers, calls: ServiceCallHandlers) -> Handlers:
    return {
        "service_endpoint_list": catalogue.list_endpoints,
        "service_endpoint_create": catalogue.create_endpoint,
        "service_endpoint_describe": catalogue.describe_endpoint,
        "service_endpoint_update": catalogue.update_endpoint,
        "service_endpoint_delete": catalogue.delete_endpoint,
        "service_list": catalogue.list_services,
        "service_create": catalogue.create_service,
        "service_describe": catalogue.describe_service,
        "service_update": catalogue.update_service,
        "service_delete": catalogue.delete_service,
        "service_operation_list": catalogue.list_operations,
        "service_operation_create": catalogue.create_operation,
        "service_operation_describe": catalogue.describe_operation,
        "service_operation_update": catalogue.update_operation,
        "service_operation_delete": catalogue.delete_operation,
        "service_operation_execute": calls.execute,
        "service_call_describe": calls.describe,
        "service_call_cancel": calls.cancel,
    }


def _retention(store: RetentionStore, auditor: Auditor) -> Handlers:
    handlers = RetentionHandlers(store, auditor)
    return {"system_retention": handlers.status, "system_retention_pass": handlers.run_pass}
