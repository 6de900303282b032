"""Reads of namespaces (control-plane §16)."""

from __future__ import annotations

from typing import Any

from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Reply
from dw_runtime.http.gates import namespace_not_found
from dw_runtime.store.reads.namespaces import NamespaceReads
from dw_runtime.store.reads.rows import Namespace


class NamespaceHandlers:
    """Answers reads of namespaces."""

    def __init__(self, namespaces: NamespaceReads) -> None:
        self._namespaces = namespaces

    async def all(self, call: Call) -> Reply:
        """Every namespace, by name."""
        return Reply({"namespaces": [document(namespace) for namespace in await self._namespaces.all()]})

    async def describe(self, call: Call) -> Reply:
        """The namespace of the path; raises ``Problem`` ``namespace_not_found``."""
        name = call.params["namespace"].strip().lower()
        namespace = await self._namespaces.get(name)
        if namespace is None:
            raise namespace_not_found(name)
        return Reply(document(namespace))


def document(namespace: Namespace) -> dict[str, Any]:
    """The namespace object (control-plane §16.1)."""
    return {
        "name": namespace.name,
        "description": namespace.description,
        "retention_days": namespace.retention_days,
        "status": namespace.status,
        "external_payload_storage": namespace.external_payload_storage,
        "created_at": wire_time(namespace.created_at),
        "updated_at": wire_time(namespace.updated_at),
    }
