"""``GET …/runs/{run_id}/history`` (control-plane §10.5): stored bytes spliced into a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from dw_api_ingress.queries import flag, page_size
from dw_core.history.paging import decode_page_token, encode_page_token
from dw_core.limits import HISTORY_PAGE_SIZE_MAX, LONG_POLL_DEFAULT_SECONDS
from dw_runtime.http.call import Call, Reply
from dw_runtime.store.reads.rows import HistoryPage
from dw_runtime.store.reads.runs import RunReads

PAGE_SIZE_DEFAULT = 100
LOOK_AGAIN_SECONDS = 0.5
"""Pause of a held read between two looks at the store, when nobody tells it about news."""

WaitForHistory = Callable[[str, float], Awaitable[None]]
"""Waits until the run (by id) may have new events, at most so many seconds."""


class HistoryHandlers:
    """Answers history reads, and holds those that ask to wait for a new event."""

    def __init__(self, runs: RunReads, wait: WaitForHistory | None = None) -> None:
        self._runs = runs
        self._wait = wait

    async def read(self, call: Call) -> Reply:
        """A page of events after the token.

        ``next_page_token`` is null on the last page, except for a reader that waits for new events of an open run: it
        gets the position to continue from. Raises ``Problem`` ``invalid_page_token`` and ``Invalid``.
        """
        size = page_size(call.query, default=PAGE_SIZE_DEFAULT, maximum=HISTORY_PAGE_SIZE_MAX)
        token = call.query.get("next_page_token")
        after = decode_page_token(token) if token else 0
        is_following = flag(call.query, "wait_new_event")
        page = await self._page(call, after, size)
        if is_following:
            page = await self._follow(call, page, after, size)
        reached = page.page.last_sequence or after
        has_more = reached < page.last_sequence or (is_following and not page.is_closed)
        return Reply(_document(call, page.page.events, encode_page_token(reached) if has_more else None))

    async def _page(self, call: Call, after: int, size: int) -> HistoryPage:
        params = call.params
        return await self._runs.history(
            call.namespace, params["workflow_id"], params["run_id"], after_sequence=after, size=size
        )

    async def _follow(self, call: Call, page: HistoryPage, after: int, size: int) -> HistoryPage:
        """Look again until there is an event, the run is closed, the time is up or this process stops."""
        deadline = time.monotonic() + LONG_POLL_DEFAULT_SECONDS
        while not page.page.events and not page.is_closed and not call.draining.is_set():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            if self._wait is None:
                await _pause(call.draining, min(remaining, LOOK_AGAIN_SECONDS))
            else:
                await self._wait(call.params["run_id"], remaining)
            page = await self._page(call, after, size)
        return page


async def _pause(draining: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until this process is told to stop."""
    try:
        await asyncio.wait_for(draining.wait(), seconds)
    except TimeoutError:
        return


def _document(call: Call, events: bytes, token: str | None) -> bytes:
    encode = msgspec.json.encode
    return b'{"workflow_id":%b,"run_id":%b,"events":[%b],"next_page_token":%b}' % (
        encode(call.params["workflow_id"]),
        encode(call.params["run_id"]),
        events,
        encode(token),
    )
