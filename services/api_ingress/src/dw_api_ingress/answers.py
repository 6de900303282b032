"""Waiting for the answers of queries: one watcher per process, whatever the number of callers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Final

import msgspec
import psycopg

from dw_core.queries.task import QueryFailed, QueryState
from dw_runtime.process.background import Background
from dw_runtime.store.database import Database, Row
from dw_runtime.telemetry.condition import Condition

LOOK_SECONDS: Final = 1.0
"""How late an answer may be noticed when its wake signal was lost; one statement per process and interval."""
BUSY_SECONDS: Final = 0.002
"""Wakes that come faster than this are looked after together."""

LATE_SECONDS: Final = 5.0
"""How long an answer that is known to have come may take to be read."""

STORE_ERRORS: Final = (psycopg.OperationalError, OSError)
"""The database cannot be reached."""

_decode_failure = msgspec.json.Decoder(QueryFailed).decode
_encode = msgspec.json.Encoder().encode


class Lost(msgspec.Struct, frozen=True):
    """The query is no longer known: the database was restarted and has forgotten it."""


Answer = str | QueryFailed | Lost
"""A blob, the worker's refusal, or nothing any more."""


class Answers(Background):
    """Gives each waiting caller its answer. An answer is taken out of the store when it is found.

    ``heard`` counts the wakes: an answer may come before its caller has begun to wait.
    """

    TASK_NAME = "answers"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._news = asyncio.Event()
        self.heard = 0
        self._condition = Condition("answers")

    def expect(self, query_task_id: str, heard_before: int) -> asyncio.Future[Answer]:
        """Wait for the answer of an admitted query; ``heard_before`` is :attr:`heard` from before its admission."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[query_task_id] = future
        if self.heard != heard_before or len(self._waiting) == 1:
            self._news.set()
        return future

    def forget(self, query_task_id: str) -> None:
        """No longer wait for it."""
        self._waiting.pop(query_task_id, None)

    def wake(self) -> None:
        """An answer has come for a caller of this process, or one is overdue."""
        self.heard += 1
        self._news.set()

    async def _loop(self) -> None:
        while True:
            # Without callers there is nothing to look after, however long it takes.
            patience = LOOK_SECONDS * random.uniform(0.8, 1.2) if self._waiting else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), patience)
            self._news.clear()
            if not self._waiting:
                continue
            try:
                await self._look()
                self._condition.works()
            except (psycopg.Error, OSError, TimeoutError) as error:
                self._condition.failed(error)
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(BUSY_SECONDS)

    async def _look(self) -> None:
        asked = list(self._waiting)
        self._deliver(await self._database.rows("take_answers", _encode(asked).decode()))

    def _deliver(self, rows: Sequence[Row]) -> None:
        for row in rows:
            future = self._waiting.pop(row[0], None)
            if future is not None and not future.done():
                future.set_result(_answer(row))


def _answer(row: Row) -> Answer:
    _, state, answer, failure = row
    if state is None:
        return Lost()
    if state == QueryState.FAILED:
        return _decode_failure(failure)
    assert isinstance(answer, str), "an answered query has an answer"
    return answer
