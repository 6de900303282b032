"""Pages of a listing: each alternative of a query is answered from one index and the answers are merged.

A page looks at a bounded number of runs. What it has looked at it knows completely; where it had to stop, it ends with
a position from which the next page goes on, even when it has found less than it was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from dw_core.limits import VISIBILITY_SCAN_MAX
from dw_core.visibility.conditions import Attribute, Conditions, Span
from dw_runtime.store.database import Database, first
from dw_runtime.store.reads.rows import ListedRun, Position, Summary

FEW: Final = 2_000
"""An index with fewer entries than this for what is asked is read first and whole."""
_STEPS: Final = (1, 10, 1_000)
_FIRST_LOOK: Final = 400
_LAST_RUN_ID: Final = "\x7f"
_decode_summary = msgspec.json.Decoder(Summary).decode
_decode_position = msgspec.json.Decoder(Position).decode
_decode_positions = msgspec.json.Decoder(list[Position]).decode
_NEWEST: Final = "infinity"
_OLDEST: Final = "-infinity"


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runs of an alternative come from: an index and what is looked up there."""

    kind: str
    texts: tuple[str, ...] = ()
    numbers: tuple[Any, ...] = ()
    attribute: str = ""
    low: Any = None
    high: Any = None


class Found(msgspec.Struct, kw_only=True):
    """What is known of one alternative: its matches, and down to which position they are all; None is to the end."""

    matches: list[Position] = []
    down_to: Position | None = None


class Listing:
    """Finds the runs of a listing. ``stale_after_seconds`` is the silence after which a worker counts as gone."""

    def __init__(self, database: Database, *, stale_after_seconds: int) -> None:
        self._database = database
        self._stale_after_seconds = stale_after_seconds

    async def page(
        self, namespace: str, alternatives: Sequence[Conditions], after: Position | None, size: int
    ) -> tuple[list[ListedRun], Position | None]:
        """At most ``size`` runs behind ``after`` that meet one of the alternatives, newest first, and where to go on.

        No position means that there is nothing more.
        """
        budget = VISIBILITY_SCAN_MAX // len(alternatives)
        found = [await self._find(namespace, asked, after, size, budget) for asked in alternatives]
        horizon = max((f.down_to for f in found if f.down_to is not None), key=_order, default=None)
        merged = sorted({m for f in found for m in f.matches}, key=_order, reverse=True)
        if horizon is not None:
            merged = [match for match in merged if _order(match) >= _order(horizon)]
        if len(merged) > size:
            merged = merged[:size]
            horizon = merged[-1]
        return await self._show(merged), horizon

    async def _show(self, matches: Sequence[Position]) -> list[ListedRun]:
        if not matches:
            return []
        ids = msgspec.json.encode([match.run_id for match in matches]).decode()
        rows = await self._database.read("show_runs", ids, self._stale_after_seconds)
        return [
            ListedRun(summary=_decode_summary(summary), status=status, is_supported=is_supported)
            for summary, status, is_supported in rows
        ]

    async def _find(self, namespace: str, asked: Conditions, after: Position | None, size: int, budget: int) -> Found:
        if asked.statuses == [] or any(keyword.allowed == [] for keyword in asked.fields.values()):
            return Found()
        index = await self._choose(namespace, asked, after)
        conditions = encode_conditions(asked)
        found = Found(down_to=after)
        step = size + 1 if conditions == EVERYTHING else max(_FIRST_LOOK, size + 1)
        if index.kind == "range":
            step = FEW
        for factor in _STEPS:
            chunk = min(step * factor, budget)
            wanted = size + 1 - len(found.matches)
            count, last, matches = await self._look(namespace, index, asked, found.down_to, conditions, chunk, wanted)
            budget -= count
            if index.kind == "range" and count == chunk:  # it has grown, and gives what it has in no order
                index = Index(kind="recent")
                continue
            found.matches += matches
            if len(matches) == wanted:
                found.down_to = matches[-1]
                return found
            if count < chunk:
                found.down_to = None
                return found
            found.down_to = last
            if budget <= 0:
                return found
        return found

    async def _choose(self, namespace: str, asked: Conditions, after: Position | None) -> Index:
        """The index with the fewest entries for what is asked."""
        indexes = candidate_indexes(asked)
        if not indexes:
            return Index(kind="recent")
        if len(indexes) == 1 and indexes[0].kind != "range":
            return indexes[0]
        looks = [self._look(namespace, index, asked, after, EVERYTHING, FEW, 0) for index in indexes]
        counts = [count for count, _, _ in await asyncio.gather(*looks)]
        fewest = min(counts)
        if fewest == FEW:  # none is small; a range that is not small has no order to walk in
            return next((index for index in indexes if index.kind != "range"), Index(kind="recent"))
        return indexes[counts.index(fewest)]

    async def _look(
        self,
        namespace: str,
        index: Index,
        asked: Conditions,
        after: Position | None,
        conditions: str,
        chunk: int,
        wanted: int,
    ) -> tuple[int, Position | None, list[Position]]:
        started_at, run_id = _behind(after, asked.started)
        row = first(
            await self._database.read(
                "find_runs",
                namespace,
                index.kind,
                list(index.texts),
                [str(number) for number in index.numbers],
                started_at,
                run_id,
                _OLDEST if asked.started.low is None else asked.started.low.isoformat(),
                conditions,
                chunk,
                wanted,
                index.attribute,
                "-infinity" if index.low is None else str(index.low),
                "infinity" if index.high is None else str(index.high),
            )
        )
        assert row is not None
        count, last, matches = row
        return (
            count,
            None if last is None else _decode_position(last),
            [] if matches is None else _decode_positions(matches),
        )


