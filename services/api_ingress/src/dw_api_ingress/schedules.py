"""Changes of schedules, and fires that somebody asks for (control-plane §20.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from dw_api_ingress.auditing import Auditor
from dw_api_ingress.caller import command_context
from dw_api_ingress.schedule_listing import schedule_not_found
from dw_api_ingress.starting import check_search_attributes
from dw_core.ids import NewId
from dw_core.limits import SCHEDULE_BACKFILL_MAX, Limits
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.reasons import REASONS
from dw_core.protocol.requests_schedules import (
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleNote,
    ScheduleTrigger,
    ScheduleUpdate,
)
from dw_core.protocol.timestamps import read_time
from dw_core.schedules.changes import create, pause, resume, update
from dw_core.schedules.firing import Fired, Started, backfill, trigger
from dw_core.schedules.rows import Fire
from dw_core.schedules.writer import ScheduleWriter
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.pump.fires import FireRunner
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.schedules import lock_one, write

RELATION: Final = "workflow_schedules"
CONFLICT: Final = 409


class ScheduleHandlers:
    """Every change is decided on the locked schedule, and recorded in its history and in the audit trail."""

    def __init__(
        self,
        auditor: Auditor,
        attributes: AttributeReads,
        runner: FireRunner,
        limits: Limits,
        new_id: NewId,
        *,
        holder: str,
    ) -> None:
        self._auditor = auditor
        self._attributes = attributes
        self._runner = runner
        self._limits = limits
        self._new_id = new_id
        self._holder = holder

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "schedule_create": self.create,
            "schedule_update": self.update,
            "schedule_delete": self.delete,
            "schedule_pause": self.pause,
            "schedule_resume": self.resume,
            "schedule_trigger": self.trigger,
            "schedule_backfill": self.backfill,
        }

    async def create(self, call: Call) -> Reply:
        """201; raises ``Problem`` ``schedule_already_exists``, and for a specification that cannot be followed."""
        body: ScheduleCreate = call.body
        self._check_memo(body.memo)
        attributes = await self._checked(call, body.search_attributes)
        body = msgspec.structs.replace(body, search_attributes=attributes)
        ulid = self._new_id()
        schedule_id = body.schedule_id or ulid
        requested = self._auditor.requested(call, schedule_id)
        async with self._auditor.trail.change(RELATION, requested) as session:
            while True:
                locked = await lock_one(session, call.namespace, schedule_id)
                if locked is None:
                    former, ((now,),) = None, await session.rows("read_clock")
                else:
                    former, now = locked.schedules[call.namespace, schedule_id].schedule, locked.now
                writer = create(call.namespace, schedule_id, ulid, body, former, now, command_context(call))
                row = msgspec.json.encode(writer.schedule).decode()
                if await session.rows("create_schedule", row, "" if former is None else former.schedule_ulid):
                    break
                if former is not None:
                    message = f"Schedule [{schedule_id}] exists already."
                    raise Problem("schedule_already_exists", message, schedule_id=schedule_id)
                # Made by somebody else after the look: now it is there to be locked, perhaps deleted again.
            await write(session, [writer], is_new=True)
        return Reply({"schedule_id": schedule_id, "outcome": "created"}, status=201)

    async def update(self, call: Call) -> Reply:
        """Change the members that were sent."""
        body: ScheduleUpdate = call.body
        if body.memo is not msgspec.UNSET:
            self._check_memo(body.memo)
        if body.search_attributes is not msgspec.UNSET:
            checked = await self._checked(call, body.search_attributes)
            body = msgspec.structs.replace(body, search_attributes=checked)
        return await self._change(call, "updated", lambda writer: update(writer, body))

    async def delete(self, call: Call) -> Reply:
        """It fires no more; the runs it has started go on."""
        return await self._change(call, "deleted", lambda writer: writer.delete("deleted_by_command"))

    async def pause(self, call: Call) -> Reply:
        """It fires no more until it is resumed."""
        body: ScheduleNote = call.body
        return await self._change(call, "paused", lambda writer: pause(writer, body.note))

    async def resume(self, call: Call) -> Reply:
        """It fires again, from now on."""
        body: ScheduleNote = call.body
        return await self._change(call, "resumed", lambda writer: resume(writer, body.note))

    async def trigger(self, call: Call) -> Reply:
        """Fire now; raises ``Problem`` when the run cannot be started."""
        body: ScheduleTrigger = call.body
        schedule_id = call.params["schedule_id"]
        async with self._changing(call) as writer:
            fired = trigger(writer, body.overlap_policy, self._new_id, self._holder)
            depth = len(writer.schedule.buffered_actions)
        answer: dict[str, Any] = {"schedule_id": schedule_id}
        if fired.outcome == "buffered":
            return Reply(answer | {"outcome": "buffered", "buffer_depth": depth})
        if fired.fire is None:
            return Reply(answer | {"outcome": fired.outcome, "reason": fired.reason})
        started = (await self._carry_out([fired])).get(fired.fire.trigger_number)
        if started is not None and started.outcome == "failed":
            raise _refused(schedule_id, started)
        ids = {"workflow_id": fired.fire.workflow_id, "run_id": fired.fire.run_id}
        return Reply(answer | {"outcome": "triggered"} | ids)

    async def backfill(self, call: Call) -> Reply:
        """Fire every occurrence of a window; raises ``Problem`` for a window that is empty or has too many of them."""
        body: ScheduleBackfill = call.body
        schedule_id = call.params["schedule_id"]
        start, end = _moment(body.start_time, "start_time"), _moment(body.end_time, "end_time")
        if end <= start:
            errors = {"end_time": ["must be later than start_time"]}
            raise Problem("invalid_time_range", "The window is empty.", errors=errors, validation_errors=errors)
        async with self._changing(call) as writer:
            found = list(islice(writer.schedule.timing.between(start, end), SCHEDULE_BACKFILL_MAX + 1))
            if len(found) > SCHEDULE_BACKFILL_MAX:
                raise Invalid({"end_time": [f"the window must have at most {SCHEDULE_BACKFILL_MAX} occurrences"]})
            fired = backfill(writer, found, body.overlap_policy, self._new_id, self._holder)
        started = await self._carry_out(fired)
        results = [_result(one, started) for one in fired]
        answer = {"schedule_id": schedule_id, "outcome": "backfill_started", "fires_attempted": len(results)}
        return Reply(answer | {"results": results})

    async def _carry_out(self, fired: list[Fired]) -> dict[int, Started]:
        """Start the runs now; what cannot be started now is started by a scheduler."""
        fires: list[Fire] = [one.fire for one in fired if one.fire is not None and one.fire.lease_owner is not None]
        done = await self._runner.run(fires)
        return {number: started for (_, number), started in done.items()}

    async def _change(self, call: Call, outcome: str, change: Callable[[ScheduleWriter], None]) -> Reply:
        async with self._changing(call) as writer:
            change(writer)
        return Reply({"schedule_id": call.params["schedule_id"], "outcome": outcome})

    @asynccontextmanager
    async def _changing(self, call: Call) -> AsyncIterator[ScheduleWriter]:
        """Work on the locked schedule of the path, and write what has happened to it."""
        schedule_id = call.params["schedule_id"]
        async with self._auditor.trail.change(RELATION, self._auditor.requested(call)) as session:
            locked = await lock_one(session, call.namespace, schedule_id)
            snapshot = None if locked is None else locked.schedules[call.namespace, schedule_id]
            if locked is None or snapshot is None or snapshot.schedule.status == "deleted":
                raise schedule_not_found(schedule_id)
            writer = ScheduleWriter(snapshot, locked.now, command_context(call))
            yield writer
            if writer.schedule != snapshot.schedule:
                await write(session, [writer])

    async def _checked(self, call: Call, attributes: dict[str, Any] | None) -> dict[str, Any]:
        types = await self._attributes.types(call.namespace) if attributes else {}
        return check_search_attributes(attributes, self._limits, types)

    def _check_memo(self, memo: dict[str, Any] | None) -> None:
        limit = self._limits.max_memo_bytes
        if memo and len(msgspec.json.encode(memo)) > limit:
            errors = {"memo": [f"must have at most {limit} bytes as JSON"]}
            raise Problem(
                "memo_too_large", "The memo is too large.", limit=limit, errors=errors, validation_errors=errors
            )


def _refused(schedule_id: str, started: Started) -> Problem:
    """A conflict is told as such; anything else is a failure of the trigger (control-plane §20.2)."""
    reason, message = started.reason or "trigger_failed", started.message or "The run could not be started."
    if REASONS[reason] == CONFLICT:
        return Problem(reason, message, **started.fields | {"schedule_id": schedule_id})
    return Problem("trigger_failed", message, schedule_id=schedule_id)


def _result(fired: Fired, started: dict[int, Started]) -> dict[str, Any]:
    item: dict[str, Any] = {"fire_time": fired.occurrence.at.isoformat(), "workflow_id": None, "outcome": "skipped"}
    if fired.fire is None:
        return item | {"reason": fired.reason}
    item["workflow_id"] = fired.fire.workflow_id
    known = started.get(fired.fire.trigger_number)
    if known is not None and known.outcome == "already_started":
        return item | {"reason": "occurrence_already_started"}
    if known is not None and known.outcome == "failed":
        return item | {"outcome": "failed", "reason": known.reason}
    return item | {"outcome": "started", "reason": None}


def _moment(text: str, name: str) -> datetime:
    """A moment; one without an offset is UTC. Raises ``Invalid``."""
    moment = read_time(text)
    if moment is None:
        raise Invalid({name: ["must be an ISO 8601 time"]})
    return moment
