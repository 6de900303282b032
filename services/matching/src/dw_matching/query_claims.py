"""A query task leased to a poll, and the object its worker is given (worker-plane §13.1)."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.payloads.envelope import envelope
from dw_core.protocol.timestamps import wire_time
from dw_core.queries.task import QueryTask


class ClaimedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A leased query with its run as it was committed then."""

    task: QueryTask
    run_status: str
    last_history_sequence: int
    workflow_arguments: str


def query_task(claimed: ClaimedQuery, history: bytes) -> dict[str, Any]:
    """The query task object; ``history`` is the JSON fragment of every event, for this kind of task has no pages."""
    task = claimed.task
    return {
        "query_task_id": task.query_task_id,
        "query_task_attempt": task.attempt,
        "namespace": task.namespace,
        "workflow_id": task.workflow_id,
        "run_id": task.run_id,
        "workflow_type": task.workflow_type,
        "query_name": task.query_name,
        "payload_codec": "avro",
        "workflow_arguments": envelope(claimed.workflow_arguments),
        "query_arguments": envelope(task.arguments),
        "history_events": msgspec.Raw(b"[" + history + b"]"),
        "run_status": claimed.run_status,
        "last_history_sequence": claimed.last_history_sequence,
        "total_history_events": claimed.last_history_sequence,
        "task_queue": task.queue,
        "lease_owner": task.lease_owner,
        "lease_expires_at": wire_time(task.lease_expires_at),
    }
