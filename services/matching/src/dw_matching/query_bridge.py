"""Query tasks, as the HTTP handlers and embedding processes use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.limits import HISTORY_PAGE_SIZE_MAX
from dw_core.payloads.codec import from_json
from dw_core.payloads.envelope import read_envelope
from dw_core.payloads.errors import PayloadError
from dw_core.queries.task import QueryFailed, QueryState, QueryTask, answer_key, refuse_report
from dw_matching.broker import Broker
from dw_matching.query_claims import ClaimedQuery, query_task
from dw_matching.seats import Poll
from dw_matching.waiting import wait_for_task
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.store.pages import read_page

_decode = msgspec.json.Decoder(QueryTask).decode


class Report(NamedTuple):
    """Who reports on which lease of a query."""

    namespace: str
    query_task_id: str
    lease_owner: str
    attempt: int


class QueryTasks:
    """Finds queries for workers and takes their answers. ``announce`` wakes the process that waits for an answer."""

    def __init__(
        self,
        broker: Broker,
        database: Database,
        *,
        announce: Callable[[Iterable[WakeKey]], None],
        lease_seconds: int,
    ) -> None:
        self._broker = broker
        self._database = database
        self._announce = announce
        self._lease_seconds = lease_seconds

    async def poll(self, poll: Poll) -> dict[str, Any] | None:
        """Wait for a query and lease it: the task object of a poll response, or None when none came in time."""
        claimed = await wait_for_task(self._broker, poll, TaskKind.QUERY, self._lease_seconds)
        assert claimed is None or isinstance(claimed, ClaimedQuery), "the queues of this kind give nothing else"
        return None if claimed is None else query_task(claimed, await self.history(claimed))

    async def history(self, claimed: ClaimedQuery) -> bytes:
        """Every event up to the last one the claim saw, read page by page."""
        pages: list[bytes] = []
        after, last = 0, claimed.last_history_sequence
        while after < last:
            ((stored,),) = await self._database.read(
                "read_history_page", claimed.task.run_id, after, last, HISTORY_PAGE_SIZE_MAX
            )
            page = read_page(stored)
            if not page.events:
                break
            pages.append(page.events)
            after = page.last_sequence
        return b",".join(pages)

    async def complete(
        self, namespace: str, query_task_id: str, lease_owner: str, attempt: int, result: Any, result_envelope: Any
    ) -> dict[str, Any]:
        """Take an answer; the envelope wins over the plain result, and neither is the null value.

        Raises ``Problem`` for the refusals of worker-plane §13.2 and ``Invalid`` for a malformed payload.
        """
        try:
            blob = read_envelope(result_envelope)
        except PayloadError as wrong:
            raise wrong.at("result_envelope") from wrong
        try:
            answer = from_json(result) if blob is None else blob
        except PayloadError as wrong:
            raise wrong.at("result") from wrong
        await self._settle(Report(namespace, query_task_id, lease_owner, attempt), answer)
        return _accepted(query_task_id, attempt, "completed", None)

    async def fail(
        self, namespace: str, query_task_id: str, lease_owner: str, attempt: int, failed: QueryFailed
    ) -> dict[str, Any]:
        """Take a failure; raises like :meth:`complete`."""
        await self._settle(Report(namespace, query_task_id, lease_owner, attempt), failed)
        return _accepted(query_task_id, attempt, "failed", failed.reason)

    async def _settle(self, report: Report, said: str | QueryFailed) -> None:
        taken = await self.report(report, TaskKind.QUERY, said)
        if isinstance(taken, Rejection):
            settle(taken)

    async def release(self, task: QueryTask) -> None:
        """Give back a query that was leased to a poll whose client had gone."""
        await self._database.rows("release_query", task.query_task_id, task.attempt, task.lease_owner)
        self._announce((WakeKey(task.namespace, task.kind, task.queue),))

    async def report(self, report: Report, kind: TaskKind, said: str | QueryFailed) -> QueryTask | Rejection:
        """Take what a worker says of a task of this kind, a blob or its failure; or say why it is not taken."""
        async with self._database.transaction() as session:
            rows = await session.rows("lock_query", report.query_task_id, report.namespace, kind)
            now, text = rows[0] if rows else (None, None)
            task = None if text is None else _decode(text)
            refused = refuse_report(
                task, report.query_task_id, lease_owner=report.lease_owner, attempt=report.attempt, now=now
            )
            if refused is not None:
                return refused
            if isinstance(said, QueryFailed):
                failure = msgspec.json.encode(said).decode()
                await session.run("settle_query", report.query_task_id, QueryState.FAILED, None, failure)
            else:
                await session.run("settle_query", report.query_task_id, QueryState.ANSWERED, said, None)
        assert task is not None, "an unknown query is refused"
        self._announce((answer_key(task.caller),))
        return task


def _accepted(query_task_id: str, attempt: int, outcome: str, reason: str | None) -> dict[str, Any]:
    return {"query_task_id": query_task_id, "query_task_attempt": attempt, "outcome": outcome, "reason": reason}
