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


class _PageToken(msgspec.Struct, frozen=True, array_like=True):
    """A position and the mark of the listing it belongs to."""

    position: Position
    mark: str


_decode_token = msgspec.json.Decoder(_PageToken).decode


def encode_page_token(position: Position, mark: str) -> str:
    """The token of the page behind ``position`` of the listing with this mark."""
    return base64.urlsafe_b64encode(msgspec.json.encode(_PageToken(position, mark))).decode()


def decode_page_token(token: str | None, mark: str) -> Position | None:
    """The position in a token, None for the first page; raises ``Invalid`` for one of another listing, or of nobody."""
    if not token:
        return None
    try:
        held = _decode_token(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        held = None
    if held is None or held.position.started_at.tzinfo is None or "\0" in held.position.run_id:
        raise Invalid({"next_page_token": ["was not issued by this server"]})
    if held.mark != mark:
        raise Invalid({"next_page_token": ["was issued for a listing with other filters"]})
    return held.position
