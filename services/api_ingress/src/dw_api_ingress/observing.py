"""``GET …/observation`` and ``…/nexus-operations`` (control-plane §10.7): a run at a glance, and its service calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from dw_api_ingress.queries import whole_number
from dw_api_ingress.run_documents import described
from dw_core.engine.rows import Run
from dw_core.ids import child_call_id, execution_id, task_id, timer_id
from dw_core.limits import HISTORY_PAGE_SIZE_MAX
from dw_core.protocol.problems import Invalid, Problem
from dw_core.protocol.timestamps import wire_time
from dw_core.services.documents import call_document
from dw_runtime.http.call import Call, Handlers, Reply
from dw_runtime.store.reads.debug import DebugReads, Findings
from dw_runtime.store.reads.observing import LINKS_MAX, ChildLink, ObservationReads, Observed, Outcome
from dw_runtime.store.reads.rows import DescribedRun
from dw_runtime.store.reads.runs import RunReads

HISTORY_PAGE_SIZE_DEFAULT: Final = 200
OPERATIONS_DEFAULT: Final = 50
OPERATIONS_MAX: Final = 200
KEYS_MAX: Final = 20
KEY_CHARS_MAX: Final = 255
_METADATA: Final = (
    "workflow_type", "business_key", "run_number", "run_count", "is_current_run", "status", "status_bucket",
    "is_terminal", "closed_reason", "started_at", "closed_at", "last_progress_at", "wait_kind", "wait_reason",
    "task_queue", "compatibility", "priority", "execution_deadline_at", "run_deadline_at",
)  # fmt: skip


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A position in the history of one run, and the last event that the observation began with.

    It gives no right that its holder lacks: it is taken for its own run only, and only within that run's history.
    """

    run_id: str
    after: int
    last: int


_decode_cursor = msgspec.json.Decoder(_Cursor).decode


class ObservationHandlers:
    """Observes runs: reads only, as much of each whatever its size, and decodes no value of an application."""

    def __init__(self, runs: RunReads, debug: DebugReads, reads: ObservationReads) -> None:
        self._runs = runs
        self._debug = debug
        self._reads = reads

    def by_route(self) -> Handlers:
        """The handlers by route name."""
        return {
            "workflow_observe": self.observe,
            "workflow_run_observe": self.observe,
            "workflow_nexus_operations": self.nexus_operations,
            "workflow_run_nexus_operations": self.nexus_operations,
        }

    async def observe(self, call: Call) -> Reply:
        """The run of the path, or the current one.

        Raises ``Problem`` as its description does, ``invalid_page_token`` for a cursor of another run, and ``Invalid``.
        """
        keys = _keys(call.query.get("search_attribute_keys"))
        size = whole_number(
            call.query,
            "history_page_size",
            default=HISTORY_PAGE_SIZE_DEFAULT,
            maximum=HISTORY_PAGE_SIZE_MAX,
            minimum=1,
        )
        row = await self._runs.describe(call.namespace, call.params["workflow_id"], call.params.get("run_id"))
        run = row.run
        cursor = _cursor(call.query.get("history_page_token"), run)
        found = await self._debug.findings(call.namespace, run.queue, run.run_id)
        around = await self._reads.around(run.run_id, None if run.parent is None else run.parent.run_id)
        page = await self._reads.history(run.run_id, after=cursor.after, last=cursor.last, size=size)
        reached = page.last_sequence or cursor.last
        more = _encode(_Cursor(run.run_id, reached, cursor.last)) if reached < cursor.last else None
        return Reply(
            {
                "observed_at": wire_time(found.now),
                "workflow_id": run.workflow_id,
                "run_id": run.run_id,
                "namespace": run.namespace,
                "run": _metadata(row, keys),
                "waits": [] if run.is_terminal else list(_waits(run, found, around)),
                "parent": _parent(run, around.parent),
                "children": [_child(link) for link in around.links[:LINKS_MAX]],
                "has_more_children": len(around.links) > LINKS_MAX,
                "failures": [msgspec.to_builtins(failure) for failure in found.failures],
                "history": {
                    "events": msgspec.Raw(b"[%b]" % page.events),
                    "last_sequence": cursor.last,
                    "next_page_token": more,
                },
            }
        )

    async def nexus_operations(self, call: Call) -> Reply:
        """The service calls that the code of a run has made, the newest first; raises ``Problem`` and ``Invalid``."""
        limit = whole_number(call.query, "limit", default=OPERATIONS_DEFAULT, maximum=OPERATIONS_MAX, minimum=1)
        row = await self._runs.describe(call.namespace, call.params["workflow_id"], call.params.get("run_id"))
        calls = await self._reads.service_calls(row.run.run_id, limit)
        return Reply(
            {
                "workflow_id": row.run.workflow_id,
                "run_id": row.run.run_id,
                "nexus_operations": [call_document(one) for one in calls],
            }
        )


