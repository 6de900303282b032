"""Working off service calls: due ones are leased, served, and settled once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec
import psycopg
import structlog

from dw_core.engine.transition import WakeKey
from dw_core.limits import SERVICE_LOST_ATTEMPTS_MAX, SERVICE_REQUEST_SECONDS_DEFAULT
from dw_core.protocol.problems import Problem
from dw_core.services.invocation import Served, failed
from dw_core.services.policies import retry_policy
from dw_core.services.rows import CallAttempt, CallEnd, ServiceCall
from dw_core.services.wakes import SERVICE_RESULTS
from dw_matching.service_serving import TIMED_OUT, ServiceServer
from dw_runtime.process.background import Background
from dw_runtime.pump.pump import Pump
from dw_runtime.pump.service_ends import end_call
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

LEASE_GRACE_SECONDS: Final = 15.0
"""A call whose dispatcher is lost is taken over this long after the time its request may take."""
IN_FLIGHT_MAX: Final = 64
PUT_OFF_SECONDS: Final = 1.0
PUT_OFF_SECONDS_MAX: Final = 60.0
"""How long a call waits that this server had no means to serve: twice as long each time, up to the maximum."""
SETTLE_TRIES: Final = 5

_ERRORS: Final = (psycopg.Error, OSError, TimeoutError, Problem)


class ServiceDispatcher(Background):
    """Serves due calls, at most :data:`IN_FLIGHT_MAX` at once. A lease keeps other processes off a call, and only who
    holds it settles it; a call may be served again after its lease has lapsed, under the same idempotency key."""

    TASK_NAME = "service-dispatcher"

    def __init__(
        self,
        database: Database,
        pump: Pump,
        server: ServiceServer,
        metrics: Metrics,
        *,
        holder: str,
        announce: Callable[[Iterable[WakeKey]], None],
    ) -> None:
        self._database = database
        self._pump = pump
        self._server = server
        self._metrics = metrics
        self._holder = holder
        self._announce = announce
        self._work = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._condition = Condition("services.dispatch")

    def wake(self) -> None:
        """There may be something due; the lookout says so as long as there is."""
        self._work.set()

    async def stop(self) -> None:
        """Stop looking, and let go of what is in flight: it is served again by another process."""
        await super().stop()
        for served in self._in_flight:
            served.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        await self._server.close()

    async def _loop(self) -> None:
        while True:
            try:
                has_more = await self.pass_once()
                self._condition.works()
            except _ERRORS as error:
                self._condition.failed(error)
                has_more = False
            if not has_more:
                await self._work.wait()

    async def pass_once(self) -> bool:
        """Take what is due and begin to serve it; whether there may be more that there is room for."""
        self._work.clear()
        room = IN_FLIGHT_MAX - len(self._in_flight)
        if room <= 0:
            return False
        leased = await self._database.rows(
            "lease_service_calls", self._holder, room, LEASE_GRACE_SECONDS, float(SERVICE_REQUEST_SECONDS_DEFAULT)
        )
        for text, is_over, seconds_left in leased:
            call = msgspec.json.decode(text, type=ServiceCall)
            work = asyncio.create_task(self._serve(call, is_over=is_over, seconds_left=seconds_left))
            self._in_flight.add(work)
            work.add_done_callback(self._served)
        return len(leased) == room

    def _served(self, work: asyncio.Task[None]) -> None:
        self._in_flight.discard(work)
        self._work.set()
        if not work.cancelled() and work.exception() is not None:
            log.warning("service_call.serve_failed", error=type(work.exception()).__name__)

    async def _serve(self, call: ServiceCall, *, is_over: bool, seconds_left: float | None) -> None:
        """One attempt. A failure of ours is none, and the call is tried again later, but not for ever; an error that
        nobody has foreseen is one, so that a call which provokes it ends as its retry policy says."""
        lost = _lost(call)
        try:
            served = _given_up(lost, is_over=is_over) or await self._server.attempt(call, seconds_left)
        except _ERRORS as error:
            log.warning("service_call.put_off", service_call_id=call.service_call_id, error=type(error).__name__)
            await self._give_back(call, put_off_seconds(lost), call.attempts)
            return
        except asyncio.CancelledError:
            # The lease ends by itself if this does not reach the database.
            await asyncio.wait_for(self._give_back(call, 0.0, call.attempts), 1.0)
            raise
        except Exception:
            log.exception("service_call.broken", service_call_id=call.service_call_id)
            served = failed("ServiceDispatchFailed", _BROKEN, reason="dispatch_failed", is_retryable=True)
        if served is None:
            self._announce((SERVICE_RESULTS,))
            return
        self._metrics.service_attempts[served.outcome].inc()
        await self._settle_surely(call, served, is_over=is_over)

    async def _settle_surely(self, call: ServiceCall, served: Served, *, is_over: bool) -> None:
        """What has been done is not to be done again because of a moment's trouble with the database."""
        for _ in range(SETTLE_TRIES):
            try:
                await self._settle(call, served, is_over=is_over)
            except _ERRORS as error:
                log.warning(
                    "service_call.settle_failed", service_call_id=call.service_call_id, error=type(error).__name__
                )
                await asyncio.sleep(PUT_OFF_SECONDS)
            else:
                return

    async def _settle(self, call: ServiceCall, served: Served, *, is_over: bool) -> None:
        """Close the call, or put its next attempt off as its policy says."""
        closed = CallAttempt(
            attempt=call.attempt_count,
            outcome=served.outcome,
            error_type=served.error_type,
            message=served.message,
            closed_at=datetime.now(UTC),
        )
        attempts = call.attempts if is_over else [*call.attempts, closed]
        policy = retry_policy(call.policies)
        if served.is_retryable and not is_over and served.error_type not in policy.non_retryable_error_types:
            pause = policy.pause_after(len(attempts))
            if pause is not None:
                await self._give_back(call, float(pause), attempts)
                return
        await end_call(self._database, self._pump, self._announce, _end(call, served, attempts))

    async def _give_back(self, call: ServiceCall, seconds: float, attempts: list[CallAttempt]) -> None:
        named = (call.service_call_id, self._holder, call.attempt_count)
        await self._database.rows("retry_service_call", *named, seconds, encode_rows(attempts))


