"""What the caller of a query is told (control-plane §13.2)."""

from __future__ import annotations

from typing import Any

from dw_core.payloads.envelope import envelope, inline_json
from dw_core.protocol.problems import Problem
from dw_core.queries.task import QueryFailed

NOT_FOUND = "rejected_unknown_query"
BAD_ARGUMENTS = "invalid_query_arguments"


def answer_members(blob: str) -> dict[str, Any]:
    """``result`` as JSON, null when JSON cannot show it, and ``result_envelope`` with the worker's bytes.

    An answer that the worker has put elsewhere is given as its reference, for the client to fetch.
    """
    return {"result": inline_json(blob), "result_envelope": envelope(blob)}


def worker_refusal(failed: QueryFailed) -> Problem:
    """404 for a query the worker does not know, 422 for arguments it refuses, 409 with its own reason otherwise."""
    if failed.reason == NOT_FOUND:
        return Problem(failed.reason, failed.message)
    if failed.reason == BAD_ARGUMENTS:
        errors = {"input": [failed.message]}
        return Problem(failed.reason, failed.message, errors=errors, validation_errors=errors)
    return Problem(failed.reason, failed.message, as_status=409)


def timed_out(attempts: int) -> Problem:
    """No answer in time, after ``attempts`` leases; a client does not repeat these by itself (control-plane §5.3)."""
    if attempts == 0:
        return Problem("query_task_not_claimed", "No worker took the query in time.")
    return Problem("query_worker_execution_timeout", "A worker took the query but did not answer in time.")
