"""What must hold for a run at every commit point (engine §8.2); the numbers in the names are those of the contract."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dw_core.engine.invariants import AFTER_THE_END, CLOSINGS
from dw_core.engine.message_streams import MESSAGE_SIGNAL
from dw_core.engine.rows import Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity, ChildCall, Timer
from dw_core.engine.update_rows import Update
from dw_core.engine.update_tasks import update_of
from dw_core.ids import execution_id
from dw_core.payloads.codec import decode_blob
from tests.unit.engine.world import World

Json = dict[str, Any]

OPENINGS = {
    "ActivityScheduled",
    "TimerScheduled",
    "ChildWorkflowScheduled",
    "ConditionWaitOpened",
    "SideEffectRecorded",
    "VersionMarkerRecorded",
    "SearchAttributesUpserted",
    "MemoUpserted",
    "ServiceCallStarted",
}
SERVICE_OUTCOMES = {"ServiceCallCompleted", "ServiceCallFailed", "ServiceCallCancelled"}
OUTCOMES = {"ActivityCompleted", "ActivityFailed", "ActivityTimedOut", "ActivityCancelled"}
WAIT_OUTCOMES = {"ConditionWaitSatisfied", "ConditionWaitTimedOut"}
TIMEOUT_MEMBERS = ("condition_wait_id", "condition_key", "condition_definition_fingerprint", "timeout_seconds")
TIMER_OUTCOMES = {"TimerFired", "TimerCancelled"}
BY_ITS_CODE = {"WorkflowCompleted", "WorkflowFailed", "WorkflowContinuedAsNew"}
"""Ends that a completion has brought: what arrived during its lease, and only it, is in no history."""
CHILD_OUTCOMES = {"ChildRunCompleted", "ChildRunFailed", "ChildRunCancelled", "ChildRunTerminated"}
GROUPED = {"ActivityScheduled", "TimerScheduled", "ChildWorkflowScheduled", "ConditionWaitOpened"}
CALLS: dict[str, tuple[str, tuple[str, ...], set[str]]] = {
    "ActivityScheduled": ("Activity", ("activity_type",), OUTCOMES),
    "TimerScheduled": ("Timer", ("delay_seconds", "fire_at"), TIMER_OUTCOMES),
    "ChildWorkflowScheduled": (
        "Child",
        ("child_workflow_type", "child_workflow_run_id", "parent_close_policy", "child_call_id"),
        CHILD_OUTCOMES,
    ),
    "ConditionWaitOpened": ("ConditionWait", TIMEOUT_MEMBERS, WAIT_OUTCOMES),
    "ServiceCallStarted": ("ServiceCall", ("service_call_id", "endpoint_name", "operation_mode"), SERVICE_OUTCOMES),
}
"""How the events of a call begin, which members they all repeat, and which of them end it."""
REPEATED = ("parallel_group_path", "parallel_group_id", "parallel_group_index", "execution_mode", "local_activity")
UNSEEN_BY_REPLAY = {"StartAccepted", "StartRejected"}


class Watch:
    """Checks the runs that have changed since the last look, and that what was read before is still so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._read: dict[str, list[str]] = {}
        self._leases: dict[tuple[str, int], Task] = {}
        self._history: dict[str, list[Json]] = {}
        self._cursors: dict[tuple[Any, ...], int] = {}

    def look(self) -> None:
        """Check every run touched since the last look."""
        touched = sorted(self.world.memory.touched)
        self.world.memory.touched.clear()
        for run_id in touched:
            run = self.world.run(run_id)
            try:
                self._check(run)
            except AssertionError as error:
                error.add_note(f"run {run_id}: {self.world.types(run_id)}")
                raise

    def _check(self, run: Run) -> None:
        history = self._appended(run)
        activities = [msgspec.convert(row, Activity) for row in self.world.memory.of_run("activities", run.run_id)]
        tasks = self.world.tasks(run.run_id)
        shape_1_3_4_5(run, history)
        calls_6_7_8_13(run, history)
        groups_12(history)
        self._leases_19_22(run, history, tasks)
        buffered = [row for row in self.world.memory.inbox if row["run_id"] == run.run_id]
        timers = [msgspec.convert(row, Timer) for row in self.world.memory.of_run("timers", run.run_id)]
        liveness_20_21_24(run, tasks, activities, timers, buffered)
        timers_41(history, timers, buffered)
        children = [msgspec.convert(row, ChildCall) for row in self.world.memory.of_run("children", run.run_id)]
        self._children_31_33(run, children, history, buffered)
        self._instance_34(run)
        self._streams_38(run)
        outputs_in_order(self.world, run)
        taken_over(self.world, run, history)
        waits_9_10(run, history)
        selections_14(history)
        service_waits(run, history, buffered)
        signals_in_order(run, history, buffered)
        updates = self.world.updates(run.run_id)
        updates_16(run, history, updates, buffered)
        next_task_16(run, updates, tasks)
        for activity in activities:
            attempts = [
                row for row in self.world.memory.of_run("attempts", run.run_id) if row["sequence"] == activity.sequence
            ]
            task = next((t for t in tasks if t.activity_sequence == activity.sequence), None)
            attempts_26_27_28(activity, task, attempts)
            outcome_29(run, activity, history, buffered)

    def _children_31_33(self, run: Run, children: list[ChildCall], history: list[Json], buffered: list[Json]) -> None:
        """A call ends once, after its last run, and is known to be open or closed by both sides."""
        is_open = [call for call in children if call.closed_at is None]
        assert run.open_child_count == len(is_open), "open children are counted"
        assert not (run.is_terminal and is_open), "24: a closed run waits for no child"
        for call in children:
            outcomes = [
                event["payload"]
                for event in [*history, *buffered]
                if event["event_type"] in CHILD_OUTCOMES and event["payload"]["sequence"] == call.sequence
            ]
            found = len(outcomes)
            is_unseen = run.is_terminal and not found and any(event["event_type"] in BY_ITS_CODE for event in history)
            assert found == (call.status not in {"started", "abandoned"}) or is_unseen, "31: one outcome per call"
            last = self.world.run(call.current_run_id)
            if any("child_status" in outcome for outcome in outcomes):
                assert last.is_terminal and last.status == call.status, "31: the outcome is that of the last run"
            if call.status == "started" and last.is_terminal:
                assert any(row["run_id"] == run.run_id for row in self.world.memory.deliveries), "31: nothing gets lost"

    def _instance_34(self, run: Run) -> None:
        """Runs of an instance are numbered, one is current, and each ends before the next begins."""
        current = self.world.run(self.world.memory.instances[run.namespace, run.workflow_id])
        assert run.run_number <= current.run_number, "34: the current run is the last"
        assert run.is_terminal or run.run_id == current.run_id, "34: one run of an instance is open"
        if run.continued_to_run_id is None:
            return
        follower = self.world.run(run.continued_to_run_id)
        assert follower.run_number == run.run_number + 1, "34: runs are numbered without gaps"
        (started,) = [e for e in self.world.events(follower.run_id) if e["event_type"] == "WorkflowStarted"]
        if "redriven_from_run_id" in started["payload"]:
            assert run.closed_reason in {"failed", "timed_out"}, "only failed runs are redriven"
            assert follower.parent is None, "a parent that was told of a failure waits no more"
            return
        assert follower.execution_deadline_at == run.execution_deadline_at, "35: one execution deadline"
        parents = (run.parent, follower.parent)
        is_retry = parents[0] is not None and parents[1] is not None and parents[1].attempt == parents[0].attempt + 1
        assert is_retry or run.closed_reason == "continued", "32: retried or continued"

    def _streams_38(self, run: Run) -> None:
        """Messages are numbered without gaps, cursors move forward, and history has messages in their order."""
        owner = (run.namespace, run.workflow_id)
        for key, row in self.world.memory.tables["streams"].items():
            if key[:2] != owner:
                continue
            positions = [k[3] for k in sorted(self.world.memory.tables["messages"]) if k[:3] == key]
            assert positions == list(range(1, row["last_position"] + 1)), "38: positions have no gaps"
            assert self._cursors.get(key, 0) <= row["cursor_position"], "38: cursors are monotonic"
            self._cursors[key] = row["cursor_position"]
        seen: dict[str, int] = {}
        for event in self._history.get(run.run_id, []):
            if event["payload"].get("signal_name") != MESSAGE_SIGNAL:
                continue
            (message,) = decode_blob(event["payload"]["arguments"]["blob"])
            position = message.get("position") or message["through_position"]
            known = seen.get(message["stream_name"])
            assert known is None or position == known + 1, "38: delivery order is position order"
            assert known is not None or run.run_number > 1 or position == 1 or run.parent, "38: from the first on"
            seen[message["stream_name"]] = position

    def _appended(self, run: Run) -> list[Json]:
        """2: what was read once is still the beginning."""
        bodies = [row["body"] for row in self.world.memory.of_run("events", run.run_id)]
        known = self._read.get(run.run_id, [])
        assert bodies[: len(known)] == known, "2: a history prefix never changes"
        self._read[run.run_id] = bodies
        history = self._history.setdefault(run.run_id, [])
        history.extend(msgspec.json.decode(body) for body in bodies[len(known) :])
        assert run.history_bytes == sum(len(body) for body in bodies), "history bytes are counted"
        return history

    def _leases_19_22(self, run: Run, history: list[Json], tasks: list[Task]) -> None:
        for task in tasks:
            if task.state is not TaskState.LEASED:
                continue
            key = (task.run_id, task.task_number)
            before = self._leases.get(key)
            if before is not None and before.attempt != task.attempt:
                assert task.attempt > before.attempt, "19: attempts of a task increase"
            self._leases[key] = task
            if task.kind is TaskKind.WORKFLOW:
                unseen = {event["event_type"] for event in history[task.claimed_history_sequence :]}
                assert unseen <= UNSEEN_BY_REPLAY, f"22: appended during a lease: {unseen}"


