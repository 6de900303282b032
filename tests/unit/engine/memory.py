"""The store's named statements on dictionaries, so that engine tests use the real loading, claiming and writing code.

Rows are kept as the JSON the statements exchange. Every insert and update enforces the keys, uniqueness rules and
checks of the schema; a violation is an assertion that names the rule. There is no concurrency: a statement is atomic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from dw_core.engine.rows import TaskKind, TaskState
from dw_runtime.store.statements import statements

Json = dict[str, Any]
Key = tuple[Any, ...]

_decode = msgspec.json.decode
_encode = msgspec.json.encode

KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("run_id",),
    "events": ("run_id", "sequence"),
    "tasks": ("run_id", "task_number"),
    "receipts": ("run_id", "task_number"),
    "activities": ("run_id", "sequence"),
    "attempts": ("run_id", "sequence", "attempt"),
    "groups": ("run_id", "base_sequence"),
    "markers": ("run_id", "change_id"),
    "commands": ("command_id",),
}

TERMINAL_STATUSES = frozenset({"completed", "failed", "cancelled", "terminated"})


def _updated_columns(table: str) -> list[str]:
    """The columns that the real ``advance`` statement writes when a row of ``table`` changes."""
    assignments = re.search(rf"UPDATE {table} \w SET(.*?)FROM", statements()["advance"], re.DOTALL)
    assert assignments is not None, f"advance updates {table}"
    return re.findall(r"(\w+) = n\.\1", assignments[1])


UPDATED = {
    "runs": _updated_columns("workflow_runs"),
    "tasks": _updated_columns("workflow_tasks"),
    "activities": _updated_columns("activity_executions"),
    "groups": ["open_count"],
}


def _check_run(row: Json) -> None:
    is_closed = row["closed_at"] is not None
    assert is_closed == (row["status"] in TERMINAL_STATUSES), "a closed run has a closing time"
    assert is_closed == (row["closed_reason"] is not None), "a closed run has a reason"
    assert row["open_activity_count"] >= 0, "open activities are counted"


def _check_task(row: Json) -> None:
    is_leased = row["state"] == TaskState.LEASED
    has_lease = row["lease_owner"] is not None and row["lease_expires_at"] is not None
    assert is_leased == has_lease, "a leased task has an owner and an expiry"
    assert (row["kind"] == TaskKind.ACTIVITY) == (row["activity_sequence"] > 0), "activity tasks name their activity"


def _check_activity(row: Json) -> None:
    assert row["status"] in {"pending", "completed", "failed", "cancelled"}
    assert (row["closed_at"] is None) == (row["status"] == "pending"), "a closed activity has a closing time"


def _check_group(row: Json) -> None:
    assert 0 <= row["open_count"] <= row["size"], "a group counts its open leaves"


def _check_attempt(row: Json) -> None:
    assert row["status"] in {"completed", "failed", "cancelled", "expired"}
    assert row["attempt"] > 0, "attempts are numbered from 1"


def _check_receipt(row: Json) -> None:
    assert row["outcome"] in {"completed", "failed", "waiting_for_history", "cancelled"}


CHECKS: dict[str, Callable[[Json], None]] = {
    "runs": _check_run,
    "tasks": _check_task,
    "activities": _check_activity,
    "groups": _check_group,
    "attempts": _check_attempt,
    "receipts": _check_receipt,
}


class Cursor(NamedTuple):
    """The rows of one statement."""

    rows: list[tuple[Any, ...]]

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self.rows

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The first row."""
        return self.rows[0] if self.rows else None


def _rows(parameter: str | None) -> list[Any]:
    return [] if parameter is None else list(_decode(parameter))


def _text(found: list[Any]) -> str | None:
    return _encode(found).decode() if found else None


