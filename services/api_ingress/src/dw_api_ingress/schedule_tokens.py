"""Page tokens of listings of schedules: where a page has ended, of which listing, signed (control-plane §20.2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dw_core.limits import SCHEDULE_PAGE_TOKEN_SECONDS
from dw_core.protocol.timestamps import wire_time
from dw_core.schedules.filters import ScheduleFilter, list_problem

TOKEN_CHARS_MAX: Final = 8192
_SIGNATURE_BYTES: Final = 32
_FIELD: Final = "next_page_token"


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last schedule of a page, the listing it belongs to, and when it was issued (Unix seconds)."""

    namespace: str
    wanted: str
    created_at: datetime
    schedule_id: str
    issued_at: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cursor).decode


def digest(wanted: ScheduleFilter) -> str:
    """What tells apart two filters."""
    return hashlib.sha256(_encode(msgspec.to_builtins(wanted))).hexdigest()[:32]


def issue(key: bytes, cursor: Cursor) -> str:
    """The token of a cursor."""
    body = _encode(cursor)
    return base64.urlsafe_b64encode(_sign(key, body) + body).decode()


def read(key: bytes, token: str, namespace: str, wanted: ScheduleFilter) -> tuple[datetime, str]:
    """Where the page before has ended; raises ``Problem`` for a token that does not belong to this listing."""
    cursor = _open(key, token)
    if cursor is None:
        raise list_problem("malformed_schedule_page_token", _FIELD, "was not issued by this server")
    if cursor.namespace != namespace:
        raise list_problem("schedule_page_token_namespace_mismatch", _FIELD, "belongs to another namespace")
    safe: dict[str, Any] = {"created_at": wire_time(cursor.created_at), "schedule_id": cursor.schedule_id}
    if cursor.wanted != digest(wanted):
        raise list_problem(
            "schedule_page_token_filter_mismatch", _FIELD, "belongs to other filters", last_safe_cursor=safe
        )
    if datetime.now(UTC).timestamp() - cursor.issued_at > SCHEDULE_PAGE_TOKEN_SECONDS:
        raise list_problem("stale_schedule_page_token", _FIELD, "is too old", last_safe_cursor=safe)
    return cursor.created_at, cursor.schedule_id


def _open(key: bytes, token: str) -> Cursor | None:
    if len(token) > TOKEN_CHARS_MAX:
        return None
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
    return _decode(body) if hmac.compare_digest(signature, _sign(key, body)) else None


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")