def outputs_in_order(world: World, run: Run) -> None:
    """The items of an output stream are numbered without gaps, and each identity stands once."""
    items = world.memory.of_run("output_items", run.run_id)
    for row in world.memory.of_run("outputs", run.run_id):
        mine = [item for item in items if item["stream_name"] == row["stream_name"]]
        assert [item["item_offset"] for item in mine] == list(range(row["total_items"])), "offsets have no gaps"
        keys = [item["idempotency_key"] for item in mine if item["idempotency_key"] is not None]
        assert len(keys) == len(set(keys)), "one item per identity"


def taken_over(world: World, run: Run, history: list[Json]) -> None:
    """Results of a failed run are taken over one by one up to the first activity that differs, and never behind it."""
    taken = [e["payload"] for e in history if "redriven_from_run_id" in e["payload"] and e["event_type"] in OUTCOMES]
    for payload in taken:
        source, sequence = payload["redriven_from_run_id"], payload["sequence"]
        before = [row for row in world.memory.of_run("activities", source) if row["sequence"] <= sequence]
        now = [row for row in world.memory.of_run("activities", run.run_id) if row["sequence"] <= sequence]
        names = ("sequence", "activity_type", "arguments")
        assert [[row[n] for n in names] for row in before] == [[row[n] for n in names] for row in now], "one way so far"
        assert before[-1]["status"] == "completed", "only results are taken over"
        ended = [e["payload"] for e in world.events(source) if e["event_type"] == "ActivityCompleted"]
        assert [e["result"] for e in ended if e["sequence"] == sequence] == [payload["result"]], "the recorded result"


