"""The check of references that stands before every handler.

A handler that meets a reference may rely on it: the namespace may read the payload, and size and SHA-256 are those of
the bytes. Where the server keeps more than a run keeps, or has to read the payload itself, the bytes take the place of
the reference, so that what is kept does not depend on a payload that goes with the last run that uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dw_core.payloads.envelope import is_envelope
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.policy import Place
from dw_core.payloads.references import (
    RUNTIME,
    STORAGE,
    Reference,
    RuntimeReference,
    StorageReference,
    read_reference,
    stored,
)
from dw_core.protocol.problems import Problem
from dw_core.routes.route import Plane, Route
from dw_runtime.payloads.errors import NoDriver, ObjectAltered, ObjectMissing, StorageAway
from dw_runtime.payloads.service import Payloads

REFERENCES_MAX: Final = 1000
"""References of one request."""

INLINED_ROUTES: Final = frozenset(
    {
        "activity_task_heartbeat",
        "message_stream_append",
        "schedule_create",
        "schedule_update",
        "service_operation_execute",
    }
)
"""Routes whose payloads the server keeps on its own account or reads itself."""

INLINED_COMMANDS: Final = frozenset({"upsert_memo", "start_service_operation"})
"""Commands of a workflow task for which the same holds."""

_HINTS: Final = (f'"{RUNTIME}"'.encode(), f'"{STORAGE}"'.encode(), b"\\u00")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _Found(msgspec.Struct):
    """An envelope with a reference in the body of a request, and whether its bytes are to take its place."""

    envelope: dict[str, Any]
    reference: Reference
    is_inlined: bool


class ReferenceCheck:
    """Checks the references of requests; ``inlined_bytes_max`` bounds what takes their place in one request."""

    def __init__(self, payloads: Payloads, *, inlined_bytes_max: int) -> None:
        self._payloads = payloads
        self._inlined_bytes_max = inlined_bytes_max

    async def __call__(self, route: Route, params: Mapping[str, str], namespace: str, raw: bytes) -> bytes | None:
        """Check every reference of a body. Without any, nothing is decoded.

        ``params`` are those of the path; a worker is told of its task that nothing has been recorded.

        Raises ``Problem`` ``external_payload_unsupported``, ``external_payload_not_found``,
        ``external_payload_expired``, ``external_payload_integrity_mismatch``, ``external_payload_integrity_failed``,
        ``external_payload_oversized`` or ``external_payload_storage_unavailable``.
        """
        # An escape may spell the name of a member in another way.
        if not any(hint in raw for hint in _HINTS):
            return None
        try:
            return await self._checked(route, namespace, raw)
        except Problem as problem:
            if route.plane is Plane.WORKER:
                problem.fields |= {"task_id": params.get("task_id"), "outcome": "rejected", "recorded": False}
            raise

    async def _checked(self, route: Route, namespace: str, raw: bytes) -> bytes | None:
        try:
            body = _decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # A decoder that knows the members of a request passes over the others without reading them.
            raise Problem("malformed_json", "The request body is not valid JSON.", json_error=str(error)) from error
        found = list(_find(body, is_inlined=route.name in INLINED_ROUTES))
        if not found:
            return None
        if len(found) > REFERENCES_MAX:
            raise Problem("external_payload_unsupported", f"A request has at most {REFERENCES_MAX} references.")
        await self._check_kept(namespace, [one.reference for one in found])
        await self._check_direct(namespace, [one for one in found if not one.is_inlined])
        return await self._inline(namespace, body, [one for one in found if one.is_inlined])

    async def _check_kept(self, namespace: str, references: list[Reference]) -> None:
        named = [reference for reference in references if isinstance(reference, RuntimeReference)]
        if not named:
            return
        known = await self._payloads.rows.known(namespace, sorted({one.reference_id for one in named}))
        for reference in named:
            at: dict[str, Any] = {"reference_id": reference.reference_id}
            kept = known.get(reference.reference_id)
            if kept is None:
                raise Problem("external_payload_not_found", "The namespace keeps no such payload.", **at)
            if kept.is_expired:
                raise Problem("external_payload_expired", "The payload was not used in time and has expired.", **at)
            if kept.reference != reference:
                message = "The reference does not describe the payload that is kept."
                raise Problem("external_payload_integrity_mismatch", message, **at)

    async def _check_direct(self, namespace: str, found: list[_Found]) -> None:
        direct = {one.reference for one in found if isinstance(one.reference, StorageReference)}
        if not direct:
            return
        place = await self._place(namespace)
        for reference in direct:
            at: dict[str, Any] = {"reference_uri": reference.uri}
            try:
                await self._payloads.read_direct(place, reference)
            except NoDriver as error:
                raise Problem("external_payload_unsupported", str(error), **at) from error
            except ObjectMissing as error:
                raise Problem("external_payload_not_found", "There is no object at the address.", **at) from error
            except ObjectAltered as error:
                raise Problem("external_payload_integrity_failed", str(error), **at) from error
            except StorageAway as error:
                message = "The payload storage is not available; retry."
                raise Problem("external_payload_storage_unavailable", message, retryable=True, **at) from error

    async def _place(self, namespace: str) -> Place:
        try:
            return await self._payloads.place(namespace)
        except NoDriver as error:
            raise Problem("external_payload_unsupported", str(error)) from error

    async def _inline(self, namespace: str, body: Any, found: list[_Found]) -> bytes | None:
        if not found:
            return None
        if sum(one.reference.size_bytes for one in found) > self._inlined_bytes_max:
            message = f"At most {self._inlined_bytes_max} bytes of payload are taken here."
            raise Problem("external_payload_oversized", message, limit=self._inlined_bytes_max)
        for one in found:
            blob = await self._payloads.load(namespace, stored(one.reference))
            one.envelope.clear()
            one.envelope.update(codec="avro", blob=blob)
        return _encode(body)


def _find(value: Any, *, is_inlined: bool) -> Iterator[_Found]:
    """Every reference below a value."""
    pending = [(value, is_inlined)]
    while pending:
        held, inlined = pending.pop()
        if isinstance(held, list):
            pending.extend((item, inlined) for item in held)
        elif isinstance(held, dict):
            kind = next((kind for kind in (RUNTIME, STORAGE) if kind in held), None)
            if kind is not None and is_envelope(held):
                yield _Found(held, _read(kind, held[kind]), inlined)
                continue
            command = held.get("type")
            inlined = inlined or (isinstance(command, str) and command in INLINED_COMMANDS)
            pending.extend((item, inlined) for item in held.values())


def _read(kind: str, value: Any) -> Reference:
    try:
        return read_reference(kind, value)
    except PayloadError as wrong:
        raise Problem(wrong.reason, wrong.message) from wrong
