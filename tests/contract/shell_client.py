"""A shell over the real catalogue with handlers, gates and placement a test can choose, and a client that calls it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dw_core.routes.catalogue import ROUTES, match
from dw_core.topology.placement import resolve
from dw_runtime.auth.authenticator import build_authenticator
from dw_runtime.auth.settings import AuthSettings
from dw_runtime.http.call import Handler
from dw_runtime.http.gates import Blocked
from dw_runtime.http.shell import Shell, ShellSettings

CAPABILITIES = {"query_tasks": False, "poll_status": True}
TOKENS = AuthSettings(worker_token="w-secret", operator_token="o-secret", admin_token="a-secret")
WORKER = {"authorization": "Bearer w-secret", "x-durable-workflow-protocol-version": "1.20"}
OPERATOR = {"authorization": "Bearer o-secret", "x-durable-workflow-control-plane-version": "2"}


class Gate:
    """A bootstrap gate that a test opens and closes."""

    def __init__(self, blocked_by: tuple[str, ...] = ()) -> None:
        self.blocked_by = blocked_by

    def is_stale(self) -> bool:
        return False

    def blocked(self) -> Blocked | None:
        return Blocked(self.blocked_by) if self.blocked_by else None

    async def refreshed(self) -> None:
        return None


class OneNamespace:
    async def exists(self, name: str) -> bool:
        return name == "default"


class Answer(msgspec.Struct):
    """One response: ``headers`` by lower-case name, ``json`` the decoded body."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        zipped = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.raw) if zipped else self.raw)


def build_shell(
    handlers: Mapping[str, Handler] | None = None,
    *,
    entry_point: str = "standalone",
    gate: Gate | None = None,
    auth: AuthSettings = TOKENS,
    settings: ShellSettings | None = None,
) -> Shell:
    """A shell over every catalogued route, on the node that ``entry_point`` makes by default."""
    return Shell(
        routes=ROUTES,
        match=match,
        placement=resolve(None, None, entry_point),
        handlers=handlers or {},
        authenticator=build_authenticator(auth),
        gate=gate or Gate(),
        namespaces=OneNamespace(),
        capabilities=json.dumps(CAPABILITIES, separators=(",", ":")).encode(),
        observer=lambda route: lambda status, seconds: None,
        settings=settings or ShellSettings(),
    )


async def call(
    app: Any,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    chunks: Iterable[bytes] | None = None,
    hang_up: asyncio.Event | None = None,
) -> Answer:
    """Send one request: ``body`` as JSON (or as it is when bytes), or ``chunks`` without a length.

    ``hang_up`` makes the client go away once it is set; otherwise it stays until the response ends.
    """
    sent = {"content-type": "application/json", **(headers or {})}
    pieces = list(chunks) if chunks is not None else []
    if chunks is not None:
        sent["transfer-encoding"] = "chunked"
    elif body is not None:
        pieces = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        sent.setdefault("content-length", str(len(pieces[0])))
    path, _, query = path.partition("?")
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": index + 1 < len(pieces)}
        for index, piece in enumerate(pieces)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]
    answered: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await (hang_up or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        answered.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }
    await app(scope, receive, send)
    start, *parts = answered
    assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(part.get("body", b"") for part in parts),
    )
