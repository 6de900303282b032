"""The service catalogue: endpoints, services, operations (control-plane §17.1)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dw_api_ingress.auditing import Auditor
from dw_core.ids import NewId
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.requests_services import CatalogueUpdate, OperationCreate, OperationUpdate
from dw_core.services.documents import catalogue_document
from dw_core.services.policies import policy_errors
from dw_core.services.rows import Endpoint, Operation, Service
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.database import Database, Row

LEVELS = ("endpoint", "service", "operation")
_TYPES: dict[str, type[Endpoint | Operation]] = {"endpoint": Endpoint, "service": Service, "operation": Operation}
_RELATIONS = {"endpoint": "service_endpoint", "service": "service", "operation": "service_operation"}
_TABLES = {
    "endpoint": "workflow_service_endpoints",
    "service": "workflow_services",
    "operation": "workflow_service_operations",
}
_LISTS = {"endpoint": "service_endpoints", "service": "services", "operation": "operations"}
_IN_USE = {
    "endpoint": ("endpoint_has_services", "The endpoint still has services."),
    "service": ("service_has_operations", "The service still has operations."),
    "operation": ("operation_has_service_calls", "The operation has been called."),
}


class CatalogueHandlers:
    """The five routes of each level. Names are compared in lower case."""

    def __init__(self, database: Database, auditor: Auditor, new_id: NewId) -> None:
        self._database = database
        self._auditor = auditor
        self._new_id = new_id

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "service_endpoint_list": self.list_endpoints,
            "service_endpoint_create": self.create_endpoint,
            "service_endpoint_describe": self.describe_endpoint,
            "service_endpoint_update": self.update_endpoint,
            "service_endpoint_delete": self.delete_endpoint,
            "service_list": self.list_services,
            "service_create": self.create_service,
            "service_describe": self.describe_service,
            "service_update": self.update_service,
            "service_delete": self.delete_service,
            "service_operation_list": self.list_operations,
            "service_operation_create": self.create_operation,
            "service_operation_describe": self.describe_operation,
            "service_operation_update": self.update_operation,
            "service_operation_delete": self.delete_operation,
        }

    async def list_endpoints(self, call: Call) -> Reply:
        """The endpoints of the namespace, by name."""
        return await self._list(call, "endpoint")

    async def list_services(self, call: Call) -> Reply:
        """The services of an endpoint, by name."""
        await self._find(call, "endpoint")
        return await self._list(call, "service")

    async def list_operations(self, call: Call) -> Reply:
        """The operations of a service, by name."""
        await self._find(call, "service")
        return await self._list(call, "operation")

    async def describe_endpoint(self, call: Call) -> Reply:
        """One endpoint."""
        return Reply(catalogue_document(await self._find(call, "endpoint")))

    async def describe_service(self, call: Call) -> Reply:
        """One service."""
        return Reply(catalogue_document(await self._find(call, "service")))

    async def describe_operation(self, call: Call) -> Reply:
        """One operation."""
        return Reply(catalogue_document(await self._find(call, "operation")))

    async def create_endpoint(self, call: Call) -> Reply:
        """201 with the endpoint."""
        return await self._create(call, "endpoint", {})

    async def create_service(self, call: Call) -> Reply:
        """201 with the service."""
        endpoint = await self._find(call, "endpoint")
        return await self._create(call, "service", {"endpoint_id": endpoint.id})

    async def create_operation(self, call: Call) -> Reply:
        """201 with the operation; raises ``Invalid`` for an operation without a handler and for wrong policies."""
        body: OperationCreate = call.body
        _check(msgspec.structs.asdict(body))
        service = await self._find(call, "service")
        return await self._create(call, "operation", {"service_id": service.id})

    async def update_endpoint(self, call: Call) -> Reply:
        """The endpoint with the members that were sent."""
        return await self._patch(call, "endpoint")

    async def update_service(self, call: Call) -> Reply:
        """The service with the members that were sent."""
        return await self._patch(call, "service")

    async def update_operation(self, call: Call) -> Reply:
        """The operation with the members that were sent; what results must be a valid operation."""
        body: OperationUpdate = call.body
        if body.operation_name is not UNSET:
            raise Invalid({"operation_name": ["The name of an operation cannot be changed."]})
        found = await self._find(call, "operation")
        assert isinstance(found, Operation)
        sent = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        changed = msgspec.structs.replace(found, **sent)
        _check(msgspec.structs.asdict(changed))
        rows = await self._change(call, "operation", "update", msgspec.json.encode(changed).decode())
        if not rows:
            raise Problem("operation_changed", "The operation has been changed or deleted meanwhile.", retryable=True)
        return Reply(catalogue_document(_decode(rows[0], "operation")))

    async def delete_endpoint(self, call: Call) -> Reply:
        """The outcome; an endpoint with services stays."""
        return await self._delete(call, "endpoint")

    async def delete_service(self, call: Call) -> Reply:
        """The outcome; a service with operations stays."""
        return await self._delete(call, "service")

    async def delete_operation(self, call: Call) -> Reply:
        """The outcome; an operation that has been called stays."""
        return await self._delete(call, "operation")

    async def _list(self, call: Call, level: str) -> Reply:
        names = _names(call, LEVELS[LEVELS.index(level) - 1]) if level != "endpoint" else {}
        rows = await self._database.read(f"list_{_RELATIONS[level]}s", call.namespace, *names.values())
        listed = [catalogue_document(_decode(row, level)) for row in rows]
        return Reply({"namespace": call.namespace, **names, _LISTS[level]: listed})

    async def _find(self, call: Call, level: str) -> Endpoint | Operation:
        """The item that the path names; raises the ``Problem`` of the outermost level that is missing."""
        names = _names(call, level)
        for depth in range(LEVELS.index(level), -1, -1):
            wanted = list(names.values())[: depth + 1]
            statement = f"describe_{_RELATIONS[LEVELS[depth]]}"
            rows = await self._database.read(statement, call.namespace, *wanted)
            if rows and LEVELS[depth] == level:
                return _decode(rows[0], level)
            if rows:
                break
            missing = LEVELS[depth]
        named: dict[str, Any] = dict(list(names.items())[: LEVELS.index(missing) + 1])
        raise Problem(f"{missing}_not_found", f"There is no such {missing}.", namespace=call.namespace, **named)

    async def _create(self, call: Call, level: str, parent: dict[str, Any]) -> Reply:
        field = f"{level}_name"
        body = msgspec.structs.asdict(call.body)
        own = {field: body[field].lower()}
        names = {} if level == "endpoint" else _names(call, LEVELS[LEVELS.index(level) - 1])
        row = body | parent | names | own | {"id": self._new_id(), "namespace": call.namespace}
        rows = await self._change(call, level, "create", msgspec.json.encode(row).decode())
        if not rows:
            message = f"This {level} exists already."
            members: dict[str, Any] = {"namespace": call.namespace, **names, **own}
            raise Problem(f"{level}_already_exists", message, **members)
        return Reply(catalogue_document(_decode(rows[0], level)), status=201)

    async def _change(self, call: Call, level: str, verb: str, *parameters: str) -> list[Row]:
        """Run a statement that changes items of a level, recorded as done to the item."""
        target = "/".join(call.params[name] for name in call.params)
        if verb == "create":
            target = "/".join(part for part in (target, getattr(call.body, f"{level}_name")) if part)
        statement = f"{verb}_{_RELATIONS[level]}"
        return await self._auditor.change(call, _TABLES[level], statement, *parameters, target=target.lower())

    async def _patch(self, call: Call, level: str) -> Reply:
        body: CatalogueUpdate = call.body
        names = _names(call, level)
        patch = msgspec.json.encode(body).decode()
        while not (rows := await self._change(call, level, "update", call.namespace, *names.values(), patch)):
            # Missing, which is told, or made again just now.
            await self._find(call, level)
        return Reply(catalogue_document(_decode(rows[0], level)))

    async def _delete(self, call: Call, level: str) -> Reply:
        names = _names(call, level)
        rows = await self._change(call, level, "delete", call.namespace, *names.values())
        members: dict[str, Any] = {"namespace": call.namespace, **names}
        if not rows:
            found = await self._find(call, level)
            reason, message = _IN_USE[level]
            raise Problem(reason, message, **(members | {f"{level}_id": found.id}))
        return Reply(members | {"outcome": "deleted"})


def _names(call: Call, level: str) -> dict[str, str]:
    """The names of the path down to a level, as the catalogue keeps them."""
    wanted = [f"{known}_name" for known in LEVELS[: LEVELS.index(level) + 1]]
    return {name: call.params[name].strip().lower() for name in wanted}


def _decode(row: Row, level: str) -> Endpoint | Operation:
    return msgspec.json.decode(row[0], type=_TYPES[level])


def _check(members: dict[str, Any]) -> None:
    """Raises ``Invalid`` for what cannot be an operation."""
    errors = policy_errors(members)
    if not members["handler_target_reference"] and not members["handler_binding"]:
        message = "An operation needs a handler_target_reference or a handler_binding."
        errors["handler_target_reference"] = errors["handler_binding"] = [message]
    if errors:
        raise Invalid(errors)
