"""Asking a run a question: one road for callers of the control plane and service calls (control-plane §13.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.ids import NewId
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Problem
from dw_core.queries.admission import QueryTarget, admit
from dw_core.queries.outcomes import timed_out
from dw_core.queries.task import NewQuery, QueryFailed
from dw_runtime.asking.answers import Answer, Answers, Lost
from dw_runtime.asking.watching import LATE_SECONDS, wait_for
from dw_runtime.http.hangup import HangupWatch
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.store.reads.queries import QueryReads


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a caller waits and a query is kept, both in seconds; how many may wait per queue; name bytes; caller.

    ``caller`` names this process to whoever has an answer for it.
    """

    timeout_seconds: float
    kept_seconds: float
    pending_max: int
    name_bytes_max: int
    caller: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of which run; ``run_id`` None is the current one. ``input`` is JSON or a payload envelope."""

    namespace: str
    workflow_id: str
    run_id: str | None
    query_name: str
    input: Any


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A query and its answer, a blob."""

    query: NewQuery
    answer: str


class AskerGone(Exception):
    """The client has gone away; nobody reads the response."""


class QueryRefused(Exception):
    """A worker took the query and could not answer it: ``said`` is its word."""

    def __init__(self, said: QueryFailed) -> None:
        super().__init__(said.reason)
        self.said = said


class Asking:
    """Admits queries and waits for their answers. ``announce`` wakes the polls of a queue."""

    def __init__(
        self,
        database: Database,
        answers: Answers,
        reads: QueryReads,
        *,
        settings: QuerySettings,
        announce: Callable[[Iterable[WakeKey]], None],
        new_id: NewId,
    ) -> None:
        self._database = database
        self._reads = reads
        self._announce = announce
        self._new_id = new_id
        self.answers = answers
        self.settings = settings

    async def ask(
        self,
        question: Question,
        draining: asyncio.Event,
        *,
        hangup: HangupWatch | None = None,
        at_most_seconds: float | None = None,
    ) -> Asked:
        """The answer of a worker, within the settings' time and ``at_most_seconds``.

        Raises ``Problem`` when the run cannot be asked or nobody answers in time, :class:`QueryRefused`, and
        :class:`AskerGone` when ``hangup`` says so first.
        """
        seconds = self.settings.timeout_seconds
        if at_most_seconds is not None:
            seconds = min(seconds, at_most_seconds)
        target = await self._reads.target(question.namespace, question.workflow_id, question.run_id)
        query = self._new_query(target, question)
        heard = self.answers.heard
        await self._admit(query, seconds)
        answer = await self._answer(query.query_task_id, heard, seconds, draining, hangup)
        return Asked(query=query, answer=answer)

    def _new_query(self, target: QueryTarget, question: Question) -> NewQuery:
        run = target.run
        try:
            arguments = admit(target, question.query_name, question.input)
        except PayloadError as wrong:
            raise wrong.at("input") from wrong
        if isinstance(arguments, Rejection):
            scope = "run" if target.is_named else "instance"
            named = {"workflow_id": run.workflow_id, "target_scope": scope, "query_name": question.query_name}
            settle(msgspec.structs.replace(arguments, fields=named | arguments.fields))
        assert isinstance(arguments, str), "a rejection was raised"
        return NewQuery(
            query_task_id=self._new_id(),
            namespace=run.namespace,
            queue=run.queue,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            workflow_type=run.workflow_type,
            compatibility=run.compatibility,
            query_name=question.query_name,
            arguments=arguments,
            caller=self.settings.caller,
        )

    async def _admit(self, query: NewQuery, seconds: float) -> None:
        settings = self.settings
        document = msgspec.json.encode(query).decode()
        admitted = await self._database.rows(
            "admit_query", document, seconds, settings.kept_seconds, settings.pending_max
        )
        if not admitted:
            raise Problem(
                "query_task_queue_full",
                f"{settings.pending_max} queries wait on queue {query.queue} already.",
                task_queue=query.queue,
                retryable=True,
                retry_after_seconds=1,
            )
        self._announce((WakeKey(query.namespace, TaskKind.QUERY, query.queue),))

    async def _answer(
        self, query_task_id: str, heard: int, seconds: float, draining: asyncio.Event, hangup: HangupWatch | None
    ) -> str:
        """The answer as a blob; raises what else may become of a query that was admitted."""
        future = self.answers.expect(query_task_id, heard)
        if hangup is not None:
            hangup.notify(lambda: _cancel(future))
        try:
            is_drained = await wait_for(future, seconds, draining)
            if not future.done() or future.cancelled():
                await self._end(query_task_id, future, is_drained=is_drained)
        finally:
            self.answers.forget(query_task_id, future)
        answer = future.result() if future.done() else Lost()
        if isinstance(answer, QueryFailed):
            raise QueryRefused(answer)
        if isinstance(answer, Lost):
            raise unavailable()
        return answer

    async def _end(self, query_task_id: str, future: asyncio.Future[Answer], *, is_drained: bool) -> None:
        """Give a query up. An answer that came in this very moment still counts."""
        ended = await self._database.rows("end_query", query_task_id)
        if future.cancelled():
            raise AskerGone
        if ended and is_drained:
            raise unavailable("This process is about to end; ask again.")
        if ended:
            raise timed_out(ended[0][0])
        self.answers.wake()
        await asyncio.wait((future,), timeout=LATE_SECONDS)


def _cancel(future: asyncio.Future[Answer]) -> None:
    future.cancel()


def unavailable(message: str = "Queries cannot be coordinated: the database is not available.") -> Problem:
    """Nobody can say what became of a query; asking again does no harm."""
    return Problem("query_task_queue_unavailable", message, retryable=True, retry_after_seconds=1)
