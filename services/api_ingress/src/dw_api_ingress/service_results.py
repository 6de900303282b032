"""Waiting for the end of service calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dw_runtime.asking.watching import Watching
from dw_runtime.store.database import Database
from dw_runtime.store.encoding import encode_rows

ServiceResults = Watching[None]
"""Tells waiting callers that their call, named by its id, has ended."""


def watch_calls(database: Database) -> ServiceResults:
    """A watcher that looks for calls that have ended."""
    return Watching("services.results", partial(_closed, database))


async def _closed(database: Database, asked: Sequence[str]) -> list[tuple[str, None]]:
    return [(call_id, None) for (call_id,) in await database.rows("closed_service_calls", encode_rows(asked))]
