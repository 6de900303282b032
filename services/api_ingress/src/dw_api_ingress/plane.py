"""The control plane of one process, composed over a node."""

from __future__ import annotations

from dw_api_ingress.handlers import control_handlers
from dw_runtime.http.call import Handlers
from dw_runtime.node.node import Node, new_id
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.store.reads.runs import RunReads


def control_plane(node: Node) -> Handlers:
    """The handlers of the control plane by route name."""
    return control_handlers(
        runs=RunReads(node.database, stale_after_seconds=node.settings.workers.stale_after_seconds),
        namespaces=NamespaceReads(node.database),
        pump=node.pump,
        limits=node.limits,
        new_id=new_id,
    )
