"""The opaque position of a listing: base64 of the last row's start time and run id."""

from __future__ import annotations

import base64
import binascii

import msgspec

from dw_core.protocol.problems import Invalid
from dw_runtime.store.reads.rows import Position

_decode = msgspec.json.Decoder(Position).decode


def encode_cursor(position: Position) -> str:
    """The token of the page behind ``position``."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()


def decode_cursor(token: str | None) -> Position | None:
    """The position in a token, None for the first page; raises ``Invalid`` for a text that is no token of ours."""
    if not token:
        return None
    try:
        position = _decode(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        position = None
    if position is None or position.started_at.tzinfo is None or "\0" in position.run_id:
        raise Invalid({"next_page_token": ["was not issued by this server"]})
    return position