class Memory:
    """The tables, and the statements that the loading, claiming and writing code sends."""

    def __init__(self) -> None:
        self.now: datetime
        self.tables: dict[str, dict[Key, Json]] = {name: {} for name in KEYS}
        self.instances: dict[tuple[str, str], str] = {}
        self.details: dict[str, Json] = {}
        self.inbox: list[Json] = []
        self.touched: set[str] = set()
        self._statements: dict[str, Callable[..., list[tuple[Any, ...]]]] = {
            "lock_instances": self._lock_instances,
            "lock_runs": self._lock_runs,
            "read_related": self._read_related,
            "read_settled": self._read_settled,
            "start_runs": self._start_runs,
            "advance": self._advance,
            "record_commands": self._inserting("commands"),
            "open_groups": self._inserting("groups"),
            "count_groups": self._count_groups,
            "record_markers": self._inserting("markers"),
            "empty_inboxes": self._empty_inboxes,
            "fill_inboxes": self._fill_inboxes,
            "pick_tasks": self._pick_tasks,
        }

    async def send(self, name: str, *parameters: Any) -> Cursor:
        """Run one named statement."""
        return Cursor(self._statements[name](*parameters))

    async def rows(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one named statement and return its rows."""
        return self._statements[name](*parameters)

    def image(self) -> bytes:
        """Everything that is stored, to compare two moments byte for byte."""
        tables = {name: list(rows.values()) for name, rows in self.tables.items()}
        return _encode([tables, list(self.instances.items()), self.details, self.inbox])

    def of_run(self, table: str, run_id: str) -> list[Json]:
        """The rows of one run in key order."""
        return [row for key, row in sorted(self.tables[table].items()) if key[0] == run_id]

    # -- reading -----------------------------------------------------------------------------------------------------

    def _lock_instances(self, named: str) -> list[tuple[Any, ...]]:
        keys = [(row["namespace"], row["workflow_id"]) for row in _rows(named)]
        return [(*key, self.instances[key]) for key in sorted(keys) if key in self.instances]

    def _lock_runs(self, run_ids: list[str]) -> list[tuple[Any, ...]]:
        runs = self.tables["runs"]
        return [(_encode(runs[run_id,]).decode(),) for run_id in run_ids if (run_id,) in runs]

    def _related_tasks(self, run_ids: list[str], points: list[Json], closing: list[str]) -> Iterator[Json]:
        named = {(point["run_id"], point["task_number"]) for point in points}
        for key, task in self.tasks():
            if task["kind"] == TaskKind.WORKFLOW:
                if task["run_id"] in run_ids:
                    yield task
            elif task["run_id"] in closing or key in named:
                yield task

    def _read_related(
        self,
        run_ids: list[str],
        points: str | None,
        inboxes: list[str],
        closing: list[str],
        groups: str | None,
        markers: str | None,
    ) -> list[tuple[Any, ...]]:
        tasks = list(self._related_tasks(run_ids, _rows(points), closing))
        sequences = {(p["run_id"], p["sequence"]) for p in _rows(points) if p["sequence"] > 0}
        sequences |= {(t["run_id"], t["activity_sequence"]) for t in tasks if t["kind"] == TaskKind.ACTIVITY}
        activities = [self.tables["activities"][key] for key in sorted(sequences) if key in self.tables["activities"]]
        bases = {(a["run_id"], a["group_base"]) for a in activities if a["group_base"] is not None}
        bases |= {(g["run_id"], g["base_sequence"]) for g in _rows(groups)}
        changes = {(m["run_id"], m["change_id"]) for m in _rows(markers)}
        return [
            (
                self.now,
                _text(tasks),
                _text([{name: value for name, value in a.items() if name != "arguments"} for a in activities]),
                _text([self.tables["groups"][key] for key in sorted(bases) if key in self.tables["groups"]]),
                _text([self.tables["markers"][key] for key in sorted(changes) if key in self.tables["markers"]]),
                _text([row for row in self.inbox if row["run_id"] in inboxes]),
            )
        ]

    def _read_settled(self, named: str) -> list[tuple[Any, ...]]:
        points = _rows(named)
        receipts = {(p["run_id"], p["task_number"]) for p in points}
        attempts = {(p["run_id"], p["sequence"], p["attempt"]) for p in points}
        found = [
            [self.tables[table][key] for key in sorted(keys) if key in self.tables[table]]
            for table, keys in (("receipts", receipts), ("attempts", attempts))
        ]
        named_activities = {(p["run_id"], p["sequence"]) for p in points if p["sequence"] > 0}
        tasks = [t for _, t in self.tasks() if (t["run_id"], t["activity_sequence"]) in named_activities]
        return [(_text(found[0]), _text(found[1]), _text(tasks))]

    def tasks(self) -> list[tuple[Key, Json]]:
        """Open tasks in the order in which a claim looks at them."""

        def order(item: tuple[Key, Json]) -> Key:
            return (item[1]["priority"], datetime.fromisoformat(item[1]["available_at"]), *item[0])

        return sorted(self.tables["tasks"].items(), key=order)

    def _pick_tasks(self, named: str) -> list[tuple[Any, ...]]:
        picked: list[tuple[Any, ...]] = []
        for want in _rows(named):
            found = [task for _, task in self.tasks() if self._is_claimable(task, want)]
            picked.extend(self._picked(task, want["position"]) for task in found[: want["slots"]])
        return picked

    def _is_claimable(self, task: Json, want: Json) -> bool:
        is_wanted = all(task[name] == want[name] for name in ("namespace", "queue", "kind"))
        is_due = task["state"] == TaskState.READY and datetime.fromisoformat(task["available_at"]) <= self.now
        is_overdue = task["sweep_at"] is not None and datetime.fromisoformat(task["sweep_at"]) <= self.now
        return is_wanted and is_due and not is_overdue and (want["types"] is None or task["task_type"] in want["types"])

    def _picked(self, task: Json, position: int) -> tuple[Any, ...]:
        run_id = task["run_id"]
        run = self.tables["runs"][run_id,]
        if task["kind"] == TaskKind.ACTIVITY:
            activity = self.tables["activities"][run_id, task["activity_sequence"]]
            has_leased = any(t["kind"] == 0 and t["state"] == 1 for t in self.of_run("tasks", run_id))
            tail: tuple[Any, ...] = (has_leased, _encode(activity).decode(), None, None)
        else:
            history = ",".join(event["body"] for event in self.of_run("events", run_id))
            tail = (False, None, self.details[run_id]["arguments"], history)
        return (self.now, _encode(task).decode(), _encode(run).decode(), *tail, position)

    # -- writing -----------------------------------------------------------------------------------------------------

    def _insert(self, table: str, row: Json) -> None:
        key = tuple(row[column] for column in KEYS[table])
        assert key not in self.tables[table], f"{table} {key} is unique"
        if table in CHECKS:
            CHECKS[table](row)
        self.tables[table][key] = row
        self.touched.add(row["run_id"])

    def _update(self, table: str, row: Json) -> None:
        stored = self.tables[table][tuple(row[column] for column in KEYS[table])]
        stored |= {column: row[column] for column in UPDATED[table]}
        CHECKS[table](stored)
        self.touched.add(row["run_id"])

    def _inserting(self, table: str) -> Callable[[str], list[tuple[Any, ...]]]:
        def insert(rows: str) -> list[tuple[Any, ...]]:
            for row in _rows(rows):
                self._insert(table, row)
            return []

        return insert

    def _count_groups(self, rows: str) -> list[tuple[Any, ...]]:
        for row in _rows(rows):
            self._update("groups", row)
        return []

    def _start_runs(self, runs: str, details: str) -> list[tuple[Any, ...]]:
        for row in _rows(runs):
            key = (row["namespace"], row["workflow_id"])
            assert key not in self.instances, f"instance {key} is unique"
            self.instances[key] = row["run_id"]
            self._insert("runs", row)
        self.details.update((row["run_id"], row) for row in _rows(details))
        return []

    def _advance(self, *parameters: str | None) -> list[tuple[Any, ...]]:
        events, runs, gone, opened, changed, receipts, new_activities, activities, attempts = map(_rows, parameters)
        for row in runs:
            self._update("runs", row)
        for row in gone:
            del self.tables["tasks"][row["run_id"], row["task_number"]]
        for table, inserted in (
            ("events", events),
            ("tasks", opened),
            ("receipts", receipts),
            ("activities", new_activities),
            ("attempts", attempts),
        ):
            for row in inserted:
                self._insert(table, row)
        for row in changed:
            self._update("tasks", row)
        for row in activities:
            self._update("activities", row)
        for run_id in self.touched:
            workflow_tasks = [t for t in self.of_run("tasks", run_id) if t["kind"] == TaskKind.WORKFLOW]
            assert len(workflow_tasks) <= 1, f"run {run_id} has one open workflow task"
        return []

    def _empty_inboxes(self, run_ids: list[str]) -> list[tuple[Any, ...]]:
        self.inbox = [row for row in self.inbox if row["run_id"] not in run_ids]
        return []

    def _fill_inboxes(self, rows: str) -> list[tuple[Any, ...]]:
        self.inbox.extend(_rows(rows))
        return []
