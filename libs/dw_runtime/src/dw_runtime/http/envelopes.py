"""What a plane adds to a JSON object that is already encoded: constant bytes spliced in, nothing decoded twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from dw_core.protocol.versions import CONTROL_PLANE_VERSION, WORKER_PROTOCOL_VERSION
from dw_core.routes.route import Plane
from dw_runtime.http.operations import (
    NAMED_OPERATIONS,
    PROJECTED_FIELDS,
    RESPONSE_SCHEMA,
    RESPONSE_VERSION,
    contract_block,
)

CONTROL_HEADER: Final = (b"x-durable-workflow-control-plane-version", CONTROL_PLANE_VERSION.encode())
WORKER_HEADER: Final = (b"x-durable-workflow-protocol-version", WORKER_PROTOCOL_VERSION.encode())

encode_json: Final = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Envelope(Protocol):
    """Completes an encoded JSON object."""

    def wrap(self, body: bytes, params: Mapping[str, str]) -> bytes: ...


class BareEnvelope:
    """Control routes without an operation, and discovery: the header is all they carry."""

    def wrap(self, body: bytes, params: Mapping[str, str]) -> bytes:
        return body


class WorkerEnvelope:
    """``protocol_version`` and ``server_capabilities`` after the route's own members (worker-plane §1.2)."""

    __slots__ = ("_tail",)

    def __init__(self, capabilities: bytes) -> None:
        self._tail = b'"protocol_version":"%b","server_capabilities":%b}' % (
            WORKER_PROTOCOL_VERSION.encode(),
            capabilities,
        )

    def wrap(self, body: bytes, params: Mapping[str, str]) -> bytes:
        return splice(body, self._tail)


class OperationEnvelope:
    """The nested ``control_plane`` object of one operation (control-plane §6.2)."""

    def __init__(self, operation: str) -> None:
        head = {"schema": RESPONSE_SCHEMA, "version": RESPONSE_VERSION, "operation": operation}
        self._head = b'"control_plane":' + encode_json(head)[:-1]
        self._contract = b',"contract":' + encode_json(contract_block(operation))
        self._name_field = NAMED_OPERATIONS.get(operation)

    def wrap(self, body: bytes, params: Mapping[str, str]) -> bytes:
        members = _members.decode(body)
        parts = [self._head, b',"workflow_id":', _identity("workflow_id", members, params)]
        if self._name_field is not None:
            parts += [b',"operation_name":', _identity(self._name_field, members, params)]
            parts += [b',"operation_name_field":"', self._name_field.encode(), b'"']
        parts.append(self._contract)
        if "run_id" not in members and "run_id" in params:
            parts += [b',"run_id":', encode_json(params["run_id"])]
        for name, value in members.items():
            if name in PROJECTED_FIELDS:
                parts += [b',"', name.encode(), b'":', bytes(value)]
        parts.append(b"}}")
        return splice(body, b"".join(parts))


def splice(body: bytes, tail: bytes) -> bytes:
    """``body`` (an encoded object) with the members in ``tail`` appended; ``tail`` brings the closing brace."""
    assert body[:1] == b"{" and body[-1:] == b"}", "a plane's response is an encoded JSON object"
    return b"{" + tail if body == b"{}" else body[:-1] + b"," + tail


def envelope_for(plane: Plane, operation: str | None, capabilities: bytes) -> Envelope:
    """The envelope of a route of ``plane``; ``capabilities`` is the encoded ``server_capabilities`` object."""
    if plane is Plane.WORKER:
        return WorkerEnvelope(capabilities)
    return BareEnvelope() if operation is None else OperationEnvelope(operation)


def version_header(plane: Plane) -> tuple[bytes, bytes]:
    """The version header of every response of ``plane``; discovery belongs to the control plane here."""
    return WORKER_HEADER if plane is Plane.WORKER else CONTROL_HEADER


def _identity(name: str, members: Mapping[str, msgspec.Raw], params: Mapping[str, str]) -> bytes:
    """The path's value, else the body's, else null."""
    if name in params:
        return encode_json(params[name])
    value: Any = members.get(name)
    return b"null" if value is None else bytes(value)
