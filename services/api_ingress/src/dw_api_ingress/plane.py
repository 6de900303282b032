"""The control plane of one process, composed over a node."""

from __future__ import annotations

from collections.abc import Iterator

from dw_api_ingress.activities import ActivityHandlers
from dw_api_ingress.auditing import Auditor
from dw_api_ingress.builds import BuildHandlers
from dw_api_ingress.diagnosis import DebugHandlers
from dw_api_ingress.fleet import FleetHandlers
from dw_api_ingress.handlers import PayloadHandlers, control_handlers
from dw_api_ingress.message_streams import MessageStreamHandlers
from dw_api_ingress.namespaces import namespace_handlers
from dw_api_ingress.observing import ObservationHandlers
from dw_api_ingress.output_streams import OutputStreamHandlers
from dw_api_ingress.passes import PassHandlers
from dw_api_ingress.querying import QueryHandlers
from dw_api_ingress.retention import RetentionHandlers
from dw_api_ingress.schedule_listing import ScheduleListing
from dw_api_ingress.schedules import ScheduleHandlers
from dw_api_ingress.service_calls import ServiceCallHandlers
from dw_api_ingress.service_catalogue import CatalogueHandlers
from dw_api_ingress.service_results import watch_calls
from dw_api_ingress.system import SystemHandlers
from dw_api_ingress.updating import UpdateHandlers, UpdateSettings
from dw_api_ingress.validating import ValidationSettings, Validator
from dw_core.engine.output_streams import OUTPUT_NEWS
from dw_core.engine.update_tasks import caller_key
from dw_core.ids import NewId
from dw_core.limits import UPDATE_WAIT_MAX_SECONDS, Limits
from dw_core.services.wakes import SERVICE_RESULTS
from dw_runtime.asking.queries import Asking
from dw_runtime.asking.watching import Watching
from dw_runtime.http.call import Handlers
from dw_runtime.node.limits import admission_rules
from dw_runtime.node.node import Node, new_id
from dw_runtime.payloads.cleanup import PayloadCleanup
from dw_runtime.pump.fires import FireRunner
from dw_runtime.settings.bridge import read_signature_keys
from dw_runtime.store.audit import AuditTrail
from dw_runtime.store.reads.activities import ActivityReads
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.builds import Builds
from dw_runtime.store.reads.debug import DebugReads
from dw_runtime.store.reads.fleet import FleetReads
from dw_runtime.store.reads.observing import ObservationReads
from dw_runtime.store.reads.passes import PassReads
from dw_runtime.store.reads.probe import PostgresProbe
from dw_runtime.store.reads.retention import RetentionStore
from dw_runtime.store.reads.runs import RunReads
from dw_runtime.store.reads.schedules import ScheduleReads
from dw_runtime.store.reads.streams import StreamReads
from dw_runtime.store.reads.updates import UpdateReads
from dw_runtime.store.reads.visibility import Listing


def control_plane(node: Node, asking: Asking) -> Handlers:
    """The handlers of the control plane by route name; what they need to run joins the node."""
    auditor = Auditor(AuditTrail(node.database), new_id)
    stale_after = node.settings.workers.stale_after_seconds
    runs = RunReads(node.database, stale_after_seconds=stale_after)
    return control_handlers(
        runs=runs,
        listing=Listing(node.database, stale_after_seconds=stale_after),
        attributes=AttributeReads(node.database),
        namespaces=namespace_handlers(node.database, auditor, node.settings),
        auditor=auditor,
        pump=node.pump,
        limits=node.limits,
        new_id=new_id,
        payloads=PayloadHandlers(node.payloads, PayloadCleanup(node.payloads.rows, node.payloads.disks, node.metrics)),
        updates=_updates(node, asking, runs),
        bridge_keys=read_signature_keys(node.settings.bridge.signature_keys),
        families=(
            QueryHandlers(asking, node.metrics).by_route(),
            ActivityHandlers(node.pump, ActivityReads(node.database), new_id).by_route(),
            *_streams(node),
            *schedule_families(
                auditor,
                AttributeReads(node.database),
                FireRunner(node.database, node.pump, node.metrics, new_id),
                ScheduleReads(node.database),
                node.limits,
                new_id,
                holder=node.holder,
            ),
            *_services(node, auditor),
            *_operating(node, auditor, runs),
        ),
    )


