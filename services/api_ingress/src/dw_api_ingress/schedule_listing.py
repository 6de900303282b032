"""Reads of schedules: a page of them, one, and its history (control-plane §20.2)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from dw_api_ingress.schedule_documents import described, event, listed
from dw_api_ingress.schedule_tokens import Cursor, digest, issue, read
from dw_core.limits import SCHEDULE_HISTORY_PAGE_DEFAULT, SCHEDULE_HISTORY_PAGE_MAX
from dw_core.protocol.problems import Problem
from dw_core.schedules.filters import list_problem, read_filter
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.schedules import ScheduleReads

PAGE_SIZE_DEFAULT: Final = 50
PAGE_SIZE_MAX: Final = 200
_PARAMETERS: Final = frozenset(("status", "workflow_type", "query", "page_size", "next_page_token", "namespace"))
_DIGITS_MAX: Final = 15


class ScheduleListing:
    """Answers reads of schedules."""

    def __init__(self, schedules: ScheduleReads, attributes: AttributeReads) -> None:
        self._schedules = schedules
        self._attributes = attributes
        self._key: bytes | None = None

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "schedule_list": self.page,
            "schedule_describe": self.describe,
            "schedule_history": self.history,
        }

    async def page(self, call: Call) -> Reply:
        """Schedules of the namespace, the newest first; raises ``Problem`` for a parameter that cannot be followed."""
        query = call.query
        for name in query.keys() - _PARAMETERS:
            raise list_problem("unsupported_schedule_list_filter", name, "is not a parameter of this listing")
        size = _page_size(query)
        known = await self._attributes.registered(call.namespace) if query.get("query") else {}
        wanted = read_filter(query, known)
        token, key = query.get("next_page_token"), await self._token_key()
        behind = read(key, token, call.namespace, wanted) if token else None
        found = [] if wanted.conflict else await self._schedules.page(call.namespace, wanted, behind, size + 1)
        shown = found[:size]
        more = None
        if len(found) > size:
            last = shown[-1]
            place = (last.created_at, last.schedule_id, int(time.time()))
            more = issue(key, Cursor(call.namespace, digest(wanted), *place))
        schedules = [listed(schedule) for schedule in shown]
        return Reply({"schedules": schedules, "schedule_count": len(schedules), "next_page_token": more})

    async def _token_key(self) -> bytes:
        if self._key is None:
            self._key = await self._schedules.token_key()
        return self._key

    async def describe(self, call: Call) -> Reply:
        """The schedule of the path; raises ``Problem`` ``schedule_not_found``."""
        schedule_id = call.params["schedule_id"]
        schedule = await self._schedules.describe(call.namespace, schedule_id)
        if schedule is None:
            raise schedule_not_found(schedule_id)
        return Reply(described(schedule))

    async def history(self, call: Call) -> Reply:
        """A page of what has happened to a schedule, also to a deleted one."""
        schedule_id, query = call.params["schedule_id"], call.query
        after = _number(query.get("after_sequence") or "0")
        if after is None:
            errors = {"after_sequence": ["must be an integer of at least 0"]}
            raise Problem("invalid_after_sequence", "The position is invalid.", errors=errors, validation_errors=errors)
        asked = _number(query.get("limit") or str(SCHEDULE_HISTORY_PAGE_DEFAULT))
        limit = min(max(1, SCHEDULE_HISTORY_PAGE_DEFAULT if asked is None else asked), SCHEDULE_HISTORY_PAGE_MAX)
        found = await self._schedules.history(call.namespace, schedule_id, after, limit + 1)
        if found is None:
            raise schedule_not_found(schedule_id)
        shown = found[:limit]
        has_more = len(found) > limit
        return Reply(
            {
                "schedule_id": schedule_id,
                "namespace": call.namespace,
                "events": [event(entry) for entry in shown],
                "next_cursor": shown[-1].sequence if has_more else None,
                "has_more": has_more,
            }
        )


def schedule_not_found(schedule_id: str) -> Problem:
    """There is no such schedule, or it has been deleted."""
    return Problem("schedule_not_found", f"Schedule [{schedule_id}] does not exist.", schedule_id=schedule_id)


def _page_size(query: Mapping[str, str]) -> int:
    given = query.get("page_size")
    size = PAGE_SIZE_DEFAULT if not given else _number(given)
    if size is None or not 1 <= size <= PAGE_SIZE_MAX:
        raise list_problem("validation_failed", "page_size", f"must be an integer from 1 to {PAGE_SIZE_MAX}")
    return size


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None