def shape_1_3_4_5(run: Run, history: list[Json]) -> None:
    """Positions, the beginning and the end of a history."""
    types = [event["event_type"] for event in history]
    assert [event["sequence"] for event in history] == list(range(1, run.last_history_sequence + 1)), "1"
    times = [event["recorded_at"] for event in history]
    assert times == sorted(times), "1: recorded_at never decreases"
    is_caused = run.parent is not None or run.run_number > 1
    first = ["WorkflowStarted"] if is_caused else ["StartAccepted", "WorkflowStarted"]
    assert types[: len(first)] == first and types.count("WorkflowStarted") == 1, "3"
    closings = [kind for kind in types if kind in CLOSINGS]
    if run.is_terminal:
        assert [CLOSINGS[kind] for kind in closings] == [(run.status, run.closed_reason)], "4"
        end = types.index(closings[0])
        assert set(types[end + 1 :]) <= AFTER_THE_END, "5: nothing of a run follows its end"
    else:
        assert closings == [], "4: an open run has no end"


def calls_6_7_8_13(run: Run, history: list[Json]) -> None:
    """Workflow sequences: gapless openings, one type and one path per call, one outcome after the opening."""
    openings: dict[int, Json] = {}
    outcomes: Counter[int] = Counter()
    for event in history:
        payload, kind = event["payload"], event["event_type"]
        sequence = payload.get("sequence")
        shares = kind in CLOSINGS or kind.startswith("Update") or payload.get("timer_kind") is not None
        if sequence is None or shares:
            continue  # a timeout timer and an update have the sequence of a call: 41 and 16 look at them
        if kind == "CooperativeCancellationDelivered":
            if sequence == len(openings) + 1:  # a call that was interrupted before it was recorded
                openings |= {sequence + offset: event for offset in range(payload["sequence_span"])}
            continue
        if kind in OPENINGS or (kind in SERVICE_OUTCOMES and sequence not in openings):
            assert sequence == len(openings) + 1, "6: openings are numbered without gaps"
            openings[sequence] = event
            continue
        opening = openings.get(sequence)
        assert opening is not None, "7, 8: nothing of a call comes before its opening"
        prefix, repeated, ends = CALLS[opening["event_type"]]
        assert kind.startswith(prefix), "7, 8: opened as what it is"
        for key in (*REPEATED, *repeated):
            assert payload.get(key) == opening["payload"].get(key), f"7, 13: {key} is repeated"
        is_outcome = kind in ends
        outcomes[sequence] += is_outcome
        assert outcomes[sequence] <= 1, "8: one outcome per call"
        assert is_outcome or not outcomes[sequence], "8: nothing of a call follows its outcome"
    assert run.next_workflow_sequence == len(openings) + 1, "6: the next sequence"