def schedule_families(
    auditor: Auditor,
    attributes: AttributeReads,
    runner: FireRunner,
    reads: ScheduleReads,
    limits: Limits,
    new_id: NewId,
    *,
    holder: str,
) -> Iterator[Handlers]:
    """Changes of schedules, which are recorded, and reads of them."""
    changes = ScheduleHandlers(auditor, attributes, runner, limits, new_id, holder=holder)
    yield auditor.recorded(changes.by_route())
    yield ScheduleListing(reads, attributes).by_route()


def _updates(node: Node, asking: Asking, runs: RunReads) -> UpdateHandlers:
    updates = UpdateReads(node.database)
    outcomes = Watching("updates", updates.settled)
    node.join("updates", outcomes)
    node.listen(caller_key(node.holder), outcomes.wake)
    validator = Validator(
        node.database,
        asking.answers,
        node.metrics,
        settings=_validation_settings(node),
        announce=node.announce,
        new_id=new_id,
    )
    settings = _update_settings(node)
    return UpdateHandlers(node.pump, runs, updates, outcomes, validator, node.metrics, settings=settings, new_id=new_id)


def _streams(node: Node) -> Iterator[Handlers]:
    streams = StreamReads(node.database)
    ends = Watching("output-streams", streams.news)
    node.join("output-streams", ends)
    node.listen(OUTPUT_NEWS, ends.wake)
    yield MessageStreamHandlers(node.pump, streams, node.metrics, new_id).by_route()
    yield OutputStreamHandlers(node.pump, streams, ends, node.metrics).by_route()


def _services(node: Node, auditor: Auditor) -> Iterator[Handlers]:
    results = watch_calls(node.database)
    node.join("service-results", results)
    node.listen(SERVICE_RESULTS, results.wake)
    calls = ServiceCallHandlers(node.database, node.pump, results, auditor, announce=node.announce, new_id=new_id)
    yield auditor.recorded(CatalogueHandlers(node.database, auditor, new_id).by_route())
    yield auditor.recorded(calls.by_route())


def _operating(node: Node, auditor: Auditor, runs: RunReads) -> Iterator[Handlers]:
    """What operators look at and do: the fleet, builds, passes, diagnoses, the state of the system."""
    stale_after = node.settings.workers.stale_after_seconds
    late_after = node.settings.recovery.redispatch_after_seconds
    fleet = FleetHandlers(
        FleetReads(node.database, stale_after_seconds=stale_after, late_after_seconds=late_after),
        auditor,
        admission_rules(node.settings),
        node.settings.leases.query_pending_max,
    )
    passes = PassHandlers(
        PassReads(node.database, redispatch_after_seconds=late_after),
        PostgresProbe(node.database, node.settings),
        node.pump,
        auditor,
        node.announce,
    )
    debug = DebugReads(node.database, stale_after_seconds=stale_after)
    system = SystemHandlers(node.database, node.settings, node.limits, node.topology_summary()["matching_role"])
    yield auditor.recorded(fleet.by_route())
    yield auditor.recorded(BuildHandlers(Builds(node.database, stale_after_seconds=stale_after), auditor).by_route())
    yield auditor.recorded(passes.by_route())
    yield auditor.recorded(RetentionHandlers(RetentionStore(node.database), auditor).by_route())
    yield DebugHandlers(runs, debug, fleet).by_route()
    yield ObservationHandlers(runs, debug, ObservationReads(node.database)).by_route()
    yield system.by_route()


def _update_settings(node: Node) -> UpdateSettings:
    return UpdateSettings(
        wait_seconds=node.settings.leases.update_completion_timeout_seconds,
        wait_seconds_max=UPDATE_WAIT_MAX_SECONDS,
        name_bytes_max=node.limits.max_operation_name_length,
        caller=node.holder,
    )


def _validation_settings(node: Node) -> ValidationSettings:
    """A validation is kept for a while after its end, so that a late verdict learns what became of it."""
    leases = node.settings.leases
    seconds = leases.update_validation_timeout_seconds
    return ValidationSettings(
        timeout_seconds=seconds,
        kept_seconds=seconds + leases.update_validation_lease_seconds,
        pending_max=leases.query_pending_max,
        stale_after_seconds=node.settings.workers.stale_after_seconds,
        caller=node.holder,
    )
