"""Carrying out the fires of schedules: ordinary starts through the pump, and the record of what they came to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import psycopg
import structlog

from dw_core.engine.transition import Rejection
from dw_core.ids import NewId
from dw_core.protocol.problems import Problem
from dw_core.schedules.actions import end_input, start_input
from dw_core.schedules.firing import Started, settle
from dw_core.schedules.rows import Fire
from dw_core.schedules.writer import ScheduleWriter
from dw_runtime.pump.pump import Pump
from dw_runtime.store.database import Database
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.schedules import FireKey, forget_fires, lock_named, write
from dw_runtime.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

Types = Mapping[str, Mapping[str, str]]
"""By namespace, the types of its search attributes by name."""

_NOT_NOW: Final = (psycopg.Error, OSError, TimeoutError, Problem)
"""A failure of ours: the fire is carried out again when its lease has lapsed."""


class FireRunner:
    """Starts the runs that fires order. A fire may be carried out any number of times, by any process: its start has a
    request id of its own, and only who removes its row records what it came to."""

    def __init__(self, database: Database, pump: Pump, metrics: Metrics, new_id: NewId) -> None:
        self._database = database
        self._attributes = AttributeReads(database)
        self._pump = pump
        self._metrics = metrics
        self._new_id = new_id

    async def run(self, fires: Sequence[Fire]) -> dict[FireKey, Started]:
        """What became of fires by (schedule ULID, number); one that could not be carried out now is missing.

        The fires of a schedule that end each other's runs are carried out in order, all others at once.
        """
        namespaces = sorted({fire.namespace for fire in fires if fire.search_attributes})
        types = {namespace: await self._attributes.types(namespace) for namespace in namespaces}
        groups: dict[str, list[Fire]] = {}
        for fire in fires:
            groups.setdefault(fire.schedule_ulid, []).append(fire)
        chains: list[list[Fire]] = []
        for group in groups.values():
            chains += [group] if any(fire.ends for fire in group) else [[fire] for fire in group]
        typed = {fire.namespace for fire in fires if fire.search_attributes}
        types = {namespace: await self._attributes.types(namespace) for namespace in typed}
        done: dict[FireKey, Started] = {}
        for outcomes in await asyncio.gather(*(self._chain(chain, types) for chain in chains)):
            done.update(outcomes)
        if done:
            await self._settle([fire for fire in fires if _key(fire) in done], done)
        return done

    async def _chain(self, fires: Sequence[Fire], types: Mapping[str, dict[str, str]]) -> dict[FireKey, Started]:
        done: dict[FireKey, Started] = {}
        for fire in fires:
            try:
                done[_key(fire)] = await self._start(fire, types.get(fire.namespace, {}))
            except _NOT_NOW as error:
                log.warning("schedules.fire_put_off", schedule_id=fire.schedule_id, error=type(error).__name__)
                break
        return done

    async def _start(self, fire: Fire, types: Mapping[str, str]) -> Started:
        ending = end_input(fire, self._new_id())
        if ending is not None:
            # A run that is gone or closed has made room already.
            await self._pump.submit(ending)
        reply = await self._pump.submit(start_input(fire, self._new_id(), types))
        if isinstance(reply, Rejection):
            return Started("failed", reason=reply.reason, message=reply.message, fields=reply.fields)
        run_id: str = reply["run_id"]
        return Started("started" if run_id == fire.run_id else "already_started", run_id)

    async def _settle(self, fires: Sequence[Fire], done: dict[FireKey, Started]) -> None:
        async with self._database.transaction() as session:
            locked = await lock_named(session, {(fire.namespace, fire.schedule_id) for fire in fires})
            if locked is None:
                return
            ours = await forget_fires(session, fires)
            writers: dict[tuple[str, str], ScheduleWriter] = {}
            for fire in fires:
                name = (fire.namespace, fire.schedule_id)
                if _key(fire) not in ours or name not in locked.schedules:
                    continue
                if name not in writers:
                    writers[name] = ScheduleWriter(locked.schedules[name], locked.now)
                settle(writers[name], fire, done[_key(fire)])
            if writers:
                await write(session, list(writers.values()))
        for fire in fires:
            if _key(fire) in ours:
                self._metrics.schedule_fires[done[_key(fire)].outcome].inc()


def _key(fire: Fire) -> FireKey:
    return fire.schedule_ulid, fire.trigger_number
