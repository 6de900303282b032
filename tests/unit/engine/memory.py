"""The store's named statements on dictionaries, so that engine tests use the real loading, claiming and writing code.

Rows are kept as the JSON the statements exchange. Every insert and update enforces the keys, uniqueness rules and
checks of the schema; a violation is an assertion that names the rule. There is no concurrency: a statement is atomic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.rows import Details, Run, TaskKind, TaskState
from dw_core.engine.transition import Rejection
from dw_core.sessions.admission import Candidate, admit_activity
from dw_core.sessions.session import Session, SessionOptions
from dw_runtime.store.link import Call, Row, Rows
from dw_runtime.store.statements import statements
from tests.unit.engine.memory_services import ServiceMemory

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
    "timers": ("run_id", "sequence"),
    "children": ("run_id", "sequence"),
    "groups": ("run_id", "base_sequence"),
    "markers": ("run_id", "change_id"),
    "updates": ("update_id",),
    "commands": ("command_id",),
    "attribute_types": ("namespace", "name"),
    "streams": ("namespace", "workflow_id", "stream_name"),
    "messages": ("namespace", "workflow_id", "stream_name", "position"),
    "outputs": ("run_id", "stream_name"),
    "output_items": ("run_id", "stream_name", "item_offset"),
    "sessions": ("namespace", "session_id"),
}

SESSION_CANDIDATES = 1000

TERMINAL_STATUSES = frozenset({"completed", "failed", "cancelled", "terminated"})


def _updated_columns(table: str, statement: str = "advance") -> list[str]:
    """The columns that the real statement writes when a row of ``table`` changes."""
    assignments = re.search(rf"UPDATE {table} \w SET(.*?)FROM", statements()[statement], re.DOTALL)
    assert assignments is not None, f"{statement} updates {table}"
    return re.findall(r"(\w+) = n\.\1", assignments[1])


UPDATED = {
    "runs": _updated_columns("workflow_runs"),
    "tasks": _updated_columns("workflow_tasks"),
    "activities": _updated_columns("activity_executions"),
    "timers": _updated_columns("workflow_timers", "end_timers"),
    "children": _updated_columns("workflow_child_calls", "move_child_calls"),
    "groups": ["open_count", "selection"],
    "attempts": _updated_columns("activity_attempts", "acknowledge_attempts"),
    "updates": _updated_columns("workflow_updates", "settle_updates"),
}


def _check_run(row: Json) -> None:
    is_closed = row["closed_at"] is not None
    assert is_closed == (row["status"] in TERMINAL_STATUSES), "a closed run has a closing time"
    assert is_closed == (row["closed_reason"] is not None), "a closed run has a reason"
    assert row["open_activity_count"] >= 0, "open activities are counted"
    assert row["open_timer_count"] >= 0, "open timers are counted"
    assert row["open_update_count"] >= 0, "open updates are counted"
    assert row["open_child_count"] >= 0, "open children are counted"


def _check_task(row: Json) -> None:
    is_leased = row["state"] == TaskState.LEASED
    has_lease = row["lease_owner"] is not None and row["lease_expires_at"] is not None
    assert is_leased == has_lease, "a leased task has an owner and an expiry"
    assert (row["kind"] == TaskKind.ACTIVITY) == (row["activity_sequence"] > 0), "activity tasks name their activity"


def _check_activity(row: Json) -> None:
    assert row["status"] in {"pending", "completed", "failed", "cancelled"}
    assert (row["closed_at"] is None) == (row["status"] == "pending"), "a closed activity has a closing time"


def _check_timer(row: Json) -> None:
    assert row["status"] in {"pending", "fired", "cancelled"}
    assert (row["fired_at"] is not None) == (row["status"] == "fired"), "a fired timer has a time"
    assert (row["cancelled_at"] is not None) == (row["status"] == "cancelled"), "a cancelled timer has a time"


def _check_child(row: Json) -> None:
    assert row["status"] in {"started", "completed", "failed", "cancelled", "terminated", "abandoned"}
    assert (row["closed_at"] is None) == (row["status"] == "started"), "a closed call has a closing time"


def _check_group(row: Json) -> None:
    assert 0 <= row["open_count"] <= row["size"], "a group counts its open leaves"


def _check_attempt(row: Json) -> None:
    assert row["status"] in {"completed", "failed", "cancelled", "expired"}
    assert row["attempt"] > 0, "attempts are numbered from 1"


def _check_receipt(row: Json) -> None:
    assert row["outcome"] in {"completed", "failed", "waiting_for_history", "cancelled"}


def _check_update(row: Json) -> None:
    assert row["status"] in {"accepted", "completed", "failed"}
    assert (row["closed_at"] is None) == (row["status"] == "accepted"), "a closed update has a closing time"


def _check_stream(row: Json) -> None:
    assert 0 <= row["cursor_position"] <= row["last_position"], "38: nobody consumes what was never appended"


def _check_output(row: Json) -> None:
    assert (row["closed_at"] is None) == (row["status"] == "open"), "an ended stream has a closing time"
    assert 0 <= row["pending_items"] <= row["total_items"], "the items of a stream are counted"


CHECKS: dict[str, Callable[[Json], None]] = {
    "runs": _check_run,
    "tasks": _check_task,
    "activities": _check_activity,
    "timers": _check_timer,
    "children": _check_child,
    "groups": _check_group,
    "attempts": _check_attempt,
    "receipts": _check_receipt,
    "updates": _check_update,
    "streams": _check_stream,
    "outputs": _check_output,
}


def _rows(parameter: str) -> list[Any]:
    return list(_decode(parameter))


def _cell(found: list[Any]) -> bytes | None:
    """What ``json_agg`` answers: null for nothing."""
    return _encode(found) if found else None


class Memory:
    """The tables, and the statements that the loading, claiming and writing code sends."""

    def __init__(self) -> None:
        self.now: datetime
        self.tables: dict[str, dict[Key, Json]] = {name: {} for name in KEYS}
        self.instances: dict[tuple[str, str], str] = {}
        self.details: dict[str, Json] = {}
        self.inbox: list[Json] = []
        self.searchable: dict[str, dict[Key, Json]] = {}
        self.offered: dict[str, Json] = {}
        self.without_readers: set[str] = set()
        self.deliveries: list[Json] = []
        self.services = ServiceMemory(self)
        self._ordinals = 0
        self.touched: set[str] = set()
        self._statements: dict[str, Callable[..., list[Row]]] = {
            "lock_instances": self._lock_instances,
            "lock_runs": self._lock_runs,
            "read_related": self._read_related,
            "read_settled": self._read_settled,
            "read_members": self._read_members,
            "read_redriven": self._read_redriven,
            "start_runs": self._start_runs,
            "advance": self._advance,
            "open_child_calls": self._inserting("children"),
            "move_child_calls": self._updating("children"),
            "take_deliveries": self._take_deliveries,
            "leave_deliveries": self._leave_deliveries,
            "open_groups": self._inserting("groups"),
            "count_groups": self._updating("groups"),
            "open_timers": self._inserting("timers"),
            "end_timers": self._updating("timers"),
            "open_updates": self._inserting("updates"),
            "settle_updates": self._updating("updates"),
            "record_markers": self._inserting("markers"),
            "empty_inboxes": self._empty_inboxes,
            "fill_inboxes": self._fill_inboxes,
            "pick_tasks": self._pick_tasks,
            "lock_queues": lambda names: [],
            "pick_shared_tasks": self._pick_with_sessions,
            "charge_shares": lambda charges: [],
            "save_sessions": self._save_sessions,
            "renew_sessions": self._renew_sessions,
            "read_attempt_sessions": self._read_attempt_sessions,
            "read_routes": lambda queues, silence: [(None,)],
            "read_pages": self._read_pages,
            "acknowledge_attempts": self._updating("attempts"),
            "read_metadata": self._read_metadata,
            "write_metadata": self._write_metadata,
            "index_attributes": self._index_attributes,
            "fix_attribute_types": self._inserting("attribute_types"),
            **self.services.statements,
            "read_streams": self._read_streams,
            "write_streams": self._writing("streams"),
            "record_messages": self._inserting("messages"),
            "read_outputs": self._read_outputs,
            "write_outputs": self._writing("outputs"),
            "append_outputs": self._inserting("output_items"),
        }

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """Run named statements; the rows of each."""
        return [self._statements[name](*parameters) for name, *parameters in calls]

    def image(self) -> bytes:
        """Everything that is stored, to compare two moments byte for byte."""
        tables = {name: list(rows.values()) for name, rows in self.tables.items()}
        return _encode(
            [tables, list(self.instances.items()), self.details, self.inbox, self.deliveries, self.services.image]
        )

    def of_run(self, table: str, run_id: str) -> list[Json]:
        """The rows of one run in key order."""
        return [row for key, row in sorted(self.tables[table].items()) if key[0] == run_id]

    # -- reading -----------------------------------------------------------------------------------------------------

    def _lock_instances(self, named: str) -> list[Row]:
        keys = [(row.get("namespace"), row.get("workflow_id")) for row in _rows(named)]
        return [() for key in keys if key in self.instances]

    def _named(self, named: str) -> Iterator[tuple[str, Json]]:
        """The runs that a batch names, with what else it says about each."""
        for row in _rows(named):
            run_id = row.get("run_id") or self.instances.get((row.get("namespace"), row.get("workflow_id")))
            if run_id is not None:
                yield run_id, row

    def _lock_runs(self, named: str) -> list[Row]:
        runs = self.tables["runs"]
        run_ids = {run_id for run_id, _ in self._named(named)}
        return [(_cell([runs[run_id,] for run_id in sorted(run_ids) if (run_id,) in runs]),)]

    def _related_tasks(self, run_ids: set[str], points: list[Json], closing: set[str]) -> Iterator[Json]:
        named = {(point["run_id"], point["task_number"]) for point in points}
        for key, task in self.tasks():
            if task["kind"] == TaskKind.WORKFLOW:
                if task["run_id"] in run_ids:
                    yield task
            elif task["run_id"] in closing or key in named:
                yield task

    def _read_related(
        self,
        named: str,
        points: str,
        groups: str,
        markers: str,
        _polls: str,
        requests: str,
        due_timers: str,
        updates: str,
        starts: str,
        _silence: str,
    ) -> list[Row]:
        run_ids = {run_id for run_id, _ in self._named(named)}
        inboxes = {run_id for run_id, row in self._named(named) if row["inbox"]}
        closing = {run_id for run_id, row in self._named(named) if row["closing"]}
        opening = {run_id for run_id, row in self._named(named) if row["details"]}
        taking = {run_id for run_id, row in self._named(named) if row["deliveries"]}
        deliveries = [row for row in self.deliveries if row["run_id"] in taking]
        closing |= {row["run_id"] for row in deliveries if row["kind"] == "parent_closed"}
        meant = {(row["run_id"], row["sequence"]) for row in deliveries}
        children = [
            call
            for key, call in sorted(self.tables["children"].items())
            if (call["closed_at"] is None if call["run_id"] in closing else key in meant)
        ]
        tasks = list(self._related_tasks(run_ids, _rows(points), closing))
        sequences = {(p["run_id"], p["sequence"]) for p in _rows(points) if p["sequence"] > 0}
        sequences |= {(t["run_id"], t["activity_sequence"]) for t in tasks if t["kind"] == TaskKind.ACTIVITY}
        activities = [self.tables["activities"][key] for key in sorted(sequences) if key in self.tables["activities"]]
        bases = {(a["run_id"], a["group_base"]) for a in activities if a["group_base"] is not None}
        bases |= {(g["run_id"], g["base_sequence"]) for g in _rows(groups)}
        due = {(t["run_id"], t["sequence"]) for t in _rows(due_timers)}
        timers = [
            timer
            for key, timer in sorted(self.tables["timers"].items())
            if key in due or (timer["run_id"] in closing and timer["status"] == "pending")
        ]
        bases |= {(t["run_id"], t["group_base"]) for t in timers if t["group_base"] is not None}
        bases |= {(c["run_id"], c["group_base"]) for c in children if c["group_base"] is not None}
        changes = {(m["run_id"], m["change_id"]) for m in _rows(markers)}
        asked = {(r["namespace"], r["workflow_id"], r["request_id"]) for r in _rows(requests)}
        kept = [
            command
            for command in self.tables["commands"].values()
            if (command["namespace"], command["workflow_id"], command["request_id"]) in asked
        ]
        return [
            (
                _encode(self.now),
                _cell(tasks),
                _cell([{name: value for name, value in a.items() if name != "arguments"} for a in activities]),
                _cell(timers),
                _cell(children),
                _cell(deliveries),
                _cell([self.details[run_id] for run_id in sorted(opening) if run_id in self.details]),
                _cell([self.tables["groups"][key] for key in sorted(bases) if key in self.tables["groups"]]),
                _cell([self.tables["markers"][key] for key in sorted(changes) if key in self.tables["markers"]]),
                _cell([row for row in self.inbox if row["run_id"] in inboxes]),
                _cell(self._open_updates(inboxes, closing, {row["update_id"] for row in _rows(updates)})),
                _cell(self._contracts({run_id for run_id, row in self._named(named) if row["contract"]})),
                _cell(self._offered(_rows(starts))),
                _cell(kept),
                None,
            )
        ]

    def _open_updates(self, run_ids: set[str], closing: set[str], with_arguments: set[str]) -> list[Json]:
        return [
            row if row["update_id"] in with_arguments or row["run_id"] in closing else row | {"arguments": None}
            for row in self.tables["updates"].values()
            if row["run_id"] in run_ids and row["closed_at"] is None
        ]

    def _offered(self, starts: list[Json]) -> list[Json]:
        known = [row for row in starts if row["workflow_type"] in self.offered]
        return [row | {"contract": self.offered[row["workflow_type"]]} for row in known]

    def _contracts(self, run_ids: set[str]) -> list[Json]:
        contracts = {run_id: self.details[run_id]["command_contract"] for run_id in sorted(run_ids & set(self.details))}
        return [{"run_id": run_id, "contract": contract} for run_id, contract in contracts.items() if contract]

    def _read_members(self, groups: str, spans: str) -> list[Row]:
        bases = {(g["run_id"], g["base_sequence"]) for g in _rows(groups)}
        meant = {(s["run_id"], n) for s in _rows(spans) for n in range(s["first"], s["last"] + 1)}

        def found(table: str, is_open: Callable[[Json], bool]) -> bytes | None:
            rows = self.tables[table]
            return _cell([rows[key] for key in sorted(meant) if key in rows and is_open(rows[key])])

        tasks = [t for _, t in self.tasks() if t["kind"] == 1 and (t["run_id"], t["activity_sequence"]) in meant]
        return [
            (
                _cell([self.tables["groups"][key] for key in sorted(bases) if key in self.tables["groups"]]),
                _cell(tasks),
                found("activities", lambda row: row["closed_at"] is None),
                found("timers", lambda row: row["status"] == "pending"),
                found("children", lambda row: row["closed_at"] is None),
            )
        ]

    def _read_redriven(self, named: str) -> list[Row]:
        found: list[Row] = []
        for span in _rows(named):
            source = span["source"]
            payloads = [
                _decode(e["body"])["payload"]
                for e in self.of_run("events", source)
                if e["event_type"] == "ActivityCompleted"
            ]
            results = {payload["sequence"]: payload["result"] for payload in payloads}
            for activity in self.of_run("activities", source):
                sequence = activity["sequence"]
                if span["first"] <= sequence <= span["last"]:
                    kept = {name: activity[name] for name in ("activity_type", "arguments")}
                    kept |= {"is_completed": activity["status"] == "completed", "result": results.get(sequence)}
                    found.append((span["run_id"].encode(), str(sequence).encode(), _encode(kept)))
        return found

    def _read_settled(self, named: str) -> list[Row]:
        points = _rows(named)
        receipts = {(p["run_id"], p["task_number"]) for p in points}
        attempts = {(p["run_id"], p["sequence"], p["attempt"]) for p in points}
        found = [
            [self.tables[table][key] for key in sorted(keys) if key in self.tables[table]]
            for table, keys in (("receipts", receipts), ("attempts", attempts))
        ]
        named_activities = {(p["run_id"], p["sequence"]) for p in points if p["sequence"] > 0}
        tasks = [t for _, t in self.tasks() if (t["run_id"], t["activity_sequence"]) in named_activities]
        return [(_cell(found[0]), _cell(found[1]), _cell(tasks))]

    def tasks(self) -> list[tuple[Key, Json]]:
        """Open tasks in the order in which a claim looks at them."""

        def order(item: tuple[Key, Json]) -> Key:
            return (item[1]["priority"], datetime.fromisoformat(item[1]["available_at"]), *item[0])

        return sorted(self.tables["tasks"].items(), key=order)

    def _pick_tasks(self, named: str) -> list[Row]:
        picked: list[Row] = []
        for want in _rows(named):
            ready = [task for _, task in self.tasks() if self._is_wanted(task, want)]
            is_shared = any(task["fairness_key"] is not None for task in ready)
            is_sessioned = any(task["session_id"] is not None for task in ready)
            found = [] if is_shared or is_sessioned else [task for task in ready if self._is_claimable(task, want)]
            rooms = [max(owner["leases_max"] - self._leases(owner["lease_owner"], want), 0) for owner in want["owners"]]
            slots = sum(min(owner["polls"], room) for owner, room in zip(want["owners"], rooms, strict=True))
            picked.extend(self._picked(task, want["position"]) for task in found[:slots])
            head: Row = (_encode(self.now), *[None] * 6, _encode(want["position"]))
            picked.append((*head, _encode(rooms), _encode({"is_shared": is_shared, "is_sessioned": is_sessioned})))
        return picked

    def _pick_with_sessions(self, named: str) -> list[Row]:
        """The claim of a queue on which activities of sessions wait; caps and fairness keys have their own tests."""
        picked: list[Row] = []
        for want in _rows(named):
            assert want["is_sessioned"], "nothing else is claimed in this way here"
            members = [self._member(owner, want) for owner in want["owners"]]
            slots = sum(owner["polls"] for owner in want["owners"])
            for task in [task for _, task in self.tasks() if self._is_claimable(task, want)][:SESSION_CANDIDATES]:
                found = {} if task["session_id"] is None else self._session_of(task)
                if task["session_id"] is None or self._is_admissible(task, found, members):
                    row = self._picked(task, want["position"])
                    picked.append((*row[:9], _encode({"share": task["fairness_key"] or ""} | found)))
                if len(picked) == slots:
                    break
            head: Row = (_encode(self.now), *[None] * 6, _encode(want["position"]))
            rooms = [owner["leases_max"] for owner in want["owners"]]
            picked.append((*head, _encode(rooms), _encode({"is_sessioned": True, "members": members})))
        return picked

    def _member(self, owner: Json, want: Json) -> Json:
        held = [s for s in self._held_sessions() if s["lease_owner"] == owner["lease_owner"]]
        return {
            "lease_owner": owner["lease_owner"],
            "capabilities": owner["capabilities"],
            "sessions_left": owner["sessions_max"] - len(held),
        }

    def _held_sessions(self) -> list[Json]:
        sessions = self.tables["sessions"].values()
        return [s for s in sessions if datetime.fromisoformat(s["lease_expires_at"]) > self.now and not s["closed_at"]]

    def _session_of(self, task: Json) -> Json:
        session = self.tables["sessions"].get((task["namespace"], task["session_id"]))
        running: dict[str, int] = {}
        for _, other in self.tasks():
            if other["session_id"] == task["session_id"] and other["state"] == TaskState.LEASED:
                running[other["lease_owner"]] = running.get(other["lease_owner"], 0) + 1
        return {"session": session, "is_known": session is not None, "running": running}

    def _is_admissible(self, task: Json, found: Json, members: list[Json]) -> bool:
        """What dw_session_admits says, decided by the engine's own rule."""
        session = msgspec.convert(found["session"], Session) if found["session"] else None
        options = msgspec.convert(task["worker_session"], SessionOptions)
        return any(
            not isinstance(
                admit_activity(
                    session,
                    options,
                    task["namespace"],
                    Candidate(
                        worker_id=member["lease_owner"],
                        task_queue=task["queue"],
                        capabilities=frozenset(member["capabilities"]),
                        sessions_max=1,
                        sessions_left=member["sessions_left"],
                    ),
                    found["running"].get(member["lease_owner"], 0),
                    self.now,
                ),
                Rejection,
            )
            for member in members
        )

    def _save_sessions(self, rows: str) -> list[Row]:
        for row in _rows(rows):
            self.tables["sessions"][row["namespace"], row["session_id"]] = row
        return []

    def _renew_sessions(self, rows: str) -> list[Row]:
        for row in _rows(rows):
            stored = self.tables["sessions"][row["namespace"], row["session_id"]]
            assert stored["lease_owner"] == row["lease_owner"], "only the owner renews a session"
            stored["lease_expires_at"] = row["lease_expires_at"]
        return []

    def _read_attempt_sessions(self, named: str) -> list[Row]:
        found: list[Row] = []
        for row in _rows(named):
            task = self.tables["tasks"].get((row["run_id"], row["task_number"]))
            session = task and self.tables["sessions"].get((task["namespace"], task["session_id"]))
            if session:
                found.append((row["run_id"].encode(), _encode(session)))
        return found

    def _leases(self, owner: str, want: Json) -> int:
        return sum(task["lease_owner"] == owner and task["kind"] == want["kind"] for _, task in self.tasks())

    def _is_wanted(self, task: Json, want: Json) -> bool:
        return task["state"] == TaskState.READY and all(task[n] == want[n] for n in ("namespace", "queue", "kind"))

    def _is_claimable(self, task: Json, want: Json) -> bool:
        is_wanted = all(task[name] == want[name] for name in ("namespace", "queue", "kind"))
        is_due = task["state"] == TaskState.READY and datetime.fromisoformat(task["available_at"]) <= self.now
        is_overdue = task["sweep_at"] is not None and datetime.fromisoformat(task["sweep_at"]) <= self.now
        if task["reserved_until"] is not None and datetime.fromisoformat(task["reserved_until"]) > self.now:
            is_due = is_due and task["reserved_for"] in [owner["lease_owner"] for owner in want["owners"]]
        is_served = want["is_cooperative"] or not task["needs_cooperation"]
        is_known = want["types"] is None or task["task_type"] in want["types"]
        return is_wanted and is_due and is_served and is_known and not is_overdue

    def _picked(self, task: Json, position: int) -> Row:
        run_id = task["run_id"]
        run = self.tables["runs"][run_id,]
        if task["kind"] == TaskKind.ACTIVITY:
            activity = self.tables["activities"][run_id, task["activity_sequence"]]
            has_leased = any(t["kind"] == 0 and t["state"] == 1 for t in self.of_run("tasks", run_id))
            tail: Row = (_encode(has_leased), _encode(activity), None, None)
        else:
            tail = (b"false", None, self.details[run_id]["arguments"].encode(), _page(self.of_run("events", run_id)))
        return (_encode(self.now), _encode(task), _encode(run), *tail, _encode(position), None, None)

    def _read_pages(self, asked: str) -> list[Row]:
        pages: list[Row] = []
        for row in _rows(asked):
            events = self.of_run("events", row["run_id"])[: row["up_to"]]
            arguments = self.details[row["run_id"]]["arguments"]
            pages.append((row["run_id"].encode(), arguments.encode(), _page(events)))
        return pages

    def _read_metadata(self, named: str, namespaces: str) -> list[Row]:
        found = [{"run_id": row["run_id"]} | self.metadata(row["run_id"]) for row in _rows(named)]
        types = [row for row in self.tables["attribute_types"].values() if row["namespace"] in _rows(namespaces)]
        return [(_cell(found), _cell(types))]

    def _read_streams(self, named: str, _silence: str) -> list[Row]:
        wanted: dict[tuple[str, str], bool] = {}
        ids: set[Key] = set()
        for row in _rows(named):
            run = self.tables["runs"].get((row.get("run_id"),), row)
            if "workflow_id" not in run:
                continue
            owner = (run["namespace"], run["workflow_id"])
            wanted[owner] = wanted.get(owner, False) or row["unconsumed"]
            ids.add((*owner, row.get("stream_name"), row.get("message_id")))
        streams = [row for key, row in sorted(self.tables["streams"].items()) if key[:2] in wanted]
        found: list[Json] = []
        for key, message in sorted(self.tables["messages"].items()):
            stream = self.tables["streams"].get(key[:3])
            if key[:2] not in wanted or stream is None:
                continue
            if wanted[key[0], key[1]] and message["position"] > stream["cursor_position"]:
                found.append(message)
            elif (*key[:3], message["message_id"]) in ids:
                found.append(message | {"arguments": None})
        unread = [run_id for key, run_id in self.instances.items() if key in wanted and key[1] in self.without_readers]
        return [(_cell(streams), _cell(found), _cell(unread))]

    def _read_outputs(self, run_ids: str, keys: str) -> list[Row]:
        named = {(k["run_id"], k["stream_name"], k["idempotency_key"]) for k in _rows(keys)}
        items = [
            {name: row[name] for name in ("run_id", "stream_name", "idempotency_key", "item_offset")}
            for row in self.tables["output_items"].values()
            if (row["run_id"], row["stream_name"], row["idempotency_key"]) in named
        ]
        return [(_cell([r for r in self.tables["outputs"].values() if r["run_id"] in _rows(run_ids)]), _cell(items))]

    def metadata(self, run_id: str) -> Json:
        """Memo and search attributes of a run as the summaries have them."""
        columns = ("memo", "memo_blob", "search_attributes", "search_attribute_types")
        return {name: self.details[run_id].get(name) for name in columns}

    # -- writing -----------------------------------------------------------------------------------------------------

    def _insert(self, table: str, row: Json) -> None:
        key = tuple(row[column] for column in KEYS[table])
        assert key not in self.tables[table], f"{table} {key} is unique"
        if table in CHECKS:
            CHECKS[table](row)
        self.tables[table][key] = row
        if "run_id" in row:
            self.touched.add(row["run_id"])

    def _update(self, table: str, row: Json) -> None:
        stored = self.tables[table][tuple(row[column] for column in KEYS[table])]
        stored |= {column: row[column] for column in UPDATED[table]}
        CHECKS[table](stored)
        self.touched.add(row["run_id"])

    def _inserting(self, table: str) -> Callable[[str], list[Row]]:
        def insert(rows: str) -> list[Row]:
            for row in _rows(rows):
                self._insert(table, row)
            return []

        return insert

    def _updating(self, table: str) -> Callable[[str], list[Row]]:
        def update(rows: str) -> list[Row]:
            for row in _rows(rows):
                self._update(table, row)
            return []

        return update

    def _writing(self, table: str) -> Callable[[str], list[Row]]:
        def write(rows: str) -> list[Row]:
            for row in _rows(rows):
                self.tables[table][tuple(row[column] for column in KEYS[table])] = row
                CHECKS[table](row)
                if "run_id" in row:
                    self.touched.add(row["run_id"])
            return []

        return write

    def _start_runs(self, runs: str) -> list[Row]:
        for row in _rows(runs):
            key = (row["namespace"], row["workflow_id"])
            assert (key in self.instances) == (row["run_number"] > 1), f"instance {key} is unique"
            self.instances[key] = row["run_id"]
            self._insert("runs", {name: row[name] for name in Run.__struct_fields__})
            self.details[row["run_id"]] = {name: row[name] for name in Details.__struct_fields__}
        return []

    def _advance(self, *parameters: str) -> list[Row]:
        events, runs, gone, opened, changed, receipts, new_activities, activities, attempts, commands = map(
            _rows, parameters
        )
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
            ("commands", commands),
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

    def _write_metadata(self, rows: str) -> list[Row]:
        for row in _rows(rows):
            self.details[row["run_id"]] |= {name: value for name, value in row.items() if name != "run_id"}
        return []

    def _index_attributes(self, runs: str, values: str) -> list[Row]:
        for row in _rows(runs):
            self.searchable.pop(row["run_id"], None)
        for row in _rows(values):
            of_run = self.searchable.setdefault(row["run_id"], {})
            key = (row["name"], row["ordinal"])
            assert key not in of_run, "a value of an attribute is indexed once"
            assert row["text_value"] is not None or row["number_value"] is not None
            of_run[key] = row
        return []

    def _empty_inboxes(self, run_ids: str) -> list[Row]:
        self.inbox = [row for row in self.inbox if row["run_id"] not in _rows(run_ids)]
        return []

    def _take_deliveries(self, rows: str) -> list[Row]:
        taken = [(row["run_id"], row["ordinal"]) for row in _rows(rows)]
        self.deliveries = [row for row in self.deliveries if (row["run_id"], row["ordinal"]) not in taken]
        return []

    def _leave_deliveries(self, rows: str) -> list[Row]:
        self.leave(_rows(rows))
        return []

    def leave(self, rows: list[Json]) -> None:
        """Leave word for runs."""
        for row in rows:
            self._ordinals += 1
            self.deliveries.append(row | {"ordinal": self._ordinals})

    def _fill_inboxes(self, rows: str) -> list[Row]:
        self.inbox.extend(_rows(rows))
        return []


def _page(events: Sequence[Json]) -> bytes:
    """A history page, which is never cut here."""
    return f"{len(events)} {','.join(event['body'] for event in events)}".encode()