_REASONS: Final = {"completed": None, "timed_out": "timeout"}
_BROKEN: Final = "The server failed while it served the call; its log says more."
_NEVER_SERVED: Final = failed(
    "ServiceCallNotServed", "The server has had no means to serve the call, too often.", reason="dispatch_exhausted"
)


def _given_up(lost: int, *, is_over: bool) -> Served | None:
    """Why a call is not even tried: its deadline has passed, or too many dispatchers were lost over it."""
    if is_over:
        return TIMED_OUT
    return _NEVER_SERVED if lost >= SERVICE_LOST_ATTEMPTS_MAX else None


def put_off_seconds(lost: int) -> float:
    """How long a call waits that was put off or whose dispatcher was lost ``lost`` times before."""
    return min(PUT_OFF_SECONDS * 2.0 ** min(lost, 10), PUT_OFF_SECONDS_MAX)


def _lost(call: ServiceCall) -> int:
    """How often the call was leased before without an attempt that came to anything."""
    return call.attempt_count - len(call.attempts) - 1


def _end(call: ServiceCall, served: Served, attempts: list[CallAttempt]) -> CallEnd:
    is_completed = served.outcome == "completed"
    return CallEnd(
        service_call_id=call.service_call_id,
        status="completed" if is_completed else "failed",
        outcome=served.outcome,
        outcome_reason=_REASONS.get(served.outcome, "handler_failure"),
        reason=served.reason,
        message=served.message,
        error_type=served.error_type,
        response_payload=served.response_payload,
        lease_owner=call.lease_owner,
        attempt=call.attempt_count,
        attempts=attempts,
    )
