"""Namespaces: read, create, change, delete (control-plane §16)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_core.payloads.policy import StorageConfig, StoragePolicy, complaints
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.requests_control import NamespaceCreate
from dw_core.protocol.requests_storage import ExternalStorageSet
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.http.gates import namespace_forbidden, namespace_not_found
from dw_runtime.settings import Settings
from dw_runtime.store.database import Database
from dw_runtime.store.namespaces import NamespacePurge
from dw_runtime.store.reads.namespaces import NamespaceReads, decode_namespace
from dw_runtime.store.reads.rows import Namespace

DELETE_SECONDS: Final = 20.0
"""How long a request removes the content of a namespace itself; the scheduler goes on with what is left."""
RELATION: Final = "workflow_namespaces"


class NamespaceHandlers:
    """Answers requests about namespaces. Other processes learn of a change within half a minute."""

    def __init__(
        self,
        namespaces: NamespaceReads,
        auditor: Auditor,
        purge: NamespacePurge,
        *,
        default_namespace: str,
        retention_days: int,
    ) -> None:
        self._namespaces = namespaces
        self._auditor = auditor
        self._purge = purge
        self._default = default_namespace
        self._retention_days = retention_days

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "namespace_list": self.all,
            "namespace_describe": self.describe,
            "namespace_create": self.create,
            "namespace_update": self.update,
            "namespace_delete": self.delete,
            "namespace_external_storage": self.set_storage,
        }

    async def all(self, call: Call) -> Reply:
        """Every namespace, by name."""
        return Reply(
            {
                "namespaces": [
                    document(namespace)
                    for namespace in await self._namespaces.all()
                    if call.principal.may_use(namespace.name)
                ]
            }
        )

    async def describe(self, call: Call) -> Reply:
        """The namespace of the path; raises ``Problem`` ``namespace_not_found``."""
        name = _named(call)
        namespace = await self._namespaces.get(name)
        if namespace is None:
            raise namespace_not_found(name)
        return Reply(document(namespace))

    async def create(self, call: Call) -> Reply:
        """201 with the namespace; raises ``Problem`` ``namespace_already_exists``."""
        body: NamespaceCreate = call.body
        name = body.name.lower()
        if not call.principal.may_use(name):
            raise namespace_forbidden(call.principal, call.route)
        days = self._retention_days if body.retention_days is None else body.retention_days
        made = await self._change(call, name, "create_namespace", body.description, days)
        if made is None:
            raise Problem("namespace_already_exists", f"Namespace [{name}] exists already.", namespace=name)
        return Reply(document(made), status=201)

    async def update(self, call: Call) -> Reply:
        """The namespace with the members that were sent; raises ``Problem`` ``namespace_not_found``."""
        name = _named(call)
        changed = await self._change(call, name, "update_namespace", msgspec.json.encode(call.body).decode())
        if changed is None:
            raise namespace_not_found(name)
        return Reply(document(changed))

    async def set_storage(self, call: Call) -> Reply:
        """The namespace with the storage policy that was sent; raises ``Problem`` ``namespace_not_found``, ``Invalid``.

        Payloads that are kept already stay where they are and can be read as before.
        """
        name = _named(call)
        body: ExternalStorageSet = call.body
        policy = StoragePolicy(
            driver=body.driver,
            enabled=body.enabled is not False,
            threshold_bytes=body.threshold_bytes,
            config=body.config or StorageConfig(),
        )
        wrong = complaints(policy)
        if wrong:
            raise Invalid(wrong)
        changed = await self._change(call, name, "set_external_storage", msgspec.json.encode(policy).decode())
        if changed is None:
            raise namespace_not_found(name)
        return Reply(document(changed))

    async def delete(self, call: Call) -> Reply:
        """Remove the namespace with all it holds. A deletion that takes long is ``deleting`` and goes on by itself.

        Raises ``Problem`` ``namespace_not_found``, and ``name_reserved`` for the default namespace.
        """
        name = _named(call)
        if name == self._default:
            raise Problem("name_reserved", "The default namespace cannot be deleted.", namespace=name)
        found = await self._auditor.change(call, RELATION, "close_namespace", name, target=name, namespace=name)
        if not found:
            raise namespace_not_found(name)
        is_done, counts = await self._purge.purge(name, seconds=DELETE_SECONDS)
        return Reply({"name": name, "status": "deleted" if is_done else "deleting", "deleted": counts})

    async def _change(self, call: Call, name: str, statement: str, *parameters: object) -> Namespace | None:
        """Run a statement that changes the namespace ``name``, and give back what it has become."""
        about = {"target": name, "namespace": name}
        rows = await self._auditor.change(call, RELATION, statement, name, *parameters, **about)
        return decode_namespace(rows[0][0]) if rows else None


def namespace_handlers(database: Database, auditor: Auditor, settings: Settings) -> NamespaceHandlers:
    """The handlers over a database, as the settings have it."""
    return NamespaceHandlers(
        NamespaceReads(database),
        auditor,
        NamespacePurge(database),
        default_namespace=settings.topology.default_namespace,
        retention_days=settings.retention.history_days,
    )


def _named(call: Call) -> str:
    return call.params["namespace"].strip().lower()


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
