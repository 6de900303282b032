"""Search attributes of a namespace: list, register, delete (control-plane §21)."""

from __future__ import annotations

from typing import Final

from dw_api_ingress.auditing import Auditor
from dw_core.limits import Limits
from dw_core.metadata.attributes import SYSTEM_ATTRIBUTES, WIRE_TYPES
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.requests_control import SearchAttributeCreate
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.attributes import AttributeReads

_SHOWN: Final = {canonical: wire for wire, canonical in WIRE_TYPES.items()}


class SearchAttributeHandlers:
    """Answers requests about search attributes; at most ``limits.max_search_attributes`` per namespace have a type."""

    def __init__(self, attributes: AttributeReads, auditor: Auditor, limits: Limits) -> None:
        self._attributes = attributes
        self._auditor = auditor
        self._limits = limits

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "search_attribute_list": self.all,
            "search_attribute_create": self.register,
            "search_attribute_delete": self.delete,
        }

    async def all(self, call: Call) -> Reply:
        """The attributes that every run has, and the registered ones."""
        custom = await self._attributes.registered(call.namespace)
        return Reply(
            {
                "system_attributes": dict(SYSTEM_ATTRIBUTES),
                "custom_attributes": {name: _SHOWN[type_] for name, type_ in custom.items()},
            }
        )

    async def register(self, call: Call) -> Reply:
        """201 for a new attribute.

        Raises ``Problem`` ``name_reserved``, ``attribute_already_exists`` and ``search_attribute_limit_reached``, and
        ``Invalid`` for another type than that of the values which runs have under this name.
        """
        body: SearchAttributeCreate = call.body
        name, canonical = body.name, WIRE_TYPES[body.type]
        if name in SYSTEM_ATTRIBUTES:
            raise Problem("name_reserved", f"{name} is an attribute that every run has.", name=name)
        most = self._limits.max_search_attributes
        if not await self._auditor.admit(call, "register_attribute", call.namespace, name, canonical, most):
            raise await self._refusal(call.namespace, body)
        return Reply({"name": name, "type": body.type, "outcome": "created"}, status=201)

    async def _refusal(self, namespace: str, body: SearchAttributeCreate) -> Problem:
        known = next((k for k in await self._attributes.all(namespace) if k.name == body.name), None)
        if known is None:
            most = self._limits.max_search_attributes
            message = f"The namespace has {most} search attributes, as many as it may have."
            return Problem("search_attribute_limit_reached", message, limit=most)
        shown = _SHOWN[known.type]
        if known.is_registered:
            message = f"The search attribute {known.name} is registered already."
            return Problem("attribute_already_exists", message, name=known.name, type=shown)
        return Invalid({"type": [f"must be {shown}, because runs have values of that type"]})

    async def delete(self, call: Call) -> Reply:
        """Take the registration back; values stay on their runs, and queries can no longer name them.

        Raises ``Problem`` ``system_attribute`` and ``attribute_not_found``.
        """
        name = call.params["attribute_name"]
        if name in SYSTEM_ATTRIBUTES:
            raise Problem("system_attribute", f"{name} is an attribute that every run has.", name=name)
        if not await self._auditor.admit(call, "forget_attribute", call.namespace, name):
            raise Problem("attribute_not_found", f"The search attribute {name} is not registered.", name=name)
        return Reply({"name": name, "outcome": "deleted"})
