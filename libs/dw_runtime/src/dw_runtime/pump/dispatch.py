"""Direct dispatch: a task that a batch opens goes straight to a poll that waits for one.

A poll whose queue is known to be empty may take the new task in the transaction that opens it: the task is written
leased and never has to be looked for. Polls about which less is known go through ``claim``.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from dw_core.engine.claims import decide_claim
from dw_core.engine.output_streams import OUTPUT_NEWS
from dw_core.engine.rows import Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import WakeKey
from dw_core.engine.update_tasks import caller_key
from dw_core.limits import STICKY_PAGE_EVENTS
from dw_runtime.pump.claims import Claimed, Waiters, Want
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call, Rows
from dw_runtime.store.pages import EMPTY, Page, read_page
from dw_runtime.store.writing import TaskKey, WriteSet

AWAITED_SECONDS_MAX = 3600.0

Granted = list[tuple[Want, Claimed]]


def dispatch(waiters: Waiters, writes: WriteSet, snapshots: dict[str, Snapshot], now: datetime) -> Granted:
    """Lease the batch's new, due tasks to fitting polls, in the order in which a claim would take them.

    Tasks with a fairness key are left to a claim: who is due next is decided under the lock of their queue. So are
    those of a run that is to be cancelled and of worker sessions: a claim knows whom to give them to.

    ``snapshots`` hold the runs as the batch leaves them. What a worker needs and the batch does not know (older
    history, arguments of earlier starts) is read by :func:`missing_pages` and added by :func:`with_pages`.
    """
    granted: Granted = []
    for task in sorted(writes.opened.values(), key=_claim_order):
        is_due = task.state is TaskState.READY and task.available_at <= now
        if not is_due or task.fairness_key is not None or task.session_id is not None or task.needs_cooperation:
            continue
        snapshot = snapshots[task.run_id]
        activity = snapshot.activities.get(task.activity_sequence)
        if task.kind is TaskKind.ACTIVITY and (activity is None or activity.arguments is None):
            continue
        want = waiters.take_idle(task)
        if want is not None:
            granted.append((want, _lease(want, task, activity, snapshot, writes, now)))
    return granted


def _claim_order(task: Task) -> tuple[int, datetime, str, int]:
    return task.priority, task.available_at, task.run_id, task.task_number


def _lease(
    want: Want, task: Task, activity: Activity | None, snapshot: Snapshot, writes: WriteSet, now: datetime
) -> Claimed:
    transition = decide_claim(snapshot, task, want.claimant, now)
    writes.add(transition)
    snapshot.fold(transition)
    leased = transition.tasks[task.task_number]
    assert leased is not None, "a claim leaves the task open"
    arguments, history = None, EMPTY
    if activity is not None:
        arguments = activity.arguments
    elif task.run_id in writes.details:
        arguments = writes.details[task.run_id].arguments
        events = ",".join(event.body for event in writes.events if event.run_id == task.run_id).encode()
        history = Page(events, leased.claimed_history_sequence)
    return Claimed(task=leased, run=transition.run, activity=activity, arguments=arguments, history=history)


def missing_pages(granted: Granted) -> list[Call]:
    """The statement that reads pages and arguments for granted workflow tasks of runs that were started earlier."""
    asked = [
        {
            "run_id": claimed.task.run_id,
            "up_to": claimed.task.claimed_history_sequence,
            "page_size": _page_size(want, claimed.task),
        }
        for want, claimed in granted
        if _lacks_page(claimed)
    ]
    return [("read_pages", encode_rows(asked))] if asked else []


def _page_size(want: Want, task: Task) -> int:
    """A worker that keeps the history gets only the start of one that is longer than a page (engine §4.8)."""
    is_kept = task.reserved_for is not None and task.claimed_history_sequence > want.page_size
    return STICKY_PAGE_EVENTS if is_kept else want.page_size


def with_pages(granted: Granted, rows: Rows) -> Granted:
    """The grants with what ``read_pages`` has found."""
    pages = {(run_id or b"").decode(): (arguments or b"", read_page(page)) for run_id, arguments, page in rows}
    return [
        (
            want,
            msgspec.structs.replace(
                claimed,
                arguments=pages[claimed.task.run_id][0].decode(),
                history=pages[claimed.task.run_id][1],
            )
            if _lacks_page(claimed)
            else claimed,
        )
        for want, claimed in granted
    ]


def _lacks_page(claimed: Claimed) -> bool:
    return claimed.task.kind is TaskKind.WORKFLOW and claimed.arguments is None


def ready_tasks(writes: WriteSet, now: datetime) -> tuple[dict[TaskKey, WakeKey], dict[WakeKey, float]]:
    """The tasks a batch leaves claimable: those due now, and for the others the seconds until their queue has one.

    Nobody waits for a task that is put off by more than an hour: the look-out of every process will find it.
    """
    due: dict[TaskKey, WakeKey] = {}
    later: dict[WakeKey, float] = {}
    for tasks in (writes.opened, writes.changed):
        for task_key, task in tasks.items():
            if task.state is not TaskState.READY:
                continue
            key = WakeKey(task.namespace, task.kind, task.queue)
            delay = (task.available_at - now).total_seconds()
            if delay <= 0:
                due[task_key] = key
                if task.reserved_until is not None:
                    delay = (task.reserved_until - now).total_seconds()
                    later[key] = min(delay, later.get(key, delay))
            elif delay <= AWAITED_SECONDS_MAX:
                later[key] = min(delay, later.get(key, delay))
    return due, later


def waiting_callers(writes: WriteSet) -> set[WakeKey]:
    """The processes that wait for an update which a batch has settled, and all that read the ends of output streams."""
    settled = [*writes.updates.values(), *writes.new_updates.values()]
    callers = {caller_key(u.caller) for u in settled if u.closed_at is not None and u.caller is not None}
    return callers | ({OUTPUT_NEWS} if writes.outputs else set())
