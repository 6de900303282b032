"""The compressed form of a history page (worker-plane §8.4): only on request, only for more than 50 events."""

from __future__ import annotations

import base64
import gzip
import zlib
from typing import Any

import msgspec

from dw_core.limits import HISTORY_COMPRESSION_THRESHOLD_EVENTS

ENCODINGS = ("gzip", "deflate")
"""In order of preference; ``deflate`` is the raw stream without a zlib header."""

_RAW_DEFLATE = -zlib.MAX_WBITS
_LEVEL = 6


def choose_encoding(accepted: str | None) -> str | None:
    """The encoding to use for a comma-separated ``accept_history_encoding``, or None when none of ours is in it."""
    wanted = {entry.split(";", 1)[0].strip().lower() for entry in (accepted or "").split(",")}
    return next((encoding for encoding in ENCODINGS if encoding in wanted), None)


def compress(payload: dict[str, Any], encoding: str | None) -> dict[str, Any]:
    """A copy of ``payload`` whose ``history_events`` are compressed, or ``payload`` itself when they must not be.

    ``encoding`` is what the requester accepts, as for :func:`choose_encoding`. ``history_events`` is a list of events
    (decoded, or ``msgspec.Raw``); a page of at most 50 stays as it is. The compressed page has an empty
    ``history_events``, ``history_events_compressed`` (base64) and ``history_events_encoding``.
    """
    chosen = choose_encoding(encoding)
    events = payload["history_events"]
    if chosen is None or len(events) <= HISTORY_COMPRESSION_THRESHOLD_EVENTS:
        return payload
    return {**payload, "history_events": [], **compressed_fields(msgspec.json.encode(events), chosen)}


def compressed_fields(events: bytes, encoding: str) -> dict[str, str]:
    """The two members that replace a page, from the bytes of its JSON array and a member of :data:`ENCODINGS`."""
    if encoding == "gzip":
        packed = gzip.compress(events, compresslevel=_LEVEL, mtime=0)
    else:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
        packed = packer.compress(events) + packer.flush()
    return {
        "history_events_compressed": base64.b64encode(packed).decode("ascii"),
        "history_events_encoding": encoding,
    }


def decompress(payload: dict[str, Any]) -> dict[str, Any]:
    """A copy of ``payload`` with its events decoded again, without the two compressed members.

    A payload that is not compressed is returned as it is. Raises ``ValueError`` for an unknown encoding or bytes that
    do not unpack to a JSON array.
    """
    encoding = payload.get("history_events_encoding")
    if encoding is None:
        return payload
    try:
        packed = base64.b64decode(payload["history_events_compressed"], validate=True)
        if encoding == "gzip":
            events = gzip.decompress(packed)
        elif encoding == "deflate":
            events = zlib.decompress(packed, _RAW_DEFLATE)
        else:
            raise ValueError(f"unknown history encoding {encoding!r}")
    except (zlib.error, EOFError, OSError) as error:
        raise ValueError("the history page does not unpack") from error
    rest = {key: value for key, value in payload.items() if not key.startswith("history_events")}
    return {**rest, "history_events": msgspec.json.decode(events, type=list[Any])}
