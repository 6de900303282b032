"""The history checker: reads every run from Postgres and holds it against the invariants (engine §8.2)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from dw_core.engine.rows import Run, Task
from dw_core.engine.run_rows import Activity, Timer
from dw_core.engine.update_rows import Update
from tests.chaos.cancelled import CANCELLED_CHILD_TYPE, CANCELLED_TYPE, check_cancelled
from tests.chaos.workers import OUTPUT_ITEMS, SIGNALS, Ledger
from tests.unit.engine.invariants import (
    OUTCOMES,
    attempts_26_27_28,
    calls_6_7_8_13,
    groups_12,
    liveness_20_21_24,
    next_task_16,
    outcome_29,
    shape_1_3_4_5,
    signals_in_order,
    timers_41,
    updates_16,
    waits_9_10,
)

Json = dict[str, Any]

_ROWS = dict(
    part.split("\n", 1) for part in Path(__file__).with_name("rows.sql").read_text().split("-- name: ") if part
)


def open_runs(database_url: str, queue: str) -> int:
    """How many runs are not closed yet."""
    with psycopg.connect(database_url, cursor_factory=psycopg.RawCursor) as connection:
        row = connection.execute(_ROWS["open_runs"].encode(), (queue,)).fetchone()
    assert row is not None
    return int(row[0])


def leased_tasks(database_url: str, queue: str) -> dict[str, str]:
    """Owner of every leased task of a queue, by task id."""
    with psycopg.connect(database_url, cursor_factory=psycopg.RawCursor) as connection:
        return dict(connection.execute(_ROWS["leased_tasks"].encode(), (queue,)).fetchall())


def fingerprint(database_url: str) -> tuple[Any, ...]:
    """Equal before and after something that changed no row but signs of life and leases."""
    with psycopg.connect(database_url, cursor_factory=psycopg.RawCursor) as connection:
        row = connection.execute(_ROWS["fingerprint"].encode()).fetchone()
    assert row is not None
    return tuple(row)


def check(database_url: str, queue: str, ledger: Ledger, *, complete: bool) -> int:
    """Check every run of a queue and that all of ``ledger`` is there; the number of runs, without the children of those
    that are asked to cancel: which of these there are is a matter of chance.

    ``complete`` also demands that every run has ended as it should. Raises ``AssertionError`` naming run and rule.
    """
    with psycopg.connect(database_url, cursor_factory=psycopg.RawCursor) as connection:
        rows = connection.execute(_ROWS["runs"].encode(), (queue,)).fetchall()
        gaps = connection.execute(_ROWS["gaps"].encode()).fetchall()
        calls = connection.execute(_ROWS["service_calls"].encode()).fetchall()
        outputs = connection.execute(_ROWS["outputs"].encode()).fetchall()
        waiters = connection.execute(_ROWS["waiters"].encode()).fetchall()
    wrong = [row for row in outputs if set(row[1:]) != {OUTPUT_ITEMS}]
    assert wrong == [], f"items are left once and numbered without gaps: {wrong}"
    assert gaps == [], f"38: positions have gaps: {gaps}"
    assert waiters == [], f"nobody waits for a call that has ended: {waiters}"
    per_caller = Counter(caller for caller, _, _ in calls)
    assert all(count == 1 for count in per_caller.values()), "a run calls once, however often it says so"
    assert not complete or {(status, outcome) for _, status, outcome in calls} <= {("completed", "completed")}
    instances: Counter[str] = Counter()
    found: dict[str, Found] = {}
    for row in rows:
        one = Found(*row)
        try:
            one.check()
            if complete:
                one.check_end()
        except AssertionError as error:
            error.add_note(f"run {one.run.run_id}: {[e['event_type'] for e in one.history]}\ntasks {one.tasks}")
            raise
        instances[one.run.workflow_id] += one.run.run_number == 1
        found[one.run.run_id] = one
    assert all(count == 1 for count in instances.values()), "36: one run per workflow id"
    _check_ledger(found, ledger)
    return sum(one.run.workflow_type != CANCELLED_CHILD_TYPE for one in found.values())


def _check_ledger(found: dict[str, Found], ledger: Ledger) -> None:
    assert ledger.unexpected == [], ledger.unexpected[:3]
    for workflow_id, run_id in ledger.started.items():
        assert run_id in found, f"23: the acknowledged start of {workflow_id} is lost"
    settled = {task for one in found.values() for task in one.settled_tasks()}
    assert ledger.tasks <= settled, f"23: acknowledged completions are lost: {ledger.tasks - settled}"
    attempts = {name: status for one in found.values() for name, status in one.closed_attempts()}
    signals = {name for one in found.values() for name in one.signals()}
    assert ledger.signals <= signals, f"23: acknowledged signals are lost: {ledger.signals - signals}"
    updates = {name for one in found.values() for name in one.updates()}
    assert ledger.updates <= updates, f"23: acknowledged updates are lost: {ledger.updates - updates}"
    lost = {name for name, status in ledger.attempts.items() if attempts.get(name) != status}
    assert not lost, f"23: acknowledged reports are lost: {lost}"


class Found:
    """One run as it stands in the database."""

    def __init__(
        self,
        run: Json,
        history: list[Json],
        size: int,
        tasks: list[Json],
        activities: list[Json],
        attempts: list[Json],
        inbox: list[Json],
        groups: list[Json],
        receipts: list[Json],
        timers: list[Json],
        updates: list[Json],
    ) -> None:
        self.run = msgspec.convert(run, Run)
        self.history = history
        self.tasks = [msgspec.convert(task, Task) for task in tasks]
        self._size = size
        self._activities = [msgspec.convert(activity, Activity) for activity in activities]
        self._attempts = attempts
        self._inbox = [row | {"payload": msgspec.json.decode(row["payload"])} for row in inbox]
        self._groups = groups
        self._receipts = receipts
        self._timers = [msgspec.convert(timer, Timer) for timer in timers]
        self._updates = [msgspec.convert(update, Update) for update in updates]

    def check(self) -> None:
        """Every invariant that concerns this run alone."""
        run, history = self.run, self.history
        assert run.history_bytes == self._size, "history bytes are counted"
        shape_1_3_4_5(run, history)
        calls_6_7_8_13(run, history)
        groups_12(history)
        liveness_20_21_24(run, self.tasks, self._activities, self._timers, self._inbox)
        timers_41(history, self._timers, self._inbox)
        waits_9_10(run, history)
        signals_in_order(run, history, self._inbox)
        updates_16(run, history, self._updates, self._inbox)
        next_task_16(run, self._updates, self.tasks)
        for activity in self._activities:
            mine = [row for row in self._attempts if row["sequence"] == activity.sequence]
            task = next((t for t in self.tasks if t.activity_sequence == activity.sequence), None)
            attempts_26_27_28(activity, task, mine)
            outcome_29(run, activity, history, self._inbox)
        self._check_groups()

    def check_end(self) -> None:
        """It was cancelled when it was asked to cancel, and has completed otherwise."""
        cancelled = self.run.workflow_type in (CANCELLED_TYPE, CANCELLED_CHILD_TYPE)
        assert self.run.status == ("cancelled" if cancelled else "completed"), f"still {self.run.status}"
        if cancelled:
            check_cancelled(self.history)

    def _check_groups(self) -> None:
        """A group counts the leaves that have no outcome yet, in history or waiting for it."""
        done = (
            {event["payload"]["sequence"] for event in [*self.history, *self._inbox] if event["event_type"] in OUTCOMES}
            if not self._inbox
            else {a.sequence for a in self._activities if a.closed_at is not None}
        )
        for group in self._groups:
            base, size = group["base_sequence"], group["size"]
            still = sum(sequence not in done for sequence in range(base, base + size))
            assert group["open_count"] == still or self.run.is_terminal, f"group {base} counts {group['open_count']}"

    def settled_tasks(self) -> list[str]:
        """Ids of the workflow tasks that have been closed."""
        return [f"{self.run.run_id}.t{row['task_number']}" for row in self._receipts]

    def signals(self) -> list[str]:
        """The commands that the recorded signals came with."""
        sent = [e["payload"]["workflow_command_id"] for e in self.history if e["event_type"] == "SignalReceived"]
        assert len(sent) <= SIGNALS, "a signal that is sent again is the same signal"
        return sent

    def updates(self) -> list[str]:
        """Ids of the accepted updates; one that is sent again is the same update."""
        assert len(self._updates) <= 1, "every run is sent one update"
        return [update.update_id for update in self._updates]

    def closed_attempts(self) -> list[tuple[str, str]]:
        """Ids and statuses of the attempts that have been closed."""
        return [(f"{self.run.run_id}.a{row['sequence']}.{row['attempt']}", row["status"]) for row in self._attempts]
