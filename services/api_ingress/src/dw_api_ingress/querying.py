"""``POST …/query/{query_name}`` for the current run and for a named one (control-plane §13.2)."""

from __future__ import annotations

import time
from typing import Final

from dw_api_ingress.operation_names import check_operation_name
from dw_core.protocol.problems import Problem
from dw_core.protocol.requests_control import WorkflowQuery
from dw_core.queries.outcomes import answer_members, worker_refusal
from dw_runtime.asking.answers import STORE_ERRORS
from dw_runtime.asking.queries import AskerGone, Asking, QueryRefused, Question, unavailable
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.telemetry.metrics import Metrics

_OUTCOMES: Final = {
    "query_task_queue_full": "queue_full",
    "query_task_queue_unavailable": "unavailable",
    "query_task_not_claimed": "not_claimed",
    "query_worker_execution_timeout": "worker_timeout",
}


class QueryHandlers:
    """Turns a request into a question, and what became of it into a response."""

    def __init__(self, asking: Asking, metrics: Metrics) -> None:
        self._asking = asking
        self._metrics = metrics

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {"workflow_query": self.current, "workflow_run_query": self.named_run}

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
        except AskerGone as gone:
            raise Problem("query_task_not_claimed", "The caller has gone.") from gone
        except QueryRefused as refused:
            outcome = "failed"
            raise worker_refusal(refused.said) from refused
        except Problem as problem:
            outcome = _OUTCOMES.get(problem.reason, "refused")
            raise
        except STORE_ERRORS as error:
            outcome = "unavailable"
            raise unavailable() from error
        finally:
            self._metrics.query_seconds[outcome].observe(time.monotonic() - began)

    async def _ask(self, call: Call, run_id: str | None) -> Reply:
        body: WorkflowQuery = call.body
        query_name = call.params["query_name"]
        check_operation_name("query_name", query_name, self._asking.settings.name_bytes_max)
        question = Question(
            namespace=call.namespace,
            workflow_id=call.params["workflow_id"],
            run_id=run_id,
            query_name=query_name,
            input=body.input,
        )
        asked = await self._asking.ask(question, call.draining, hangup=call.hangup)
        members = {
            "workflow_id": asked.query.workflow_id,
            "run_id": asked.query.run_id,
            "target_scope": "instance" if run_id is None else "run",
            "query_name": query_name,
            **answer_members(asked.answer),
            "reason": None,
        }
        return Reply(members)
