"""The search attributes of a namespace."""

from __future__ import annotations

import msgspec

from dw_runtime.store.database import Database


class KnownAttribute(msgspec.Struct, frozen=True, kw_only=True):
    """A name with its type; one that no operator has registered got it from a workflow."""

    name: str
    type: str
    is_registered: bool


class AttributeReads:
    """Reads the types of search attributes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, namespace: str) -> list[KnownAttribute]:
        """Every name that has a type, in order."""
        rows = await self._database.read("list_attribute_types", namespace)
        return [KnownAttribute(name=name, type=type_, is_registered=registered) for name, type_, registered in rows]

    async def types(self, namespace: str) -> dict[str, str]:
        """The type of every name that has one, registered or not: what a value of it must be."""
        return {known.name: known.type for known in await self.all(namespace)}

    async def registered(self, namespace: str) -> dict[str, str]:
        """The types of registered names: what a query may name."""
        return {known.name: known.type for known in await self.all(namespace) if known.is_registered}
