"""``GET /api/system/audit``, and how handlers of configuration record what they do."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from dw_api_ingress.queries import flag, page_size
from dw_core.ids import NewId
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.timestamps import wire_time
from dw_runtime.http.call import Call, Handler, Handlers, Reply
from dw_runtime.http.gates import namespace_forbidden
from dw_runtime.store.audit import AuditEntry, AuditFilter, AuditTrail, Requested, is_entry_id
from dw_runtime.store.database import Row

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1000
OUTCOMES: Final = ("accepted", "rejected")


class Auditor:
    """Records the commands of the control plane that do not go through the pump; that records its own."""

    def __init__(self, trail: AuditTrail, new_id: NewId) -> None:
        self.trail = trail
        self._new_id = new_id

    def requested(self, call: Call, target: str | None = None, namespace: str | None = None) -> Requested:
        """Who has given the command of ``call``; by default it acts on what the path names, or on its namespace."""
        return Requested(
            entry_id=self._new_id(),
            namespace=namespace or call.namespace,
            subject=call.principal.subject,
            role=call.principal.role,
            auth_method=call.principal.method,
            address=call.address,
            request_id=call.request_id,
            command=call.route.name,
            target=target or "/".join(call.params.values()) or call.namespace,
        )

    async def change(
        self,
        call: Call,
        relation: str,
        name: str,
        *parameters: object,
        target: str | None = None,
        namespace: str | None = None,
    ) -> list[Row]:
        """Run the statement ``name``, which changes the table ``relation``, and record the change with it."""
        return await self.trail.rows(relation, self.requested(call, target, namespace), name, *parameters)

    async def admit(self, call: Call, name: str, *parameters: object) -> list[Row]:
        """Run the statement ``name``; that it gave back rows is recorded with it."""
        return await self.trail.admit(self.requested(call), name, *parameters)

    def recorded(self, handlers: Handlers) -> dict[str, Handler]:
        """Handlers whose refusals are recorded as well."""
        return {name: self._recorded(handler) for name, handler in handlers.items()}

    def _recorded(self, handler: Handler) -> Handler:
        async def handle(call: Call) -> Reply:
            if call.route.method == "GET":
                return await handler(call)
            try:
                return await handler(call)
            except Problem as problem:
                await self.trail.record(self.requested(call), "rejected", problem.reason)
                raise

        return handle


class AuditHandlers:
    """Reads the audit trail."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    async def page(self, call: Call) -> Reply:
        """Entries, the newest first, by ``subject``, ``command``, ``target``, ``outcome``, ``since`` and ``until``.

        ``all_namespaces=true`` asks for those of every namespace; a ``target`` is looked for in one namespace only.
        """
        query = call.query
        limit = page_size(query, default=PAGE_SIZE, maximum=PAGE_SIZE_MAX)
        outcome = query.get("outcome") or None
        if outcome is not None and outcome not in OUTCOMES:
            raise Invalid({"outcome": [f"must be one of {', '.join(OUTCOMES)}"]})
        is_everywhere = flag(query, "all_namespaces")
        if is_everywhere and call.principal.namespaces is not None:
            raise namespace_forbidden(call.principal, call.route)
        target = query.get("target") or None
        if is_everywhere and target is not None:
            raise Invalid({"target": ["is looked for in one namespace only"]})
        token = query.get("next_page_token") or None
        if token is not None and not is_entry_id(token):
            raise Invalid({"next_page_token": ["was not issued by this server"]})
        asked = AuditFilter(
            namespace=None if is_everywhere else call.namespace,
            target=target,
            subject=query.get("subject") or None,
            command=query.get("command") or None,
            outcome=outcome,
            since=_moment(query.get("since"), "since"),
            until=_moment(query.get("until"), "until"),
            behind=token,
        )
        found = await self._trail.page(asked, limit + 1)
        more = found[limit - 1].entry_id if len(found) > limit else None
        return Reply({"entries": [document(entry) for entry in found[:limit]], "next_page_token": more})


def document(entry: AuditEntry) -> dict[str, object]:
    """One entry as it is shown."""
    return msgspec.structs.asdict(entry) | {"recorded_at": wire_time(entry.recorded_at)}


def _moment(text: str | None, name: str) -> datetime | None:
    """A moment; raises ``Invalid`` for a text that is no ISO 8601 time with an offset."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid({name: ["must be an ISO 8601 time with an offset"]})
    return moment
