"""What a node needs to ask workers, put together once per process."""

from __future__ import annotations

from dw_core.leases.durations import query_lease_seconds
from dw_core.queries.task import answer_key
from dw_runtime.asking.answers import watch_answers
from dw_runtime.asking.queries import Asking, QuerySettings
from dw_runtime.node.node import Node, new_id
from dw_runtime.store.reads.queries import QueryReads


def join_asking(node: Node) -> Asking:
    """The one road of this process to the workers' answers; its watcher joins the node."""
    answers = watch_answers(node.database)
    node.join("answers", answers)
    node.listen(answer_key(node.holder), answers.wake)
    return Asking(
        node.database,
        answers,
        QueryReads(node.database, stale_after_seconds=node.settings.workers.stale_after_seconds),
        settings=_settings(node),
        announce=node.announce,
        new_id=new_id,
    )


def _settings(node: Node) -> QuerySettings:
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
