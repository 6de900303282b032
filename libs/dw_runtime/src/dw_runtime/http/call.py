"""What a handler receives and what it gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from dw_core.routes.route import Route
from dw_runtime.http.hangup import HangupWatch


class Principal(msgspec.Struct, frozen=True):
    """Who calls: ``subject`` for records, ``role`` worker|operator|admin, ``method`` none|token|signature|jwt.

    ``namespaces`` are those they may use, None for all.
    """

    subject: str
    role: str
    method: str
    namespaces: frozenset[str] | None = None

    def may_use(self, namespace: str) -> bool:
        """Whether a namespace is open to them."""
        return self.namespaces is None or namespace in self.namespaces


class Call(msgspec.Struct, kw_only=True):
    """A request that has passed every gate of its route.

    ``params`` are the decoded path parameters, ``query`` the first value of each query parameter, ``body`` the decoded
    ``route.request`` struct (None when the route takes none), ``protocol_version`` the minor the worker asked for
    (worker plane only, else 0). ``hangup`` (poll routes only, else None) tells when the client goes away; ``draining``
    is set when this process has been told to stop. ``address`` is where the request came from, when that is known;
    ``raw`` are the bytes of the body.
    """

    route: Route
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    namespace: str
    principal: Principal
    body: Any
    request_id: str
    protocol_minor: int
    hangup: HangupWatch | None
    draining: asyncio.Event
    address: str | None = None
    raw: bytes = b""


class Reply(msgspec.Struct, frozen=True):
    """A handler's answer.

    ``body`` is a mapping or struct that encodes to a JSON object, or the bytes of an already encoded JSON object. The
    shell adds the plane's envelope and version header.
    """

    body: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Call], Awaitable[Reply]]
Handlers = Mapping[str, Handler]
"""Handlers by route name; a role process merges the maps of the roles it hosts."""
