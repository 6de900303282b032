"""``POST …/query/{query_name}`` for the current run and for a named one (control-plane §13.2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dw_api_ingress.answers import STORE_ERRORS, Answer, Answers, Lost
from dw_api_ingress.operation_names import check_operation_name
from dw_api_ingress.watching import LATE_SECONDS, wait_for
from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.ids import NewId
from dw_core.payloads.errors import PayloadError
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import WorkflowQuery
from dw_core.queries.admission import QueryTarget, admit
from dw_core.queries.outcomes import answer_members, timed_out, worker_refusal
from dw_core.queries.task import NewQuery, QueryFailed
from dw_runtime.http.call import Call, Reply
from dw_runtime.pump.replies import settle
from dw_runtime.store.database import Database
from dw_runtime.store.reads.queries import QueryReads
from dw_runtime.telemetry.metrics import Metrics

_OUTCOMES: Final = {
    "query_task_queue_full": "queue_full",
    "query_task_queue_unavailable": "unavailable",
    "query_task_not_claimed": "not_claimed",
    "query_worker_execution_timeout": "worker_timeout",
}


class QuerySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a caller waits and a query is kept, both in seconds; how many may wait per queue; name bytes; caller.

    ``caller`` names this process to whoever has an answer for it.
    """

    timeout_seconds: float
    kept_seconds: float
    pending_max: int
    name_bytes_max: int
    caller: str


class QueryHandlers:
    """Admits queries and waits for their answers. ``announce`` wakes the polls of a queue."""

    def __init__(
        self,
        database: Database,
        answers: Answers,
        reads: QueryReads,
        metrics: Metrics,
        *,
        settings: QuerySettings,
        announce: Callable[[Iterable[WakeKey]], None],
        new_id: NewId,
    ) -> None:
        self._database = database
        self._answers = answers
        self._reads = reads
        self._metrics = metrics
        self._settings = settings
        self._announce = announce
        self._new_id = new_id

    async def current(self, call: Call) -> Reply:
        """Ask the current run of the workflow id."""
        return await self._timed(call, None)

    async def named_run(self, call: Call) -> Reply:
        """Ask the named run: the current one, or an earlier one that completed."""
        return await self._timed(call, call.params["run_id"])

    async def _timed(self, call: Call, run_id: str | None) -> Reply:
        began = time.monotonic()
        outcome = "abandoned"
        try:
            reply = await self._ask(call, run_id)
            outcome = "answered"
            return reply
        except _Abandoned as gone:
            raise Problem("query_task_not_claimed", "The caller has gone.") from gone
        except _Failed as failed:
            outcome = "failed"
            raise worker_refusal(failed.said) from failed
        except Problem as problem:
            outcome = _OUTCOMES.get(problem.reason, "refused")
            raise
        except STORE_ERRORS as error:
            outcome = "unavailable"
            raise _unavailable() from error
        finally:
            self._metrics.query_seconds[outcome].observe(time.monotonic() - began)

    async def _ask(self, call: Call, run_id: str | None) -> Reply:
        body: WorkflowQuery = call.body
        query_name = call.params["query_name"]
        check_operation_name("query_name", query_name, self._settings.name_bytes_max)
        target = await self._reads.target(call.namespace, call.params["workflow_id"], run_id)
        query = self._new_query(target, query_name, body.input)
        heard = self._answers.heard
        await self._admit(query)
        answer = await self._answer(query.query_task_id, call, heard)
        members = {
            "workflow_id": query.workflow_id,
            "run_id": query.run_id,
            "target_scope": "instance" if run_id is None else "run",
            "query_name": query_name,
            **answer_members(answer),
            "reason": None,
        }
        return Reply(members)

    def _new_query(self, target: QueryTarget, query_name: str, value: Any) -> NewQuery:
        run = target.run
        try:
            arguments = admit(target, query_name, value)
        except PayloadError as wrong:
            raise wrong.at("input") from wrong
        if isinstance(arguments, Rejection):
            scope = "run" if target.is_named else "instance"
            named = {"workflow_id": run.workflow_id, "target_scope": scope, "query_name": query_name}
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
            query_name=query_name,
            arguments=arguments,
            caller=self._settings.caller,
        )

    async def _admit(self, query: NewQuery) -> None:
        settings = self._settings
        document = msgspec.json.encode(query).decode()
        admitted = await self._database.rows(
            "admit_query", document, settings.timeout_seconds, settings.kept_seconds, settings.pending_max
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

    async def _answer(self, query_task_id: str, call: Call, heard: int) -> str:
        """The answer as a blob; raises what else may become of a query that was admitted."""
        future = self._answers.expect(query_task_id, heard)
        if call.hangup is not None:
            call.hangup.notify(lambda: _cancel(future))
        try:
            is_drained = await wait_for(future, self._settings.timeout_seconds, call.draining)
            if not future.done() or future.cancelled():
                await self._end(query_task_id, future, is_drained=is_drained)
        finally:
            self._answers.forget(query_task_id, future)
        answer = future.result() if future.done() else Lost()
        if isinstance(answer, QueryFailed):
            raise _Failed(answer)
        if isinstance(answer, Lost):
            raise _unavailable()
        return answer

    async def _end(self, query_task_id: str, future: asyncio.Future[Answer], *, is_drained: bool) -> None:
        """Give a query up. An answer that came in this very moment still counts."""
        ended = await self._database.rows("end_query", query_task_id)
        if future.cancelled():
            raise _Abandoned
        if ended and is_drained:
            raise _unavailable("This process is about to end; ask again.")
        if ended:
            raise timed_out(ended[0][0])
        self._answers.wake()
        await asyncio.wait((future,), timeout=LATE_SECONDS)


def _cancel(future: asyncio.Future[Answer]) -> None:
    future.cancel()


class _Abandoned(Exception):
    """The client has gone away; nobody reads the response."""


class _Failed(Exception):
    def __init__(self, said: QueryFailed) -> None:
        super().__init__(said.reason)
        self.said = said


def _unavailable(message: str = "Queries cannot be coordinated: the database is not available.") -> Problem:
    return Problem("query_task_queue_unavailable", message, retryable=True, retry_after_seconds=1)
