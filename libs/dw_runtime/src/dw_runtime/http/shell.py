"""The shell itself: one ASGI application that takes a request through the gates to its handler and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final
from urllib.parse import quote

import msgspec
import psycopg
import structlog

from dw_core.ids import run_of
from dw_core.protocol.problems import Invalid, Problem
from dw_core.routes.catalogue import plane_of
from dw_core.routes.matching import Matched, MethodNotAllowed, NotFound
from dw_core.routes.route import Plane, Route
from dw_core.topology.placement import Placement
from dw_runtime.auth.authenticator import Authenticator, KeysUnknown
from dw_runtime.http.admission import RequestAdmission, RequestLimits
from dw_runtime.http.body import ClientGone, Receive, check_media_type, has_body, read_body
from dw_runtime.http.call import Call, Handler, Handlers, Principal, Reply
from dw_runtime.http.compression import accepts_gzip, gzip
from dw_runtime.http.failures import backend_unavailable, internal_error, new_error_id
from dw_runtime.http.gates import (
    BootstrapGate,
    Namespaces,
    forbidden,
    namespace_forbidden,
    namespace_not_found,
    role_unavailable,
    workflow_v2_blocked,
)
from dw_runtime.http.hangup import HangupWatch
from dw_runtime.http.headers import Headers, RawHeaders, client_address, parse_query, request_id, resolve_namespace
from dw_runtime.http.plan import Observe, Response, ResponsePlan, RoutePlan
from dw_runtime.http.unread import UnreadBody, may_stay_unread
from dw_runtime.http.version_gates import check_control_version, worker_minor
from dw_runtime.telemetry.context import bind_request
from dw_runtime.telemetry.tracing import Tracing

CheckReferences = Callable[[Route, Mapping[str, str], str, bytes], Awaitable[bytes | None]]
"""Checks the references to external payloads in a JSON body: given the route and its parameters, the namespace and the
bytes, it gives the bytes to use in their place, or None to keep them. Raises ``Problem``."""
Match = Callable[[str, str], Matched | NotFound | MethodNotAllowed]
Scope = Mapping[str, Any]
Send = Callable[[dict[str, Any]], Any]

log = structlog.get_logger(__name__)

ANONYMOUS: Final = Principal(subject="anonymous", role="", method="none")
"""The caller of a public route; it passes no role check."""

_UNROUTED: Final = "unrouted"
_NO_PARAMS: Final[Mapping[str, str]] = {}
_GZIPPED: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
_CLOSE: Final = ((b"connection", b"close"),)


class ShellSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may set: ``max_body_bytes`` is ``DW_MAX_PAYLOAD_BYTES``, ``payload_bytes_max`` that of the byte
    transport; seconds are wall clock;
    ``trusts_forwarded`` whether a gateway tells who has called (``DW_TRUST_FORWARDED_ATTRIBUTION_HEADERS``)."""

    default_namespace: str = "default"
    max_body_bytes: int = 2_097_152
    payload_bytes_max: int = 67_108_864
    compression_enabled: bool = True
    slow_request_seconds: float = 2.0
    trusts_forwarded: bool = False
    request_limits: RequestLimits = RequestLimits()


