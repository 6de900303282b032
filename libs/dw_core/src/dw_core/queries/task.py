"""The query task, and which worker may report on it (worker-plane §13.2)."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import TaskKind
from dw_core.engine.transition import Rejection, WakeKey
from dw_core.protocol.timestamps import wire_time


class QueryState(enum.IntEnum):
    """Waiting for a worker, leased to one, answered, failed by its worker, or given up by its caller."""

    WAITING = 0
    LEASED = 1
    ANSWERED = 2
    FAILED = 3
    ENDED = 4


class NewQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query to admit; ``arguments`` is a blob, ``caller`` the process that waits for the answer.

    The validation of an update is asked for in the same way: ``query_name`` is then the name of the update.
    """

    query_task_id: str
    kind: TaskKind = TaskKind.QUERY
    update_id: str | None = None
    namespace: str
    queue: str
    workflow_id: str
    run_id: str
    workflow_type: str
    compatibility: str | None
    query_name: str
    arguments: str
    caller: str


class QueryTask(msgspec.Struct, frozen=True, kw_only=True):
    """A stored query task. Field names are the column names."""

    query_task_id: str
    kind: TaskKind = TaskKind.QUERY
    update_id: str | None = None
    namespace: str
    queue: str
    workflow_id: str
    run_id: str
    workflow_type: str
    compatibility: str | None = None
    query_name: str
    arguments: str
    caller: str
    state: QueryState
    attempt: int
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None
    deadline_at: datetime


class QueryFailed(msgspec.Struct, frozen=True):
    """What a worker said when it could not answer; ``errors`` are a validator's complaints by field."""

    reason: str
    message: str
    errors: dict[str, Any] = {}


def answer_key(caller: str) -> WakeKey:
    """The key that wakes the process ``caller`` when an answer has come; no queue has the empty namespace."""
    return WakeKey("", TaskKind.QUERY, caller)


def refuse_report(
    task: QueryTask | None, query_task_id: str, *, lease_owner: str, attempt: int, now: datetime | None
) -> Rejection | None:
    """Why a report is not taken, or None: unknown, too late, not leased, expired, other owner, other attempt."""
    named: dict[str, Any] = {"query_task_id": query_task_id, "outcome": "rejected"}
    if task is None or now is None:
        return Rejection("query_task_not_found", "There is no such query task.", named)
    if task.update_id is not None:
        named["update_id"] = task.update_id
    if task.state is QueryState.ENDED or task.deadline_at <= now:
        return Rejection("query_task_timed_out", "The caller of this query no longer waits.", named)
    if task.state in (QueryState.ANSWERED, QueryState.FAILED) and task.kind is TaskKind.UPDATE_VALIDATION:
        return Rejection("duplicate_update_validation_completion", "The update has been judged already.", named)
    if task.state is not QueryState.LEASED:
        return Rejection("query_task_not_leased", "The query task is not leased.", named)
    assert task.lease_owner is not None and task.lease_expires_at is not None, f"{query_task_id} is leased to nobody"
    if task.lease_expires_at <= now:
        return Rejection(
            "lease_expired",
            "The lease of this query task has expired.",
            named | {"lease_expires_at": wire_time(task.lease_expires_at)},
        )
    if task.lease_owner != lease_owner:
        return Rejection(
            "lease_owner_mismatch",
            "The query task is leased to another worker.",
            named | {"lease_owner": task.lease_owner},
        )
    if task.attempt != attempt:
        return Rejection(
            "query_task_attempt_mismatch",
            "The query task has been leased again since.",
            named | {"current_attempt": task.attempt},
        )
    return None
