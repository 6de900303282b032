"""What an observation of a run is made of, and the service calls of its code (control-plane §10.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from dw_core.engine.run_rows import ChildCall, Timer
from dw_core.services.rows import ServiceCall
from dw_runtime.store.database import Database
from dw_runtime.store.pages import Page, read_page

WAITS_MAX: Final = 25
"""Waits of each kind that an observation lists."""
LINKS_MAX: Final = 50


class OpenUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """An update that was accepted and is not applied yet."""

    update_id: str
    update_name: str
    accepted_at: datetime


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How another run stands by itself, whatever this one knows of it."""

    status: str | None
    closed_reason: str | None
    closed_at: datetime | None


class ChildLink(Outcome, frozen=True, kw_only=True):
    """The call of a child; the outcome of the run that answers it is null when that run is gone."""

    call: ChildCall


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Beside the rows of a run; one more link than are shown tells that there are more."""

    timers: list[Timer]
    children: list[ChildCall]
    updates: list[OpenUpdate]
    links: list[ChildLink]
    parent: Outcome | None


_decode_timers = msgspec.json.Decoder(list[Timer]).decode
_decode_children = msgspec.json.Decoder(list[ChildCall]).decode
_decode_updates = msgspec.json.Decoder(list[OpenUpdate]).decode
_decode_links = msgspec.json.Decoder(list[ChildLink]).decode
_decode_outcome = msgspec.json.Decoder(Outcome).decode
_decode_call = msgspec.json.Decoder(ServiceCall).decode


class ObservationReads:
    """Reads around one run, bounded whatever its size."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def around(self, run_id: str, parent_run_id: str | None) -> Observed:
        """What an existing run waits for and hangs together with."""
        bounds = (WAITS_MAX, LINKS_MAX + 1)
        ((timers, children, updates, links, parent),) = await self._database.read(
            "observe_run", run_id, *bounds, parent_run_id
        )
        return Observed(
            timers=_decode_timers(timers),
            children=_decode_children(children),
            updates=_decode_updates(updates),
            links=_decode_links(links),
            parent=None if parent is None else _decode_outcome(parent),
        )

    async def history(self, run_id: str, *, after: int, last: int, size: int) -> Page:
        """At most ``size`` events behind the sequence ``after``, none behind ``last``."""
        rows = await self._database.read("read_observed_history", run_id, after, last, size)
        return read_page(rows[0][0] if rows else None)

    async def service_calls(self, run_id: str, limit: int) -> list[ServiceCall]:
        """At most ``limit`` calls that the code of a run has made, the newest first."""
        rows = await self._database.read("list_nexus_operations", run_id, limit)
        return [_decode_call(text) for (text,) in rows]
