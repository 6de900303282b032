"""Reads of runs: a page of a namespace, the runs of a workflow id, one run (control-plane §10.1-10.3)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from dw_api_ingress.cursors import decode_page_token, encode_page_token
from dw_api_ingress.queries import page_size, status_bucket, whole_number
from dw_api_ingress.run_documents import described, listed, of_instance
from dw_core.visibility.conditions import STATUSES, Conditions, read_conditions
from dw_core.visibility.query import check_length, looks_like_predicates, parse
from dw_runtime.http.call import Call, Reply
from dw_runtime.payloads.service import Payloads
from dw_runtime.store.reads.attributes import AttributeReads
from dw_runtime.store.reads.runs import RunReads
from dw_runtime.store.reads.visibility import Listing

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 200
RUNS_MAX = 500
RUN_NUMBER_MAX = 2**31 - 1


class ListingHandlers:
    """Answers reads of runs."""

    def __init__(self, runs: RunReads, listing: Listing, attributes: AttributeReads, payloads: Payloads) -> None:
        self._runs = runs
        self._listing = listing
        self._attributes = attributes
        self._payloads = payloads

    async def page(self, call: Call) -> Reply:
        """Runs of the namespace, newest first; raises ``Invalid`` for a parameter that cannot be followed.

        A page may have fewer rows than asked for and still name a next one: it looks at a bounded number of runs.
        """
        query = call.query
        size = page_size(query, default=PAGE_SIZE_DEFAULT, maximum=PAGE_SIZE_MAX, also="limit")
        alternatives = await self._alternatives(call.namespace, query)
        mark = _mark(call.namespace, query)
        after = decode_page_token(query.get("next_page_token"), mark)
        rows, more = await self._listing.page(call.namespace, alternatives, after, size)
        token = None if more is None else encode_page_token(more, mark)
        return Reply(
            {"workflows": [listed(row) for row in rows], "workflow_count": len(rows), "next_page_token": token}
        )

    async def _alternatives(self, namespace: str, query: Mapping[str, str]) -> list[Conditions]:
        """What is asked for: each alternative of the query with what the other parameters say."""
        bucket = status_bucket(query)
        text = query.get("query", "").strip()
        check_length(text)
        if looks_like_predicates(text):
            types = await self._attributes.registered(namespace)
            alternatives = [read_conditions(terms, types) for terms in parse(text)]
        else:
            alternatives = [Conditions(substring=text or None)]
        for asked in alternatives:
            if bucket is not None:
                asked.allow_statuses(STATUSES[bucket])
            if query.get("workflow_type"):
                asked.keyword("workflow_type").take("=", [query["workflow_type"]])
        return alternatives

    async def runs(self, call: Call) -> Reply:
        """The runs of a workflow id, oldest first; one with very many is read by page.

        ``run_count`` counts them all. The token of the next page is the number of the last run on this one.
        """
        workflow_id = call.params["workflow_id"]
        size = page_size(call.query, default=RUNS_MAX, maximum=RUNS_MAX)
        after = whole_number(call.query, "next_page_token", default=0, maximum=RUN_NUMBER_MAX)
        count, rows = await self._runs.of_instance(call.namespace, workflow_id, after_number=after, size=size + 1)
        more = rows[size - 1].run.run_number if len(rows) > size else None
        return Reply(
            {
                "workflow_id": workflow_id,
                "run_count": count,
                "runs": [of_instance(row) for row in rows[:size]],
                "next_page_token": None if more is None else str(more),
            }
        )

    async def describe(self, call: Call) -> Reply:
        """The run of the path, or the current one; a payload that is kept elsewhere is fetched and verified."""
        params = call.params
        row = await self._runs.describe(call.namespace, params["workflow_id"], params.get("run_id"))
        held = (row.summary.arguments, row.summary.output)
        loaded = await self._payloads.load_all(call.namespace, {payload for payload in held if payload is not None})
        return Reply(described(row, loaded))


def _mark(namespace: str, query: Mapping[str, str]) -> str:
    """What tells one listing from another: a token goes on with the listing it comes from only."""
    asked = "\0".join((namespace, *(query.get(name, "").strip() for name in ("workflow_type", "status", "query"))))
    return blake2b(asked.encode(errors="surrogatepass"), digest_size=6).hexdigest()
