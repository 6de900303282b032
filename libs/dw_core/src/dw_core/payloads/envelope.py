"""Envelopes: how a payload stands in a request, and how an input becomes an argument list."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.payloads.codec import CODEC, from_json, to_json
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.frame import check_frame
from dw_core.payloads.references import RUNTIME, STORAGE, is_external, read_reference, stored

_REFERENCES = (STORAGE, RUNTIME)
_ENVELOPES = tuple(frozenset({"codec", body}) for body in ("blob", *_REFERENCES))
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def envelope(payload: str) -> dict[str, Any]:
    """The envelope in which a stored payload, a blob or a reference, is sent out (worker-plane §5.1-5.3)."""
    if is_external(payload):
        return {"codec": CODEC, **_decode(payload)}
    return {"codec": CODEC, "blob": payload}


def bare(payload: str) -> str | dict[str, Any]:
    """A stored payload as it stands in an event with its codec beside it: the blob alone, or a reference's envelope."""
    return envelope(payload) if is_external(payload) else payload


def inline_json(payload: str) -> Any:
    """The value of a blob as JSON can show it, else None; also for a reference, which stands beside it."""
    return None if is_external(payload) else to_json(payload)


def payload_of(given: str | dict[str, Any]) -> str:
    """The stored form of what :func:`bare` or :func:`envelope` has made of a reference; a blob is one already."""
    if isinstance(given, str):
        return given
    return msgspec.json.encode({kind: members for kind, members in given.items() if kind != "codec"}).decode()


def read_envelope(value: Any, *, default_codec: str | None = CODEC, takes_references: bool = True) -> str | None:
    """The stored form of a payload position of a command or a result, or None when there is no payload.

    ``value`` is None, a bare base64 string of ``default_codec`` (the codec named beside it), ``{codec, blob}``, whose
    bytes are not changed, or an envelope with a reference. That the reference names what the caller may use has been
    verified where the request came in; ``takes_references`` False is for payloads that came another way. Raises
    :class:`PayloadError`: ``unsupported_payload_codec`` for another codec, ``external_payload_unsupported`` for a
    reference that is malformed or not taken, ``invalid_payload_framing`` for anything else (worker-plane §5.1-5.3).
    """
    if value is None:
        return None
    if isinstance(value, str):
        _require_codec(default_codec)
        check_frame(value)
        return value
    if not isinstance(value, dict) or "codec" not in value:
        raise PayloadError("invalid_payload_framing", "A payload is a base64 string or an object of codec and blob.")
    _require_codec(value["codec"])
    for kind in _REFERENCES:
        if kind in value:
            if not takes_references or value.keys() != {"codec", kind}:
                message = "A reference to an external payload is not taken here, or it is not alone in its envelope."
                raise PayloadError("external_payload_unsupported", message, kind)
            return stored(read_reference(kind, value[kind]))
    if value.keys() != {"codec", "blob"}:
        raise PayloadError("invalid_payload_framing", "A payload envelope has exactly the members codec and blob.")
    blob = value["blob"]
    if not isinstance(blob, str):
        raise PayloadError("invalid_payload_framing", "The blob must be a base64 string.", "blob")
    check_frame(blob)
    return blob


def read_input(value: Any) -> str:
    """The argument list of a start, as a blob (control-plane §7.2).

    None is the empty list, a JSON array is encoded as it stands, an object that is no envelope gives its values in
    order, an envelope keeps its bytes. Raises :class:`PayloadError`.
    """
    held = parse_input(value)
    if isinstance(held, str):
        return held
    return from_json(held if isinstance(held, list) else list(held.values()))


def parse_input(value: Any) -> str | list[Any] | dict[str, Any]:
    """What a request's ``input`` holds: the blob of an envelope, or arguments as JSON, by position or by name.

    None is the empty list. Raises :class:`PayloadError` for everything that is no input (control-plane §7.2).
    """
    if value is None:
        return []
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise PayloadError("unsupported_value_type", "The input must be an array, an object or a payload envelope.")
    if value.keys() == {"codec"}:
        raise PayloadError("invalid_payload_framing", "The envelope names a codec but carries no payload.")
    if not is_envelope(value):
        return value
    blob = read_envelope(value)
    assert blob is not None, "an envelope always carries a blob"
    return blob


def is_envelope(value: Any) -> bool:
    """Whether an object is a payload envelope: a codec with exactly one kind of body and nothing else."""
    return isinstance(value, dict) and value.keys() in _ENVELOPES


def _require_codec(codec: Any) -> None:
    if codec != CODEC:
        raise PayloadError("unsupported_payload_codec", f"The only payload codec is {CODEC}.", "codec")
