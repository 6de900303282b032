"""Reading the request line and headers: lazily, each header once."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl

from dw_core.protocol.nul import NUL_COMPLAINT
from dw_core.protocol.problems import Invalid

RawHeaders = Mapping[bytes, bytes]
"""Header values by lower-cased name, as the ASGI server handed them over."""

NO_QUERY: Final[Mapping[str, str]] = {}
MAX_QUERY_FIELDS: Final = 100
REQUEST_ID_LENGTH_MAX: Final = 128

_SAFE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")
_SAFE_ADDRESS = re.compile(rb"[0-9A-Fa-f.:\[\]]{2,47}")
_PROCESS_TAG: Final = secrets.token_hex(6)
_sequence = itertools.count(1)


class Headers(Mapping[str, str]):
    """Request headers as text, decoded only when a handler asks for one; names are case-insensitive."""

    __slots__ = ("_raw",)

    def __init__(self, raw: RawHeaders) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[name.lower().encode("latin-1")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def request_id(raw: RawHeaders) -> str:
    """The caller's ``X-Request-Id`` when it is short and harmless, else a new id unique to this process."""
    given = raw.get(b"x-request-id")
    if given is not None and _SAFE_REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_PROCESS_TAG}-{next(_sequence):x}"


def client_address(peer: tuple[str, int] | None, gateway: RawHeaders | None) -> str | None:
    """Where a request came from: the peer of its connection, or whom a gateway names, whose headers are believed."""
    if gateway is not None:
        named = gateway.get(b"x-forwarded-for", b"").partition(b",")[0].strip()
        if _SAFE_ADDRESS.fullmatch(named):
            return named.decode("ascii")
    return None if peer is None else peer[0]


LISTS = frozenset({"search_attribute_keys"})
"""Query parameters that may be repeated; their values are joined by commas, as they may also be sent."""


def parse_query(raw: bytes) -> Mapping[str, str]:
    """The first value of each query parameter, all of one that is a list. More than 100 parameters are refused."""
    if not raw:
        return NO_QUERY
    if b"%00" in raw:
        raise Invalid({"query": [NUL_COMPLAINT]})
    try:
        pairs = parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS, errors="replace"
        )
    except ValueError as error:
        raise Invalid({"query": [f"must hold at most {MAX_QUERY_FIELDS} parameters"]}) from error
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in LISTS and name in values:
            value = f"{values.pop(name)},{value}"
        values.setdefault(name, value)
    return values


def resolve_namespace(raw: RawHeaders, query: Mapping[str, str], default: str) -> str:
    """Header, then ``?namespace=``, then the configured default; trimmed and lower-cased (control-plane §1.1)."""
    given = raw.get(b"x-namespace")
    name = given.decode("utf-8", "replace").strip().lower() if given is not None else ""
    if not name and query:
        name = query.get("namespace", "").strip().lower()
    return name or default
