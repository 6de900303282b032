"""Claiming query tasks: one statement at a time for every query poll of the process, on no run's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import psycopg

from dw_core.engine.transition import WakeKey
from dw_core.limits import QUERY_LEASED_RUN_WAIT_SECONDS
from dw_core.queries.task import QueryTask
from dw_matching.broker import Broker
from dw_matching.query_claims import ClaimedQuery
from dw_runtime.process.background import Background
from dw_runtime.pump.claims import Looked, Want
from dw_runtime.store.database import Database, Row
from dw_runtime.store.encoding import encode_rows
from dw_runtime.telemetry.condition import Condition

_decode = msgspec.json.Decoder(QueryTask).decode
_ERRORS = (psycopg.Error, OSError, TimeoutError)

Granted = list[tuple[Want, ClaimedQuery]]


class QueryClaimer(Background):
    """Looks for queries on the queues it is told of, for all polls that wait there.

    While one look is under way the next one collects its queues, so that looks grow with the load. A look that fails
    gives its polls back to the broker; the lookout names their queues again within a second. ``claimed`` is told when
    queries have been leased.
    """

    TASK_NAME = "query-claimer"

    def __init__(self, database: Database, broker: Broker, *, claimed: Callable[[], None]) -> None:
        self._database = database
        self._broker = broker
        self._has_claimed = claimed
        self._condition = Condition("queries.claim")
        self._keys: set[WakeKey] = set()
        self._work = asyncio.Event()

    def probe(self, keys: Iterable[WakeKey]) -> None:
        """Look at these queues next."""
        self._keys.update(keys)
        if self._keys:
            self._work.set()

    async def _loop(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            keys, self._keys = self._keys, set()
            wants = self._broker.wants(keys)
            if wants:
                await self._look(wants)

    async def _look(self, wants: Sequence[Want]) -> None:
        granted: Granted = []
        leftover: set[WakeKey] = set()
        looked = False
        try:
            granted += await self._renew([want for want in wants if want.is_retry_unchecked])
            served = {id(want) for want, _ in granted}
            found, leftover = await self._claim([want for want in wants if id(want) not in served])
            granted += found
            looked = True
            self._condition.works()
            if granted:
                self._has_claimed()
        except _ERRORS as error:
            self._condition.failed(error)
        finally:
            self._broker.settle(wants, granted, Looked(leftover=leftover) if looked else None)

    async def _renew(self, wants: Sequence[Want]) -> Granted:
        """Polls that repeat one that was granted a query get the same lease, refreshed (worker-plane §7.5)."""
        if not wants:
            return []
        polls = encode_rows(_named(want) | _claimant(want) | {"position": place} for place, want in enumerate(wants))
        granted: dict[int, ClaimedQuery] = {}
        for row in await self._database.rows("renew_polled_queries", polls):
            granted.setdefault(row[0], _claimed(row))
        return [(wants[place], claimed) for place, claimed in granted.items()]

    async def _claim(self, wants: Sequence[Want]) -> tuple[Granted, set[WakeKey]]:
        groups: dict[object, list[Want]] = {}
        for want in wants:
            groups.setdefault((want.key, want.types, want.build_id), []).append(want)
        if not groups:
            return [], set()
        ordered = list(groups.values())
        asked = encode_rows(_wanted(position, group) for position, group in enumerate(ordered))
        granted: Granted = []
        leftover: set[WakeKey] = set()
        for row in await self._database.rows("claim_queries", asked, QUERY_LEASED_RUN_WAIT_SECONDS):
            group = ordered[row[0]]
            if row[2] is None:
                leftover.add(group[0].key)
            else:
                granted.append((group[row[1]], _claimed(row)))
        return granted, leftover


def _named(want: Want) -> dict[str, Any]:
    return {"namespace": want.key.namespace, "kind": want.key.kind, "queue": want.key.queue}


def _claimant(want: Want) -> dict[str, Any]:
    claimant = want.claimant
    return {
        "lease_owner": claimant.lease_owner,
        "poll_request_id": claimant.poll_request_id,
        "lease_seconds": claimant.lease_seconds,
    }


def _wanted(position: int, group: Sequence[Want]) -> dict[str, Any]:
    first = group[0]
    return _named(first) | {
        "position": position,
        "types": None if first.types is None else sorted(first.types),
        "build_id": first.build_id,
        "slots": len(group),
        "claimants": [_claimant(want) for want in group],
    }


def _claimed(row: Row) -> ClaimedQuery:
    return ClaimedQuery(
        task=_decode(row[2]),
        run_status=row[3],
        last_history_sequence=row[4],
        workflow_arguments=row[5],
    )
