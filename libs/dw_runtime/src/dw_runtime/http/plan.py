"""Everything about a route that can be decided before the first request: one plan per route and process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from dw_core.payloads.transport import transport_problem
from dw_core.protocol.problems import Problem
from dw_core.routes.route import Plane, Route
from dw_core.topology.placement import Placement
from dw_runtime.http.body import BodyDecoder
from dw_runtime.http.call import Handler, Reply
from dw_runtime.http.compression import COMPRESSION_MIN_BYTES, WORKER_COMPRESSION_MIN_BYTES
from dw_runtime.http.envelopes import BareEnvelope, Envelope, encode_json, envelope_for, version_header
from dw_runtime.http.failures import problem_body, retry_after
from dw_runtime.http.gates import missing_roles

HeaderPairs = tuple[tuple[bytes, bytes], ...]
Observe = Callable[[int, float], None]
"""Records one response: HTTP status and seconds."""

_NO_PARAMS: Final[Mapping[str, str]] = {}
_NO_HEADERS: Final[HeaderPairs] = ()
JSON_TYPE: Final = b"application/json"
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})


class Response(NamedTuple):
    """A finished response: status, complete body, its media type, and headers beyond the ones every response has."""

    status: int
    body: bytes
    headers: HeaderPairs
    content_type: bytes = JSON_TYPE


class ResponsePlan:
    """How the responses of a plane (and, for a route, of its operation) are finished."""

    __slots__ = (
        "_bare",
        "_content_type",
        "_envelope",
        "compression_min_bytes",
        "is_task_poll",
        "observe",
        "plane",
        "version_header",
    )

    def __init__(
        self,
        plane: Plane,
        *,
        capabilities: bytes,
        observe: Observe,
        operation: str | None = None,
        is_task_poll: bool = False,
        media_type: str = "application/json",
    ) -> None:
        self._content_type = media_type.encode()
        self.plane = plane
        self.observe = observe
        self.is_task_poll = is_task_poll
        self.version_header = version_header(plane)
        self.compression_min_bytes = WORKER_COMPRESSION_MIN_BYTES if plane is Plane.WORKER else COMPRESSION_MIN_BYTES
        self._envelope = envelope_for(plane, operation, capabilities)
        # 401 and 403 say nothing about the operation (control-plane §6.1).
        self._bare: Envelope = self._envelope if plane is Plane.WORKER else BareEnvelope()

    def finish(self, reply: Reply, params: Mapping[str, str]) -> Response:
        """The response for a handler's answer."""
        body = reply.body if type(reply.body) is bytes else encode_json(reply.body)
        headers = tuple((name.encode(), value.encode()) for name, value in reply.headers) if reply.headers else ()
        return Response(reply.status, self._envelope.wrap(body, params), headers, self._content_type)

    def refuse(self, problem: Problem, params: Mapping[str, str] = _NO_PARAMS, headers: HeaderPairs = ()) -> Response:
        """The response for a refusal, from whichever gate or handler."""
        status = problem.status
        envelope = self._bare if status in (401, 403) and problem.reason in _IDENTITY_REASONS else self._envelope
        body = encode_json(problem_body(problem, self.plane, is_task_poll=self.is_task_poll))
        seconds = retry_after(problem)
        if seconds is not None:
            headers = (*headers, (b"retry-after", str(seconds).encode()))
        return Response(status, envelope.wrap(body, params), headers)


_IDENTITY_REASONS: Final = frozenset({"unauthorized", "forbidden"})


class RoutePlan(ResponsePlan):
    """A route with its decoder, its handler on this node, and whether the node hosts it."""

    __slots__ = (
        "carries_bytes",
        "decoder",
        "handler",
        "is_counted",
        "is_hosted",
        "is_worker",
        "principals",
        "route",
        "takes_json",
    )

    def __init__(
        self, route: Route, placement: Placement, handler: Handler | None, *, capabilities: bytes, observe: Observe
    ) -> None:
        super().__init__(
            route.plane,
            capabilities=capabilities,
            observe=observe,
            operation=route.operation,
            is_task_poll=route.plane is Plane.WORKER and route.is_poll,
            media_type=route.media_type,
        )
        self.route = route
        self.handler = handler
        self.is_worker = route.plane is Plane.WORKER
        self.principals = route.principals
        # The byte transport is the one control family without a version gate; its bodies are not JSON.
        self.carries_bytes = route.plane is Plane.CONTROL and not route.version_gate
        takes_body = route.method in _BODY_METHODS or route.request is not None
        self.takes_json = takes_body and not self.carries_bytes
        self.decoder = BodyDecoder(route.request, is_strict=route.plane is Plane.CONTROL)
        # Polls wait by design, and workers are held back by the caps of their queues.
        self.is_counted = route.plane is Plane.CONTROL and route.namespace_gate and not route.is_poll
        self.is_hosted = not missing_roles(placement, route)
        if self.carries_bytes:
            self.compression_min_bytes = sys.maxsize

    def refuse(self, problem: Problem, params: Mapping[str, str] = _NO_PARAMS, headers: HeaderPairs = ()) -> Response:
        """Like that of the plane; the byte transport has refusals of its own form."""
        return super().refuse(transport_problem(problem) if self.carries_bytes else problem, params, headers)
