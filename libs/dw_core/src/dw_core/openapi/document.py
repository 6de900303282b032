"""The OpenAPI 3.1 document, made from the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from dw_core.openapi.answers import statuses_of, successes_of
from dw_core.openapi.parameters import HEADERS, PARAMETERS, QueryParameter
from dw_core.protocol.versions import CONTROL_PLANE_VERSION, WORKER_PROTOCOL_VERSION
from dw_core.routes.route import Plane, Route

SCHEMA_REFERENCE: Final = "#/components/schemas/{name}"
_TAGS: Final = {
    Plane.CONTROL: "Control plane: what applications and operators call.",
    Plane.WORKER: "Worker plane: what workers call.",
    Plane.DISCOVERY: "Discovery: health and what this server can do.",
}
_VERSIONS: Final = {
    Plane.CONTROL: ("X-Durable-Workflow-Control-Plane-Version", CONTROL_PLANE_VERSION),
    Plane.WORKER: ("X-Durable-Workflow-Protocol-Version", WORKER_PROTOCOL_VERSION),
}


def openapi(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """The document of ``routes``; ``version`` is that of the server."""
    routes = list(routes)
    bodies = [route.request for route in routes if route.request is not None]
    _, schemas = msgspec.json.schema_components(bodies, ref_template=SCHEMA_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Durable Workflow server",
            "version": version,
            "summary": f"Worker protocol {WORKER_PROTOCOL_VERSION}, control plane {CONTROL_PLANE_VERSION}.",
            "license": {"name": "See the project"},
        },
        "tags": [{"name": plane.value, "description": text} for plane, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _portable(schemas) | {"Problem": _PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "signature": {"type": "apiKey", "in": "header", "name": "X-Signature"},
            },
        },
    }


_PROBLEM: Final = {
    "type": "object",
    "description": "Why a request was refused; branch on the reason.",
    "properties": {
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    },
    "required": ["reason", "message"],
}


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.plane.value],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.principals:
        operation["security"] = [{"bearer": []}, {"signature": []}]
        operation["x-roles"] = list(route.principals)
    if route.required_roles:
        operation["x-topology-roles"] = list(route.required_roles)
    if route.request is not None:
        reference = SCHEMA_REFERENCE.format(name=route.request.__name__)
        operation["requestBody"] = {
            "required": _has_required_field(route.request),
            "content": {"application/json": {"schema": {"$ref": reference}}},
        }
    elif route.body_media_type != "application/json":
        content = {route.body_media_type: {"schema": {"type": "string", "contentMediaType": route.body_media_type}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _has_required_field(body: type[msgspec.Struct]) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    if route.version_gate and route.plane in _VERSIONS:
        header, version = _VERSIONS[route.plane]
        found.append({"name": header, "in": "header", "required": True, "schema": {"type": "string", "const": version}})
    if route.namespace_gate:
        found.append({"name": "X-Namespace", "in": "header", "schema": {"type": "string", "default": "default"}})
    found += [
        {"name": name, "in": "header", "required": True, "schema": schema}
        for name, schema in HEADERS.get(route.name, ())
    ]
    return found + [_query_parameter(parameter) for parameter in PARAMETERS.get(route.name, ())]


def _query_parameter(parameter: QueryParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.summary,
        "schema": parameter.schema(),
    }


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {_media_type(route): {"schema": {"type": "object"}}}
            if _media_type(route) == "application/json"
            else {_media_type(route): {"schema": {"type": "string"}}},
        }
        for status in successes_of(route)
    }
    for status, reasons in statuses_of(route).items():
        if str(status) in responses:
            continue
        responses[str(status)] = {
            "description": "Refused: " + ", ".join(f"`{reason}`" for reason in reasons),
            "content": {"application/json": {"schema": {"$ref": SCHEMA_REFERENCE.format(name="Problem")}}},
        }
    return responses


def _media_type(route: Route) -> str:
    return route.media_type


def _portable(value: Any) -> Any:
    """Patterns in the dialect that JSON Schema knows: the end of the text is ``$`` there."""
    if isinstance(value, dict):
        return {
            name: member.replace(r"\Z", "$") if name == "pattern" else _portable(member)
            for name, member in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_portable(member) for member in value]
    return value
