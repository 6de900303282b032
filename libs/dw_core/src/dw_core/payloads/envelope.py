"""Envelopes: how a payload stands in a request, and how an input becomes an argument list."""

from __future__ import annotations

from typing import Any

from dw_core.payloads.codec import CODEC, from_json
from dw_core.payloads.errors import PayloadError
from dw_core.payloads.frame import check_frame

_REFERENCES = ("external_storage", "external_payload")
_ENVELOPES = tuple(frozenset({"codec", body}) for body in ("blob", *_REFERENCES))


def envelope(blob: str) -> dict[str, str]:
    """The envelope in which a blob is sent out (worker-plane §5.1)."""
    return {"codec": CODEC, "blob": blob}


def read_envelope(value: Any, *, default_codec: str | None = CODEC) -> str | None:
    """The blob of a payload position of a command or a result, unchanged, or None when there is no payload.

    ``value`` is None, a bare base64 string of ``default_codec`` (the codec named beside it), or ``{codec, blob}``.
    Raises :class:`PayloadError`: ``unsupported_payload_codec`` for another codec, ``external_payload_unsupported``
    for a reference to external storage, ``invalid_payload_framing`` for anything else (worker-plane §5.1).
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
    for reference in _REFERENCES:
        if reference in value:
            message = "External payload storage is not configured for this namespace."
            raise PayloadError("external_payload_unsupported", message, reference)
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
