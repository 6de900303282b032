"""The body guard: size while reading, media type, JSON syntax, and the typed decoding that follows from it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec

from dw_core.protocol.problems import Invalid, Problem
from dw_runtime.http.headers import RawHeaders
from dw_runtime.http.nul import find_nul
from dw_runtime.http.validation import explain

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_SECONDS: Final = 30.0
"""How long the rest of a body may take; a client that stops in the middle keeps neither memory nor a place."""

ACCEPTED_CONTENT_TYPES: Final = ["application/json"]

_EMPTY_BODIES: Final = (b"", b"{}", b"[]")
_any_json = msgspec.json.Decoder()


class ClientGone(Exception):
    """The client hung up while its body was being read; there is nobody to answer."""


def has_body(headers: RawHeaders) -> bool:
    """Whether the request announces a body (a length other than zero, or chunks)."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def read_body(receive: Receive, headers: RawHeaders, limit_bytes: int) -> bytes:
    """The whole body, at most ``limit_bytes``.

    Raises ``payload_too_large`` by the announced length before reading anything, and again while reading chunks, so
    an oversized body is never held in memory (control-plane §1.2). Raises :class:`ClientGone` for a client that has
    hung up or sends its body too slowly.
    """
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    message = await receive()
    chunk: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        if len(chunk) > limit_bytes:
            raise _too_large(limit_bytes)
        return chunk
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _join_chunks(message, receive, limit_bytes)
    except TimeoutError:
        raise ClientGone from None


async def _join_chunks(message: MutableMapping[str, Any], receive: Receive, limit_bytes: int) -> bytes:
    """The body that begins with ``message``."""
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()


def check_media_type(headers: RawHeaders) -> None:
    """Raise ``unsupported_media_type`` unless the body claims to be JSON (or claims nothing)."""
    given = headers.get(b"content-type")
    if given is None or given == b"application/json":
        return
    media_type = given.partition(b";")[0].strip().lower()
    if media_type in (b"", b"application/json") or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    ):
        return
    raise Problem(
        "unsupported_media_type",
        "Send the request body as application/json.",
        accepted_content_types=ACCEPTED_CONTENT_TYPES,
    )


class BodyDecoder:
    """Decodes the JSON body of one route.

    Syntax errors and field errors are told apart, because the first are refused before authentication and the second
    only after the namespace gate: :meth:`decode` raises for the first and *returns* the second. A strict decoder takes
    no object that names a member twice: which of the two was meant is not for the server to guess.
    """

    __slots__ = ("_decoder", "_is_strict", "_may_hold_nul", "_request")

    def __init__(self, request: type[msgspec.Struct] | None, *, is_strict: bool = False) -> None:
        self._request = request
        self._decoder = None if request is None else msgspec.json.Decoder(request)
        self._is_strict = is_strict
        self._may_hold_nul: frozenset[str] = getattr(request, "MAY_HOLD_NUL", frozenset())

    def decode(self, body: bytes) -> tuple[Any, Invalid | None]:
        """The request struct, or None and what is wrong with it.

        An absent body and ``[]`` stand for ``{}`` (control-plane §1). Raises ``malformed_json`` with ``json_error``.
        """
        if body in _EMPTY_BODIES or body.strip() in _EMPTY_BODIES:
            body = b"{}"
        try:
            if self._decoder is None:
                value = _any_json.decode(body)
                return None, None if isinstance(value, dict) else Invalid({"body": ["must be a JSON object"]})
            value = self._decoder.decode(body)
            if self._is_strict and body != b"{}":
                check_names(body)
            return value, find_nul(body, self._may_hold_nul)
        except msgspec.ValidationError as error:
            return None, self._field_error(body, Invalid(explain(str(error), self._request)))
        except Invalid as error:
            return None, self._field_error(body, error)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _malformed(error) from error

    @staticmethod
    def _field_error(body: bytes, error: Invalid) -> Invalid:
        # The typed decoder stops at the first wrong field; a syntax error further on still wins.
        try:
            _any_json.decode(body)
        except (msgspec.DecodeError, RecursionError) as syntax:
            raise _malformed(syntax) from syntax
        return error


def check_names(body: bytes) -> None:
    """Raise ``malformed_json`` for a JSON text in which an object has two members of one name."""
    try:
        json.loads(body, object_pairs_hook=_distinct, parse_int=str, parse_float=str)
    except ValueError as error:
        raise _malformed(error) from error


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        name, _ = counted.most_common(1)[0]
        raise ValueError(f"the member {name[:100]!r} is there more than once")


def _too_large(limit_bytes: int) -> Problem:
    message = (
        f"The request body exceeds {limit_bytes} bytes; larger payloads belong in the namespace's external storage."
    )
    return Problem("payload_too_large", message, limit=limit_bytes)


def _malformed(error: Exception) -> Problem:
    detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return Problem("malformed_json", "The request body is not valid JSON.", json_error=detail)