class Shell:
    """Serves every catalogued route on this process; see the package docstring for the model.

    ``routes`` and ``match`` are the catalogue; ``handlers`` the handlers of the roles this process hosts, by route
    name; ``capabilities`` the encoded ``server_capabilities`` object; ``observer`` gives the recorder of a route's
    latency by route name. ``check_references`` is asked about every body, see :data:`CheckReferences`. With ``tracing``
    every request has a span.
    """

    def __init__(
        self,
        *,
        routes: Sequence[Route],
        match: Match,
        placement: Placement,
        handlers: Handlers,
        authenticator: Authenticator,
        gate: BootstrapGate,
        namespaces: Namespaces,
        capabilities: bytes,
        observer: Callable[[str], Observe],
        settings: ShellSettings,
        check_references: CheckReferences | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.draining = asyncio.Event()
        self.in_flight = 0
        self._match = match
        self._placement = placement
        self._authenticator = authenticator
        self._gate = gate
        self._namespaces = namespaces
        self._settings = settings
        self._check_references = check_references
        self._tracing = tracing
        self._admission = RequestAdmission(settings.request_limits)
        self._idle = asyncio.Event()
        self._plans = {
            route.name: RoutePlan(
                route, placement, handlers.get(route.name), capabilities=capabilities, observe=observer(route.name)
            )
            for route in routes
        }
        unknown = handlers.keys() - self._plans.keys()
        assert not unknown, f"handlers without a catalogued route: {sorted(unknown)}"
        self._unrouted = {
            plane: ResponsePlan(plane, capabilities=capabilities, observe=observer(_UNROUTED))
            for plane in (Plane.WORKER, Plane.CONTROL)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        started = perf_counter()
        self.in_flight += 1
        try:
            headers: RawHeaders = dict(scope["headers"])
            if self._tracing is None:
                await self._exchange(scope, headers, receive, send, started)
            else:
                method = scope["method"]
                with self._tracing.request(method, headers) as span:
                    path, status = await self._exchange(scope, headers, receive, send, started)
                    self._tracing.served(span, method, path, status)
        except ClientGone:
            return
        finally:
            self.in_flight -= 1
            if not self.in_flight and self.draining.is_set():
                self._idle.set()

    async def drain(self, timeout_seconds: float) -> bool:
        """Tell held polls to end and wait for the requests in flight; False when ``timeout_seconds`` ran out."""
        self.draining.set()
        if not self.in_flight:
            return True
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_seconds)
        except TimeoutError:
            log.warning("drain.incomplete", in_flight=self.in_flight, timeout_seconds=timeout_seconds)
            return False
        return True

    async def _exchange(
        self, scope: Scope, headers: RawHeaders, receive: Receive, send: Send, started: float
    ) -> tuple[str, int]:
        """Answer; gives the template of the route and the status."""
        ident = request_id(headers)
        method = scope["method"]
        path = _raw_path(scope)
        # A name with a NUL byte names nothing: no text column can hold it.
        matched = self._match(method, path) if "%00" not in path else NotFound()
        plan: ResponsePlan
        if isinstance(matched, Matched) and (method != "HEAD" or matched.route.plane is Plane.DISCOVERY):
            plan = self._plans[matched.route.name]
            # Payloads are read only from somebody who is known; other bodies always, if they are not too large.
            unread = self._unread(headers, receive, 0 if plan.carries_bytes else self._settings.max_body_bytes)
            response = await self._serve(plan, matched.params, scope, headers, unread or receive, ident)
        else:
            plan = self._unrouted[Plane.WORKER if plane_of(path) is Plane.WORKER else Plane.CONTROL]
            unread = self._unread(headers, receive, 0)
            response = _unrouted(plan, method, path, matched)
        await self._send(send, scope, headers, plan, response, ident, unread)
        seconds = perf_counter() - started
        plan.observe(response.status, seconds)
        if seconds > self._settings.slow_request_seconds and isinstance(plan, RoutePlan) and not plan.route.is_poll:
            log.warning("request.slow", route=plan.route.name, status=response.status, seconds=round(seconds, 3))
        return plan.route.path if isinstance(plan, RoutePlan) else _UNROUTED, response.status

    @staticmethod
    def _unread(headers: RawHeaders, receive: Receive, limit_bytes: int) -> UnreadBody | None:
        return UnreadBody(receive) if may_stay_unread(headers, limit_bytes) else None

    async def _serve(
        self,
        plan: RoutePlan,
        params: Mapping[str, str],
        scope: Scope,
        headers: RawHeaders,
        receive: Receive,
        ident: str,
    ) -> Response:
        """The body guard, the other gates, the handler; every way out is a response."""
        body: Any = None
        try:
            raw = await self._read(plan, headers, receive) if has_body(headers) else b""
            invalid: Invalid | None = None
            if plan.carries_bytes:
                body = raw
            if plan.takes_json:
                if raw:
                    check_media_type(headers)
                body, invalid = plan.decoder.decode(raw)
            principal, minor = await self._identified(plan, headers, raw)
            query, namespace = await self._admit(plan, params, scope, headers, ident, principal)
            if invalid is not None:
                raise invalid
            if plan.takes_json and raw:
                body = await self._with_references(plan, params, namespace, raw, body)
            if plan.handler is None:
                raise Problem("not_implemented", "This server does not implement this endpoint yet.")
            call = Call(
                route=plan.route,
                params=params,
                query=query,
                headers=Headers(headers),
                namespace=namespace,
                principal=principal,
                body=body,
                request_id=ident,
                protocol_minor=minor,
                hangup=None,
                draining=self.draining,
                address=client_address(scope.get("client"), headers if self._settings.trusts_forwarded else None),
                raw=raw,
            )
            if plan.is_counted and self._admission.is_limited:
                with self._admission.admitted(namespace):
                    return plan.finish(await plan.handler(call), params)
            return plan.finish(await _handle(plan, plan.handler, call, receive), params)
        except Problem as problem:
            if problem.reason == "backend_unavailable":
                problem = backend_unavailable(plan.route, body, params)
            return plan.refuse(problem, params)
        except ClientGone:
            raise
        except psycopg.OperationalError as error:
            log.warning("backend.unavailable", route=plan.route.name, request_id=ident, sqlstate=error.sqlstate)
            return plan.refuse(backend_unavailable(plan.route, body, params), params)
        except Exception:
            error_id = new_error_id()
            log.exception("request.failed", route=plan.route.name, request_id=ident, error_id=error_id)
            return plan.refuse(internal_error(plan.plane, error_id), params)

    async def _read(self, plan: RoutePlan, headers: RawHeaders, receive: Receive) -> bytes:
        """The body. What may be large is read only from somebody who is known, if headers tell who that is."""
        if not plan.carries_bytes:
            return await read_body(receive, headers, self._settings.max_body_bytes)
        if not self._authenticator.reads_body:
            await self._identified(plan, headers, b"")
        return await read_body(receive, headers, self._settings.payload_bytes_max)

    async def _with_references(
        self, plan: RoutePlan, params: Mapping[str, str], namespace: str, raw: bytes, body: Any
    ) -> Any:
        """The body once its references to external payloads are checked, and replaced where the route needs that."""
        if self._check_references is None:
            return body
        replaced = await self._check_references(plan.route, params, namespace, raw)
        if replaced is None:
            return body
        body, invalid = plan.decoder.decode(replaced)
        assert invalid is None, "a payload has taken the place of its reference"
        return body

    def _identify(self, plan: RoutePlan, headers: RawHeaders, raw: bytes) -> tuple[Principal, int]:
        """Authentication, the role of the principal, the protocol version: gates 1 to 3. Public routes ask nobody."""
        principal = ANONYMOUS
        if plan.principals:
            grant = self._authenticator.authenticate(headers, raw)
            if grant.passes.isdisjoint(plan.principals):
                raise forbidden(grant, plan.route)
            principal = grant.principal
        if plan.route.version_gate:
            if plan.is_worker:
                return principal, worker_minor(headers)
            check_control_version(headers)
        return principal, 0

    async def _identified(self, plan: RoutePlan, headers: RawHeaders, raw: bytes) -> tuple[Principal, int]:
        """The same, after a look for new signing keys when a token is signed with one that is not known here."""
        try:
            return self._identify(plan, headers, raw)
        except KeysUnknown:
            await self._authenticator.refresh()
        try:
            return self._identify(plan, headers, raw)
        except KeysUnknown:
            raise Problem("unauthorized", "The token is signed with a key that the issuer does not show.") from None

    async def _admit(
        self,
        plan: RoutePlan,
        params: Mapping[str, str],
        scope: Scope,
        headers: RawHeaders,
        ident: str,
        principal: Principal,
    ) -> tuple[Mapping[str, str], str]:
        """Topology role, bootstrap and namespace: gates 4 to 6. Gives the query parameters and the namespace."""
        if not plan.is_hosted:
            raise role_unavailable(self._placement, plan.route)
        if plan.route.bootstrap_gate:
            if self._gate.is_stale():
                await self._gate.refreshed()
            blocked = self._gate.blocked()
            if blocked is not None:
                raise workflow_v2_blocked(blocked)
        query = parse_query(scope["query_string"])
        namespace = resolve_namespace(headers, query, self._settings.default_namespace)
        bind_request(ident, namespace, params.get("run_id") or run_of(params.get("task_id", "")))
        if plan.principals and not principal.may_use(params.get("namespace", namespace).strip().lower()):
            raise namespace_forbidden(principal, plan.route)
        if plan.route.namespace_gate and not await self._namespaces.exists(namespace):
            raise namespace_not_found(namespace)
        return query, namespace

    async def _send(
        self,
        send: Send,
        scope: Scope,
        headers: RawHeaders,
        plan: ResponsePlan,
        response: Response,
        ident: str,
        unread: UnreadBody | None,
    ) -> None:
        status, body, extra, content_type = response
        if (
            len(body) >= plan.compression_min_bytes
            and self._settings.compression_enabled
            and accepts_gzip(headers.get(b"accept-encoding"))
        ):
            body = await gzip(body)
            extra = (*extra, *_GZIPPED)
        if self.draining.is_set() and scope.get("http_version") == "1.1":
            extra = (*extra, *_CLOSE)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", content_type),
                    (b"content-length", b"%d" % len(body)),
                    plan.version_header,
                    (b"x-request-id", ident.encode()),
                    *extra,
                ],
            }
        )
        if scope["method"] == "HEAD":
            body = b""
        if unread is not None and not unread.is_over:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await unread.discard()
            body = b""
        await send({"type": "http.response.body", "body": body})


async def _handle(plan: RoutePlan, handler: Handler, call: Call, receive: Receive) -> Reply:
    """Run the handler; for a poll also watch whether the client is still there."""
    if not plan.route.is_poll:
        return await handler(call)
    watch = HangupWatch(receive)
    call.hangup = watch
    try:
        return await handler(call)
    finally:
        watch.close()


def _raw_path(scope: Scope) -> str:
    """The path as it came, still percent-encoded, so that each parameter is decoded exactly once."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return quote(scope["path"])
    return raw.partition(b"?")[0].decode("latin-1")


def _unrouted(plan: ResponsePlan, method: str, path: str, matched: object) -> Response:
    """404 for an unknown path and 405 for a wrong method, in the envelope of the plane the path belongs to."""
    if isinstance(matched, NotFound):
        return plan.refuse(Problem("not_found", f"There is no endpoint at {path[:200]}; GET /api/docs lists them all."))
    allowed = matched.allowed if isinstance(matched, MethodNotAllowed) else ("GET",)
    problem = Problem("method_not_allowed", f"{method} is not allowed here.", allowed_methods=list(allowed))
    return plan.refuse(problem, headers=((b"allow", ", ".join(allowed).encode()),))
