"""Values to frames and back, on the Avro schema in ``value.avsc``."""

from __future__ import annotations

import binascii
import math
from importlib import resources
from io import BytesIO
from typing import Any

import fastavro
import msgspec

from dw_core.limits import PAYLOAD_DEPTH_MAX
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.frame import HEADER, check_bytes, unwrap

CODEC = "avro"
"""The name of the only codec of protocol 2."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

SCHEMA: dict[str, Any] = msgspec.json.decode(
    resources.files("dw_core.payloads").joinpath("value.avsc").read_bytes(), type=dict[str, Any]
)
_PARSED = fastavro.parse_schema(SCHEMA)
_NAMESPACE = "durable_workflow.protocol"


def encode(value: Any) -> bytes:
    """The frame of a Python value.

    ``value`` is None, bool, int (64 bits), float (finite), bytes, str, list, or dict with string keys, nested at most
    ``PAYLOAD_DEPTH_MAX`` levels; nothing is converted between types. Raises :class:`PayloadError` with
    ``integer_overflow``, ``non_finite_float``, ``invalid_map_key`` or ``unsupported_value_type`` (engine §7).
    """
    out = BytesIO()
    out.write(HEADER)
    fastavro.schemaless_writer(out, _PARSED, _to_avro(value, 0))
    return out.getvalue()


def decode(frame: bytes) -> Any:
    """The Python value of a frame; raises :class:`PayloadError` for a malformed one."""
    check_bytes(frame)
    datum = BytesIO(frame)
    datum.seek(len(HEADER))
    return _from_avro(fastavro.schemaless_reader(datum, _PARSED, None))


def encode_blob(value: Any) -> str:
    """The base64 blob of a Python value; raises like :func:`encode`."""
    return binascii.b2a_base64(encode(value), newline=False).decode("ascii")


def decode_blob(blob: str) -> Any:
    """The Python value of a base64 blob; raises :class:`PayloadError` for a malformed one."""
    return decode(unwrap(blob))


def from_json(value: Any) -> str:
    """The blob of a value decoded from JSON.

    Integers stay integers (outside 64 bits they are refused), numbers with a fraction or an exponent stay doubles
    (control-plane §7.2). Raises like :func:`encode`.
    """
    return encode_blob(value)


def to_json(blob: str) -> Any:
    """The value of a blob as JSON can show it, or None when it holds bytes (control-plane §7.3)."""
    value = decode_blob(blob)
    return None if _holds_bytes(value) else value


def _branch(name: str, field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return f"{_NAMESPACE}.{name}", {field: value}


def _to_avro(value: Any, depth: int) -> dict[str, Any]:
    kind = type(value)
    if value is None:
        return {"value": None}
    if kind is str:
        return {"value": _branch("StringValue", "string", value)}
    if kind is bool:
        return {"value": _branch("BooleanValue", "boolean", value)}
    if kind is int:
        if not INT64_MIN <= value <= INT64_MAX:
            raise PayloadError("integer_overflow", "An integer does not fit 64 bits.")
        return {"value": _branch("LongValue", "long", value)}
    if kind is float:
        if not math.isfinite(value):
            raise PayloadError("non_finite_float", "A number is infinite or not a number.")
        return {"value": _branch("DoubleValue", "double", value)}
    if kind is bytes:
        return {"value": _branch("BytesValue", "bytes", value)}
    if depth == PAYLOAD_DEPTH_MAX:
        raise PayloadError("unsupported_value_type", f"The value is nested deeper than {PAYLOAD_DEPTH_MAX} levels.")
    if kind is list:
        return {"value": _branch("ArrayValue", "items", [_to_avro(item, depth + 1) for item in value])}
    if kind is dict:
        if any(type(key) is not str for key in value):
            raise PayloadError("invalid_map_key", "The keys of a map must be strings.")
        entries = {key: _to_avro(item, depth + 1) for key, item in value.items()}
        return {"value": _branch("MapValue", "entries", entries)}
    raise PayloadError("unsupported_value_type", f"A value of type {kind.__name__} cannot be a payload.")


def _from_avro(datum: Any) -> Any:
    inner = datum["value"]
    if inner is None:
        return None
    ((field, value),) = inner.items()
    if field == "items":
        return [_from_avro(item) for item in value]
    if field == "entries":
        return {key: _from_avro(item) for key, item in value.items()}
    return value


def _holds_bytes(value: Any) -> bool:
    if isinstance(value, bytes):
        return True
    if isinstance(value, list):
        return any(_holds_bytes(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_bytes(item) for item in value.values())
    return False


NULL_BLOB = encode_blob(None)
EMPTY_LIST_BLOB = encode_blob([])