def _keys(text: str | None) -> list[str]:
    """The search attributes that are asked for; raises ``Invalid`` for too many and for names that none can have."""
    if not text:
        return []
    keys = list(dict.fromkeys(text.split(",")))
    if len(keys) > KEYS_MAX or not all(1 <= len(key) <= KEY_CHARS_MAX for key in keys):
        complaint = f"must be at most {KEYS_MAX} names of 1 to {KEY_CHARS_MAX} characters"
        raise Invalid({"search_attribute_keys": [complaint]})
    return keys


def _encode(cursor: _Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def _cursor(token: str | None, run: Run) -> _Cursor:
    """Where to read on; without a token at the first event, up to the newest of now."""
    if not token:
        return _Cursor(run.run_id, 0, run.last_history_sequence)
    try:
        cursor = _decode_cursor(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        cursor = None
    if (
        cursor is None
        or cursor.run_id != run.run_id
        or not 0 <= cursor.after <= cursor.last <= run.last_history_sequence
    ):
        raise Problem("invalid_page_token", "The page token was not issued for an observation of this run.")
    return cursor


def _metadata(row: DescribedRun, keys: list[str]) -> dict[str, Any]:
    document = described(row)
    shown: dict[str, Any] = {}
    if keys:
        attributes = row.summary.shown_attributes
        known = attributes if isinstance(attributes, dict) else msgspec.json.decode(attributes)
        shown = {key: known[key] for key in keys if key in known}
    return {name: document[name] for name in _METADATA} | {"search_attributes": shown}


def _wait(
    kind: str,
    name: str | None,
    identifier: str | None,
    *,
    since: datetime | None,
    due: datetime | None = None,
    sequence: int | None = None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "id": identifier,
        "name": name,
        "sequence": sequence,
        "since": wire_time(since),
        "due_at": wire_time(due),
    }


def _waits(run: Run, found: Findings, around: Observed) -> Iterator[dict[str, Any]]:
    """What has to happen for the run to go on; of each kind no more than are read."""
    for task in found.workflow_tasks:
        number = task_id(run.run_id, task.task_number)
        yield _wait("workflow_task", task.task_type, number, since=task.created_at, due=task.lease_expires_at)
    for activity in found.activities:
        sequence = activity.task.activity_sequence
        yield _wait(
            "activity",
            activity.activity_type,
            execution_id(run.run_id, sequence),
            since=activity.scheduled_at,
            due=activity.task.next_sweep_at(),
            sequence=sequence,
        )
    for timer in around.timers:
        number = timer_id(run.run_id, timer.sequence)
        yield _wait(timer.kind, None, number, since=timer.created_at, due=timer.fire_at, sequence=timer.sequence)
    for opened in ([] if run.open_wait is None else [run.open_wait]) + run.selected_waits:
        yield _wait("condition", opened.key, None, since=opened.opened_at, due=opened.fire_at, sequence=opened.sequence)
    for child in around.children:
        number = child_call_id(run.run_id, child.sequence)
        yield _wait("child", child.workflow_type, number, since=child.started_at, sequence=child.sequence)
    if run.service_wait is not None:
        waited = run.service_wait
        name = f"{waited.endpoint_name}/{waited.service_name}/{waited.operation_name}"
        yield _wait("service_call", name, waited.service_call_id, since=None, sequence=waited.sequence)
    for update in around.updates:
        yield _wait("update", update.update_name, update.update_id, since=update.accepted_at)


def _outcome(outcome: Outcome | None) -> dict[str, Any] | None:
    """The own outcome of another run; null is a run that is gone."""
    if outcome is None or outcome.status is None:
        return None
    return {
        "status": outcome.status,
        "closed_reason": outcome.closed_reason,
        "closed_at": wire_time(outcome.closed_at),
    }


def _parent(run: Run, outcome: Outcome | None) -> dict[str, Any] | None:
    if run.parent is None:
        return None
    return {
        "workflow_id": run.parent.workflow_id,
        "run_id": run.parent.run_id,
        "sequence": run.parent.sequence,
        "run": _outcome(outcome),
    }


def _child(link: ChildLink) -> dict[str, Any]:
    call = link.call
    return {
        "sequence": call.sequence,
        "workflow_id": call.child_workflow_id,
        "run_id": call.current_run_id,
        "first_run_id": call.child_run_id,
        "workflow_type": call.workflow_type,
        "status": call.status,
        "started_at": wire_time(call.started_at),
        "closed_at": wire_time(call.closed_at),
        "run": _outcome(link),
    }