def groups_12(history: list[Json]) -> None:
    """Every group is complete, in one transaction, with W = base + index on every level."""
    members: dict[tuple[int, str], list[Json]] = {}
    for event in history:
        if event["event_type"] not in GROUPED or "timer_kind" in event["payload"]:
            continue
        for level, entry in enumerate(event["payload"].get("parallel_group_path") or ()):
            base, index = entry["parallel_group_base_sequence"], entry["parallel_group_index"]
            assert base + index == event["payload"]["sequence"], "12: W is base plus index"
            members.setdefault((level, entry["parallel_group_id"]), []).append(event | {"entry": entry})
    for group in members.values():
        assert [e["entry"]["parallel_group_index"] for e in group] == list(
            range(group[0]["entry"]["parallel_group_size"])
        ), "12: a group is complete"
        first, last = group[0]["sequence"], group[-1]["sequence"]
        between = {e["event_type"] for e in history[first - 1 : last]}
        assert between <= {*GROUPED, "ChildRunStarted"}, "12: in one transaction"


def liveness_20_21_24(
    run: Run, tasks: list[Task], activities: list[Activity], timers: list[Timer], buffered: list[Json]
) -> None:
    """An open run waits for something, no wake is lost, a closed run has nothing open."""
    open_activities = [activity for activity in activities if activity.closed_at is None]
    pending = [timer for timer in timers if timer.status == "pending"]
    assert run.open_timer_count == len(pending), "pending timers are counted"
    workflow_task = next((task for task in tasks if task.kind is TaskKind.WORKFLOW), None)
    is_leased = workflow_task is not None and workflow_task.state is TaskState.LEASED
    assert is_leased or not buffered, "events wait only for a lease to end"
    if run.is_terminal:
        assert (
            run.open_wait is None
            and tasks == []
            and open_activities == []
            and pending == []
            and run.open_activity_count == 0
        ), "24"
        return
    assert run.open_activity_count == len(open_activities), "open activities are counted"
    executed = sorted(task.activity_sequence for task in tasks if task.kind is TaskKind.ACTIVITY)
    assert executed == [activity.sequence for activity in open_activities], "an open activity has one task"
    if workflow_task is None:
        assert run.is_waiting, "20: an open run waits for something"
        assert run.last_wake_sequence <= run.consumed_wake_sequence, "20, 21: no wake is lost"


