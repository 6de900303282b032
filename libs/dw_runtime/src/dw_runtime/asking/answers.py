"""The answers that workers have given to queries and to validations of updates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import psycopg

from dw_core.queries.task import QueryFailed, QueryState
from dw_runtime.asking.watching import Watching
from dw_runtime.store.database import Database, Row

STORE_ERRORS: Final = (psycopg.OperationalError, OSError)
"""The database cannot be reached."""

_decode_failure = msgspec.json.Decoder(QueryFailed).decode
_encode = msgspec.json.Encoder().encode


class Lost(msgspec.Struct, frozen=True):
    """The task is no longer known: the database was restarted and has forgotten it."""


Answer = str | QueryFailed | Lost
"""A blob, the worker's refusal, or nothing any more."""

Answers = Watching[Answer]


def watch_answers(database: Database) -> Answers:
    """A watcher that takes each answer out of the store when it is found."""
    return Watching("answers", partial(_take, database))


async def _take(database: Database, asked: Sequence[str]) -> list[tuple[str, Answer]]:
    rows = await database.rows("take_answers", _encode(list(asked)).decode())
    return [(row[0], _answer(row)) for row in rows]


def _answer(row: Row) -> Answer:
    _, state, answer, failure = row
    if state is None:
        return Lost()
    if state == QueryState.FAILED:
        return _decode_failure(failure)
    assert isinstance(answer, str), "an answered query has an answer"
    return answer
