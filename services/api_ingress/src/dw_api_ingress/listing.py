"""Reads of runs: a page of a namespace, the runs of a workflow id, one run (control-plane §10.1-10.3)."""

from __future__ import annotations

from dw_api_ingress.cursors import decode_cursor, encode_cursor
from dw_api_ingress.queries import page_size, status_bucket
from dw_api_ingress.run_documents import described, listed, of_instance
from dw_core.protocol.problems import Invalid
from dw_runtime.http.call import Call, Reply
from dw_runtime.payloads.service import Payloads
from dw_runtime.store.reads.rows import Position
from dw_runtime.store.reads.runs import RunReads

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 200


class ListingHandlers:
    """Answers reads of runs."""

    def __init__(self, runs: RunReads, payloads: Payloads) -> None:
        self._runs = runs
        self._payloads = payloads

    async def page(self, call: Call) -> Reply:
        """Runs of the namespace, newest first; raises ``Invalid`` for a parameter that cannot be followed."""
        query = call.query
        size = page_size(query, default=PAGE_SIZE_DEFAULT, maximum=PAGE_SIZE_MAX, also="limit")
        bucket = status_bucket(query)
        after = decode_cursor(query.get("next_page_token"))
        if query.get("query"):
            raise Invalid({"query": ["visibility queries are not supported by this server yet"]})
        rows = await self._runs.page(
            call.namespace,
            workflow_type=query.get("workflow_type") or None,
            bucket=bucket,
            after=after,
            size=size + 1,
        )
        shown = rows[:size]
        token = None
        if len(rows) > size:
            last = shown[-1].summary
            token = encode_cursor(Position(last.started_at, last.run_id))
        return Reply(
            {"workflows": [listed(row) for row in shown], "workflow_count": len(shown), "next_page_token": token}
        )

    async def runs(self, call: Call) -> Reply:
        """Every run of a workflow id, oldest first."""
        workflow_id = call.params["workflow_id"]
        rows = await self._runs.of_instance(call.namespace, workflow_id)
        return Reply({"workflow_id": workflow_id, "run_count": len(rows), "runs": [of_instance(row) for row in rows]})

    async def describe(self, call: Call) -> Reply:
        """The run of the path, or the current one; a payload that is kept elsewhere is fetched and verified."""
        params = call.params
        row = await self._runs.describe(call.namespace, params["workflow_id"], params.get("run_id"))
        held = (row.summary.arguments, row.summary.output)
        loaded = await self._payloads.load_all(call.namespace, {payload for payload in held if payload is not None})
        return Reply(described(row, loaded))
