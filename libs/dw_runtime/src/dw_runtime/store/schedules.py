"""Schedules in the database: locked for decisions, and the writing of what these come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from dw_core.schedules.rows import Fire, PendingFire, Schedule, ScheduleSnapshot
from dw_core.schedules.writer import ScheduleWriter
from dw_runtime.store.database import Session
from dw_runtime.store.encoding import encode_rows

FIRE_LEASE_SECONDS: Final = 30.0
"""How long a fire is left to who has ordered it; then any scheduler carries it out."""

ScheduleKey = tuple[str, str]
FireKey = tuple[str, int]

_decode_schedule = msgspec.json.Decoder(Schedule).decode
_decode_pending = msgspec.json.Decoder(list[PendingFire]).decode
decode_fire = msgspec.json.Decoder(Fire).decode


class Locked(NamedTuple):
    """Locked schedules by their keys, and the time."""

    now: datetime
    schedules: dict[ScheduleKey, ScheduleSnapshot]


async def lock_one(session: Session, namespace: str, schedule_id: str) -> Locked | None:
    """A schedule, also a deleted one; None when there is none."""
    return await _with_states(session, await session.rows("lock_schedule", namespace, schedule_id))


async def lock_due(session: Session, limit: int) -> Locked | None:
    """Schedules that are due or may carry out what they hold back, without those that somebody else has locked."""
    return await _with_states(session, await session.rows("lock_due_schedules", limit))


async def lock_named(session: Session, keys: Iterable[ScheduleKey]) -> Locked | None:
    """The schedules of these keys that exist, locked in key order."""
    return await _with_states(session, await session.rows("lock_schedules", _keys(keys)))


async def _with_states(session: Session, rows: Sequence[tuple[str]]) -> Locked | None:
    """What depends on other rows is read after the locks, so that it is what was committed before."""
    schedules = [_decode_schedule(text) for (text,) in rows]
    if not schedules:
        return None
    by_key = {(one.namespace, one.schedule_id): ScheduleSnapshot(schedule=one) for one in schedules}
    states = await session.rows("read_schedule_states", _keys(by_key))
    for namespace, schedule_id, _, is_latest_open, pending in states:
        snapshot = by_key[namespace, schedule_id]
        snapshot.is_latest_open = is_latest_open
        snapshot.pending = _decode_pending(pending or "[]")
    return Locked(states[0][2], by_key)


def _keys(keys: Iterable[ScheduleKey]) -> str:
    return encode_rows({"namespace": namespace, "schedule_id": schedule_id} for namespace, schedule_id in keys)


async def write(session: Session, writers: Sequence[ScheduleWriter], *, is_new: bool = False) -> None:
    """Write what has happened to locked schedules; with ``is_new`` their rows are there already."""
    if not is_new:
        await session.send("save_schedules", encode_rows(writer.schedule for writer in writers))
    events = [event for writer in writers for event in writer.events]
    if events:
        await session.send("record_schedule_events", encode_rows(events))
    fires = [fire for writer in writers for fire in writer.fires]
    if fires:
        await session.send("order_fires", encode_rows(fires), FIRE_LEASE_SECONDS)


async def lease_fires(session: Session, holder: str, limit: int) -> list[Fire]:
    """Fires that nobody carries out; they are the caller's for :data:`FIRE_LEASE_SECONDS`."""
    rows = await session.rows("lease_fires", holder, limit, FIRE_LEASE_SECONDS)
    return sorted((decode_fire(text) for (text,) in rows), key=lambda fire: (fire.schedule_ulid, fire.trigger_number))


async def forget_fires(session: Session, fires: Iterable[Fire]) -> set[FireKey]:
    """Remove fires that have been carried out, of locked schedules; those that nobody else has settled before."""
    keys = encode_rows({"schedule_ulid": one.schedule_ulid, "trigger_number": one.trigger_number} for one in fires)
    return {(ulid, number) for ulid, number in await session.rows("forget_fires", keys)}
