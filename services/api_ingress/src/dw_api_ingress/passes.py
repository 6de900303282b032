"""``/api/system/repair`` and ``/api/system/activity-timeouts``: what is due, one pass by hand (control-plane §22)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import psycopg

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.queries import page_size
from dw_core.discovery.repair import REPAIR_POLICY, SCAN_LIMIT, task_repair
from dw_core.engine.inputs import SweepTask
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.ids import parse_execution_id
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import ActivityTimeoutPass, RepairPass
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.pump import Pump
from dw_runtime.store.reads.passes import ExpiredActivity, NamedActivity, PassReads
from dw_runtime.store.reads.probe import PostgresProbe

ACTIVITIES_MAX: Final = 100
"""Activities that one look or pass takes into account (control-plane §22)."""
DEFAULT_CONNECTION: Final = "default"
MULTI_STATUS: Final = 207
_ERRORS: Final = (psycopg.Error, OSError, TimeoutError, Problem)


class PassHandlers:
    """Runs passes on request. They submit what the sweeps submit, so that both may run at once."""

    def __init__(
        self,
        reads: PassReads,
        probe: PostgresProbe,
        pump: Pump,
        auditor: Auditor,
        announce: Callable[[Iterable[WakeKey]], None],
    ) -> None:
        self._reads = reads
        self._probe = probe
        self._pump = pump
        self._auditor = auditor
        self._announce = announce

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "system_repair": self.repair,
            "system_repair_pass": self.repair_pass,
            "system_activity_timeouts": self.activity_timeouts,
            "system_activity_timeout_pass": self.activity_timeout_pass,
        }

    async def repair(self, call: Call) -> Reply:
        """The policy in force and what a pass would pick up, as discovery shows it."""
        snapshot = await self._probe.snapshot(call.namespace)
        return Reply(task_repair(snapshot.repair))

    async def repair_pass(self, call: Call) -> Reply:
        """End leases that have run out, and wake the queues where a task has waited too long. 207 when some failed."""
        body: RepairPass = call.body
        respects_throttle = body.respect_throttle is True
        may_begin = await self._reads.begin_repair(
            call.namespace,
            call.request_id,
            float(REPAIR_POLICY["loop_throttle_seconds"]),
            respects_throttle=respects_throttle,
        )
        found = []
        if may_begin and body.connection in (None, DEFAULT_CONNECTION):
            found = await self._reads.candidates(
                call.namespace, SCAN_LIMIT, run_ids=body.run_ids, workflow_id=body.instance_id, queue=body.queue
            )
        lapsed = [candidate for candidate in found if candidate.is_expired]
        waiting = [candidate for candidate in found if not candidate.is_expired]
        ends = await self._sweep([candidate.to_input() for candidate in lapsed])
        self._announce({WakeKey(call.namespace, candidate.task_kind, candidate.queue) for candidate in waiting})
        failures = [
            {"candidate_id": candidate.task_id, "message": _said(end)}
            for candidate, end in zip(lapsed, ends, strict=True)
            if isinstance(end, Exception)
        ]
        repaired = sum(isinstance(end, dict) for end in ends)
        report = _report(body, respects_throttle=respects_throttle, is_throttled=not may_begin) | {
            "selected_existing_task_candidates": len(found),
            "selected_total_candidates": len(found),
            "repaired_existing_tasks": repaired,
            "dispatched_tasks": repaired + len(waiting),
            "existing_task_failures": failures,
        }
        counts = {"selected": len(found), "repaired": repaired, "throttled": not may_begin}
        await self._auditor.trail.record(self._auditor.requested(call), "accepted", after=counts)
        return Reply(report, status=MULTI_STATUS if failures else 200)

    async def activity_timeouts(self, call: Call) -> Reply:
        """The activities that are past a deadline and that no sweep has ended yet."""
        limit = page_size(call.query, default=ACTIVITIES_MAX, maximum=ACTIVITIES_MAX, also="limit")
        found = await self._reads.expired(call.namespace, limit)
        return Reply(
            {
                "expired_count": len(found),
                "expired_execution_ids": [activity.execution_id for activity in found],
                "scan_limit": limit,
                "scan_pressure": len(found) >= limit,
            }
        )

    async def activity_timeout_pass(self, call: Call) -> Reply:
        """Enforce deadlines that have passed, or those of the named activities; says of each what became of it."""
        body: ActivityTimeoutPass = call.body
        limit = body.limit or ACTIVITIES_MAX
        results: list[dict[str, Any]] = []
        if body.execution_ids is None:
            due = await self._reads.expired(call.namespace, limit)
        else:
            results, due = await self._named(call.namespace, list(dict.fromkeys(body.execution_ids))[:limit])
        ends = await self._sweep([activity.to_input() for activity in due])
        results += [_result(activity.execution_id, end) for activity, end in zip(due, ends, strict=True)]
        counts = {
            name: sum(result["outcome"] == outcome for result in results)
            for name, outcome in (("enforced", "enforced"), ("skipped", "skipped"), ("failed", "error"))
        }
        await self._auditor.trail.record(self._auditor.requested(call), "accepted", after=counts)
        report = {"processed": len(results), **counts, "results": results}
        return Reply(report, status=MULTI_STATUS if counts["failed"] else 200)

    async def _named(
        self, namespace: str, execution_ids: Sequence[str]
    ) -> tuple[list[dict[str, Any]], list[ExpiredActivity]]:
        """What was skipped without a look under the lock, and what must be looked at."""
        names = {text: named for text in execution_ids if (named := parse_execution_id(text)) is not None}
        found = await self._reads.named(namespace, list(names.values()))
        skipped: list[dict[str, Any]] = []
        due: list[ExpiredActivity] = []
        for text in execution_ids:
            activity = found.get(names.get(text, ("", 0)))
            reason = _skip_reason(activity)
            if reason is not None:
                skipped.append(_skipped(text, reason))
            elif activity is not None and activity.task_number is not None:
                due.append(ExpiredActivity(activity.run_id, activity.sequence, activity.task_number))
        return skipped, due

    async def _sweep(self, changes: Sequence[SweepTask]) -> list[dict[str, Any] | Rejection | Exception]:
        """What became of each; the pump takes them as one batch."""
        ends = await asyncio.gather(*(self._pump.submit(change) for change in changes), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, _ERRORS):
                raise end
        return [end for end in ends if not isinstance(end, BaseException) or isinstance(end, Exception)]


def _skip_reason(activity: NamedActivity | None) -> str | None:
    if activity is None:
        return "execution_not_found"
    if activity.status != "pending":
        return "execution_already_terminal"
    if activity.is_run_closed:
        return "run_already_terminal"
    return "no_deadline_expired" if activity.task_number is None else None


def _skipped(execution_id: str, reason: str) -> dict[str, Any]:
    return {"execution_id": execution_id, "outcome": "skipped", "has_retry": False, "reason": reason}


def _result(execution_id: str, end: dict[str, Any] | Rejection | Exception) -> dict[str, Any]:
    if isinstance(end, Exception):
        return {"execution_id": execution_id, "outcome": "error", "has_retry": False, "reason": _said(end)}
    if isinstance(end, Rejection) or end["outcome"] != "timed_out":
        return _skipped(execution_id, "no_deadline_expired")
    return {"execution_id": execution_id, "outcome": "enforced", "has_retry": end["has_retry"], "reason": None}


def _said(error: Exception) -> str:
    """A reason that tells nothing of the store."""
    return error.reason if isinstance(error, Problem) else "backend_unavailable"


def _report(body: RepairPass, *, respects_throttle: bool, is_throttled: bool) -> dict[str, Any]:
    """The report of a pass that has found nothing.

    Contracts are read from the workers, so none is ever backfilled. A task is written with the event that needs it, so
    none is ever missing: those counts stay 0 here and in discovery.
    """
    return {
        "connection": body.connection,
        "queue": body.queue,
        "run_ids": body.run_ids or [],
        "instance_id": body.instance_id,
        "respect_throttle": respects_throttle,
        "throttled": is_throttled,
        "selected_existing_task_candidates": 0,
        "selected_missing_task_candidates": 0,
        "selected_total_candidates": 0,
        "repaired_existing_tasks": 0,
        "repaired_missing_tasks": 0,
        "dispatched_tasks": 0,
        "selected_command_contract_candidates": 0,
        "backfilled_command_contracts": 0,
        "command_contract_backfill_unavailable": 0,
        "existing_task_failures": [],
        "missing_run_failures": [],
        "command_contract_failures": [],
    }
