"""The control plane of one process, composed over a node."""

from __future__ import annotations

from dw_api_ingress.answers import Answers
from dw_api_ingress.handlers import control_handlers
from dw_api_ingress.querying import QueryHandlers, QuerySettings
from dw_core.leases.durations import query_lease_seconds
from dw_core.queries.task import answer_key
from dw_runtime.http.call import Handlers
from dw_runtime.node.node import Loop, Node, new_id
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.store.reads.queries import QueryReads
from dw_runtime.store.reads.runs import RunReads


class ControlPlane:
    """Everything under ``/api`` that applications and operators call, but for the worker plane."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._answers = Answers(node.database)
        node.listen(answer_key(node.holder), self._answers.wake)

    def handlers(self) -> Handlers:
        """The handlers of the plane by route name."""
        node = self._node
        leases, stale_after = node.settings.leases, node.settings.workers.stale_after_seconds
        queries = QueryHandlers(
            node.database,
            self._answers,
            QueryReads(node.database, stale_after_seconds=stale_after),
            node.metrics,
            settings=QuerySettings(
                timeout_seconds=leases.query_timeout_seconds,
                # A worker's late report finds the query as long as its lease may last.
                kept_seconds=max(
                    leases.query_ttl_seconds,
                    query_lease_seconds(leases.query_lease_seconds, leases.query_timeout_seconds),
                ),
                pending_max=leases.query_pending_max,
                name_bytes_max=node.limits.max_operation_name_length,
                caller=node.holder,
            ),
            announce=node.announce,
            new_id=new_id,
        )
        return control_handlers(
            runs=RunReads(node.database, stale_after_seconds=stale_after),
            namespaces=NamespaceReads(node.database),
            pump=node.pump,
            limits=node.limits,
            new_id=new_id,
            queries=queries,
        )

    @property
    def loops(self) -> dict[str, Loop]:
        """The loops that must be running."""
        return {"answers": self._answers}

    def start(self) -> None:
        """Start the loops; the stores are open."""
        self._answers.start()

    async def stop(self) -> None:
        """Stop the loops. No request is running any more."""
        await self._answers.stop()