def _order(position: Position) -> tuple[datetime, str]:
    return position.started_at, position.run_id


def _behind(after: Position | None, started: Span) -> tuple[str, str]:
    """The position behind which to look: that of the page, or the latest start that is asked for."""
    ceiling: tuple[datetime, str] | None = None
    if started.high is not None:
        ceiling = (started.high, _LAST_RUN_ID if started.has_high else "")
    if after is not None and (ceiling is None or _order(after) < ceiling):
        ceiling = _order(after)
    return (_NEWEST, "") if ceiling is None else (ceiling[0].isoformat(), ceiling[1])


def candidate_indexes(asked: Conditions) -> list[Index]:
    """The indexes that have every run that meets the conditions; only one when it cannot have many."""
    allowed = {column: k.allowed for column, k in asked.fields.items() if k.allowed is not None}
    if "run_id" in allowed:
        return [Index(kind="run_id", texts=tuple(allowed["run_id"]))]
    indexes = [_of_attribute(attribute) for attribute in asked.attributes if not attribute.is_negative]
    indexes += [Index(kind=column, texts=tuple(texts)) for column, texts in allowed.items()]
    if asked.bucket is not None:
        indexes.append(Index(kind="bucket", texts=(asked.bucket,)))
    return indexes


def _of_attribute(attribute: Attribute) -> Index:
    if attribute.texts is not None:
        return Index(kind="text", attribute=attribute.name, texts=tuple(dict.fromkeys(attribute.texts)))
    if attribute.numbers is not None:
        return Index(kind="number", attribute=attribute.name, numbers=tuple(dict.fromkeys(attribute.numbers)))
    return Index(kind="range", attribute=attribute.name, low=attribute.low, high=attribute.high)


EVERYTHING: Final = "{}"


def encode_conditions(asked: Conditions) -> str:
    """The conditions as the statement takes them; what the index or the position sees to may be among them."""
    shown: dict[str, Any] = {}
    for column, keyword in asked.fields.items():
        if keyword.allowed is not None:
            shown[f"{column}_in"] = keyword.allowed
        if keyword.denied:
            shown[f"{column}_not"] = keyword.denied
    if asked.statuses is not None:
        shown["statuses"] = asked.statuses
    for name, span in (("started", asked.started), ("closed", asked.closed)):
        if span.low is not None:
            shown |= {f"{name}_low": span.low, f"{name}_has_low": span.has_low}
        if span.high is not None:
            shown |= {f"{name}_high": span.high, f"{name}_has_high": span.has_high}
    for name, times in (("not_started", asked.not_started), ("not_closed", asked.not_closed)):
        if times:
            shown[name] = times
    if asked.attributes:
        shown["attributes"] = asked.attributes
    if asked.substring is not None:
        shown["substring"] = asked.substring
    return msgspec.json.encode(shown).decode()
