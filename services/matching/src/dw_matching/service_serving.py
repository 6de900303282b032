"""Serving one attempt of a service call: a run, a question to a run, or an HTTP target answers it (engine §6.18)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from dw_core.engine.inputs import Input
from dw_core.engine.transition import Rejection
from dw_core.limits import Limits
from dw_core.payloads.envelope import envelope
from dw_core.protocol.problems import Problem
from dw_core.services.addresses import ForbiddenTarget
from dw_core.services.invocation import Served, failed, read_answer, task_input
from dw_core.services.policies import request_seconds
from dw_core.services.rows import ServiceCall
from dw_core.services.targets import (
    Unservable,
    activity_input,
    http_target,
    query_target,
    signal_input,
    start_input,
    update_input,
)
from dw_matching.http_targets import HttpTargets, TargetFailed
from dw_runtime.asking.queries import Asking, QueryRefused, Question
from dw_runtime.pump.pump import Pump

TIMED_OUT: Final = Served(
    outcome="timed_out", error_type="ServiceCallTimedOut", message="The service call took too long.", is_retryable=True
)
_ASK_AGAIN: Final = ("query_task_queue_full", "query_task_not_claimed", "query_worker_unavailable")
"""Refusals of a query that another moment may not bring; the retry policy of the operation says how often to try."""
_NOT_OURS: Final = "query_task_queue_unavailable"


class ServiceServer:
    """Carries out attempts. It changes nothing but what the call is bound to; who leased the call settles it."""

    def __init__(self, pump: Pump, asking: Asking, targets: HttpTargets, limits: Limits) -> None:
        self._pump = pump
        self._asking = asking
        self._targets = targets
        self._limits = limits

    async def close(self) -> None:
        """Close the connections to HTTP targets."""
        await self._targets.close()

    async def attempt(self, call: ServiceCall, seconds_left: float | None) -> Served | None:
        """What became of it; None when a run has taken the call over. ``seconds_left`` until the call's deadline."""
        try:
            match call.binding_kind:
                case "start_workflow":
                    return await self._submit(start_input(call, self._limits))
                case "activity_execution":
                    return await self._submit(activity_input(call))
                case "update_workflow":
                    return await self._submit(update_input(call))
                case "signal_workflow":
                    return await self._submit(signal_input(call)) or Served(outcome="completed")
                case "query_workflow":
                    return await self._ask(call, _seconds(call, seconds_left))
                case "invocable_http":
                    return await self._request(call, _seconds(call, seconds_left))
                case _:
                    raise AssertionError(f"calls of {call.binding_kind} are never admitted")
        except Unservable as wrong:
            return failed("ServiceBindingInvalid", str(wrong), reason="unknown_target")

    async def _submit(self, change: Input) -> Served | None:
        """The run or the workflow id may not take it. A call that has ended meanwhile needs no word of ours."""
        reply = await self._pump.submit(change)
        if not isinstance(reply, Rejection) or reply.reason == "service_call_terminal":
            return None
        return failed("ServiceTargetRefused", reply.message, reason=reply.reason)

    async def _ask(self, call: ServiceCall, seconds: float) -> Served:
        """A query changes nothing, so an attempt whose process was lost is simply made again."""
        target = query_target(call)
        question = Question(
            namespace=call.namespace,
            workflow_id=target.workflow_id,
            run_id=target.run_id,
            query_name=target.query_name,
            input=envelope(call.request_payload),
        )
        try:
            # A dispatcher that stops cancels its attempts; it needs no event for that.
            asked = await self._asking.ask(question, asyncio.Event(), at_most_seconds=seconds)
        except QueryRefused as refused:
            return failed("ServiceQueryFailed", refused.said.message, reason=refused.said.reason)
        except Problem as problem:
            if problem.reason == _NOT_OURS:
                raise
            if problem.reason == "query_worker_execution_timeout":
                return TIMED_OUT
            again = problem.reason in _ASK_AGAIN
            return failed("ServiceTargetRefused", problem.message, reason=problem.reason, is_retryable=again)
        return Served(outcome="completed", response_payload=asked.answer)

    async def _request(self, call: ServiceCall, seconds: float) -> Served:
        target = http_target(call)
        expires_at = datetime.now(UTC) + timedelta(seconds=seconds)
        body = task_input(call, target.handler, expires_at)
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._targets.post(target.url, body, call.service_call_id)
        except TimeoutError:
            return TIMED_OUT
        except ForbiddenTarget as forbidden:
            return failed("ForbiddenServiceTarget", str(forbidden), reason="target_forbidden")
        except TargetFailed as error:
            return failed("ServiceTargetUnreachable", str(error), is_retryable=True)
        return read_answer(call, status, answer)


def _seconds(call: ServiceCall, seconds_left: float | None) -> float:
    """How long a request or a question may take."""
    seconds = float(request_seconds(call.policies))
    return seconds if seconds_left is None else min(seconds, seconds_left)