def waits_9_10(run: Run, history: list[Json]) -> None:
    """One condition wait is open at most; what consumes it is followed by a decision; a timeout ends it once."""
    open_at: int | None = None
    selected: set[int] = set()
    for event, following in zip(history, [*history[1:], None], strict=True):
        kind, payload = event["event_type"], event["payload"]
        if kind in {"ConditionWaitOpened", *WAIT_OUTCOMES} and "parallel_group_path" in payload:
            (selected.add if kind == "ConditionWaitOpened" else selected.remove)(payload["sequence"])
        elif kind == "SelectionOperationCancelled":
            first = payload["member_base_sequence"]
            selected -= set(range(first, first + payload["member_size"]))
        elif kind == "CooperativeCancellationDelivered":
            first, size = payload["sequence"], payload["sequence_span"]
            if "operation_sequence" in payload:
                first, size = payload["operation_sequence"], payload["operation_sequence_span"]
            selected -= set(range(first, first + size))
        elif kind == "ConditionWaitOpened":
            assert open_at is None, "9: one wait is open at most"
            open_at = payload["sequence"]
        elif kind in WAIT_OUTCOMES:
            assert open_at == payload["sequence"], "9: the open wait is closed, once"
            open_at = None
            if kind == "ConditionWaitSatisfied":
                assert following is not None and following["event_type"] not in {"SignalReceived"}, "10"
        elif payload.get("timer_kind") is not None:
            is_open = payload["sequence"] in {open_at, *selected}
            assert kind == "TimerCancelled" or is_open, "a timeout belongs to an open wait"
        elif kind == "SignalReceived":
            expected = min(selected, default=None) if open_at is None else open_at
            assert payload.get("workflow_sequence") == expected, "a signal names the wait that was open"
    if not run.is_terminal:
        assert (run.open_wait.sequence if run.open_wait else None) == open_at, "9: the run knows its open wait"
        assert {wait.sequence for wait in run.selected_waits} == selected, "9: the run knows its selected waits"


def service_waits(run: Run, history: list[Json], buffered: list[Json]) -> None:
    """A run waits for the one call it has begun and not been told the end of, unless it asked for no more."""
    begun = {
        event["payload"]["sequence"]: event["payload"]
        for event in history
        if event["event_type"] == "ServiceCallStarted"
    }
    told = {e["payload"]["sequence"] for e in [*history, *buffered] if e["event_type"] in SERVICE_OUTCOMES}
    waited = [
        sequence
        for sequence, payload in begun.items()
        if sequence not in told and payload["wait_for"] == "completed" and payload["operation_mode"] == "sync"
    ]
    if run.is_terminal:
        assert run.service_wait is None, "24: a closed run waits for no call"
    else:
        assert waited == ([] if run.service_wait is None else [run.service_wait.sequence]), "one call at a time"


def selections_14(history: list[Json]) -> None:
    """A selection is resolved once, directly behind the event that decided its first member."""
    resolved: set[str] = set()
    for before, event in zip([None, *history], history, strict=False):
        if event["event_type"] != "SelectionResolved":
            continue
        payload = event["payload"]
        assert before is not None and before["id"] == payload["resolution_event_id"], "14: directly behind its cause"
        assert before["event_type"] == payload["resolution_event_type"], "14: names its cause"
        first = payload["member_base_sequence"]
        assert first <= before["payload"]["sequence"] < first + payload["member_size"], "14: a leaf of the winner"
        assert payload["selection_group_id"] not in resolved, "14: one winner"
        resolved.add(payload["selection_group_id"])


def signals_in_order(run: Run, history: list[Json], buffered: list[Json]) -> None:
    """Every signal stands once, in the order of acceptance."""
    found = [
        e["event_type"] == "SignalReceived" and e["workflow_command_id"] is not None for e in [*history, *buffered]
    ]
    ids = [e["payload"]["signal_id"] for e, is_one in zip([*history, *buffered], found, strict=True) if is_one]
    assert ids == sorted(set(ids)), "signals keep their order"
    if not run.is_terminal:
        unseen = sum(found[run.consumed_wake_sequence :])
        assert run.pending_signal_count == unseen, "signals that nobody has seen are counted"


