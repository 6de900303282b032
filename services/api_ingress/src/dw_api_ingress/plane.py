"""The control plane of one process, composed over a node."""

from __future__ import annotations

from dw_api_ingress.answers import Answers
from dw_api_ingress.handlers import control_handlers
from dw_api_ingress.querying import QueryHandlers, QuerySettings
from dw_api_ingress.service_calls import ServiceCallHandlers
from dw_api_ingress.service_catalogue import CatalogueHandlers
from dw_api_ingress.service_results import ServiceResults
from dw_core.leases.durations import query_lease_seconds
from dw_core.queries.task import answer_key
from dw_core.services.wakes import SERVICE_RESULTS
from dw_runtime.http.call import Handlers
from dw_runtime.node.node import Node, new_id
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.store.reads.queries import QueryReads
from dw_runtime.store.reads.runs import RunReads


def control_plane(node: Node) -> Handlers:
    """The handlers of the control plane by route name; what they need to run joins the node."""
    answers = Answers(node.database)
    node.join("answers", answers)
    node.listen(answer_key(node.holder), answers.wake)
    results = ServiceResults(node.database)
    node.join("service-results", results)
    node.listen(SERVICE_RESULTS, results.wake)
    stale_after = node.settings.workers.stale_after_seconds
    return control_handlers(
        runs=RunReads(node.database, stale_after_seconds=stale_after),
        namespaces=NamespaceReads(node.database),
        pump=node.pump,
        limits=node.limits,
        new_id=new_id,
        queries=QueryHandlers(
            node.database,
            answers,
            QueryReads(node.database, stale_after_seconds=stale_after),
            node.metrics,
            settings=_query_settings(node),
            announce=node.announce,
            new_id=new_id,
        ),
        services=(
            CatalogueHandlers(node.database, new_id),
            ServiceCallHandlers(node.database, node.pump, results, announce=node.announce, new_id=new_id),
        ),
    )


def _query_settings(node: Node) -> QuerySettings:
    """A query is kept at least as long as its lease may last, so that a late report finds it."""
    leases = node.settings.leases
    lease_seconds = query_lease_seconds(leases.query_lease_seconds, leases.query_timeout_seconds)
    return QuerySettings(
        timeout_seconds=leases.query_timeout_seconds,
        kept_seconds=max(leases.query_ttl_seconds, lease_seconds),
        pending_max=leases.query_pending_max,
        name_bytes_max=node.limits.max_operation_name_length,
        caller=node.holder,
    )