def updates_16(run: Run, history: list[Json], updates: list[Update], buffered: list[Json]) -> None:
    """An update is accepted, applied only if it succeeds, and completed once; a closed run has no open one."""
    assert run.open_update_count == sum(update.closed_at is None for update in updates), "open updates are counted"
    events: dict[str, list[str]] = {}
    for event in history:
        if event["event_type"].startswith("Update"):
            events.setdefault(event["payload"]["update_id"], []).append(event["event_type"])
    waiting = [e["payload"]["update_id"] for e in buffered if e["event_type"] == "UpdateAccepted"]
    for update in updates:
        found = events.pop(update.update_id, [])
        assert not run.is_terminal or update.closed_at is not None, "16: no update is open in a closed run"
        if update.closed_at is None:
            assert found == ["UpdateAccepted"] or (found == [] and update.update_id in waiting), "16: accepted, once"
        else:
            applied = ["UpdateApplied"] if update.status == "completed" else []
            assert found == ["UpdateAccepted", *applied, "UpdateCompleted"], "16: applied if completed, ended once"
    moved = run.closed_reason == "continued" and all(found == ["UpdateAccepted"] for found in events.values())
    assert events == {} or moved, "16: every event belongs to an update of the run, or to one that has moved on"


def next_task_16(run: Run, updates: list[Update], tasks: list[Task]) -> None:
    """Open updates have a task that will come to them; the task of an update is for an open one."""
    task = next((task for task in tasks if task.kind is TaskKind.WORKFLOW), None)
    still_open = {update.update_id for update in updates if update.closed_at is None}
    assert task is not None or not still_open, "16: an accepted update is not forgotten"
    named = None if task is None else update_of(task)
    assert named is None or named in still_open, "16: an update task applies an open update"


def timers_41(history: list[Json], timers: list[Timer], buffered: list[Json]) -> None:
    """A timer ends once, never early, and its end is in history or waits for it."""
    for timer in timers:
        found = [
            event["payload"]
            for event in [*history, *buffered]
            if event["event_type"] in TIMER_OUTCOMES and event["payload"]["sequence"] == timer.sequence
        ]
        assert timer.fired_at is None or timer.fired_at >= timer.fire_at, "a timer never fires early"
        is_unseen = timer.status == "fired" and any(event["event_type"] in BY_ITS_CODE for event in history)
        assert len(found) == (timer.status != "pending") or (is_unseen and not found), "a timer has one end"


def attempts_26_27_28(activity: Activity, task: Task | None, attempts: list[Json]) -> None:
    """Attempts are numbered 1..n, bounded by the policy, and start after their pause."""
    numbers = [row["attempt"] for row in attempts]
    assert numbers == list(range(1, len(attempts) + 1)), "26: attempts are numbered from 1"
    assert activity.attempt_count == len(attempts), "26: attempts are counted"
    if task is not None:
        assert task.attempt == len(attempts) + (task.state is TaskState.LEASED), "26: one attempt runs at most"
    policy = activity.retry_policy
    failed = sum(row["status"] == "failed" for row in attempts)
    assert policy.max_attempts is None or failed <= policy.max_attempts, "27: failures are bounded"
    statuses = [row["status"] for row in attempts]
    assert "completed" not in statuses[:-1] and "cancelled" not in statuses[:-1], "27: nothing follows the end"
    if task is not None and task.attempt and task.repair_count == 0 and task.state is TaskState.READY:
        backoff = policy.backoff_seconds
        seconds = backoff[min(task.attempt, len(backoff)) - 1] if backoff else 0
        last = datetime.fromisoformat(attempts[-1]["closed_at"])
        assert task.available_at >= last + timedelta(seconds=seconds), "28: the pause is kept"


def outcome_29(run: Run, activity: Activity, history: list[Json], buffered: list[Json]) -> None:
    """One outcome per closed execution, in history or waiting for it; none for an open one.

    A result that arrives during the lease whose completion closes the run is not in history: no replay has seen it.
    """
    execution = execution_id(activity.run_id, activity.sequence)
    found = sum(
        event["event_type"] in OUTCOMES and event["payload"]["activity_execution_id"] == execution
        for event in [*history, *buffered]
    )
    is_unseen_result = (
        activity.status in {"completed", "failed"}
        and run.is_terminal
        and any(event["event_type"] in BY_ITS_CODE for event in history)
    )
    if activity.closed_at is None:
        assert found == 0, "29: an open execution has no outcome"
    elif is_unseen_result:
        assert found <= 1, "29: at most one outcome"
    else:
        assert found == 1, "29: one outcome"
