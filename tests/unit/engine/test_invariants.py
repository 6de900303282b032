"""A decision that would break an invariant is found before it is written."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from dw_core.engine.invariants import breach
from dw_core.engine.rows import Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Event
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Transition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = Run(
    run_id="r",
    namespace="n",
    workflow_id="w",
    workflow_type="t",
    queue="q",
    started_at=NOW,
    last_progress_at=NOW,
    last_history_sequence=3,
)
CLOSED = msgspec.structs.replace(
    OPEN, status="completed", closed_reason="completed", closed_at=NOW, last_history_sequence=4
)


def event(sequence: int, event_type: str = "SignalReceived", run_id: str = "r") -> Event:
    return Event(run_id=run_id, sequence=sequence, event_type=event_type, body="{}")


def task(number: int) -> Task:
    return Task(
        run_id="r",
        task_number=number,
        namespace="n",
        queue="q",
        kind=TaskKind.WORKFLOW,
        state=TaskState.READY,
        task_type="t",
        available_at=NOW,
        created_at=NOW,
    )


def after(run: Run, count: int) -> Run:
    return msgspec.structs.replace(run, last_history_sequence=count)


GOOD = {
    "an event is appended": (OPEN, Transition(run=after(OPEN, 4), reply={}, events=[event(4)])),
    "the run ends": (OPEN, Transition(run=CLOSED, reply={}, events=[event(4, "WorkflowCompleted")])),
    "an update of a closed run is answered": (
        CLOSED,
        Transition(run=after(CLOSED, 5), reply={}, events=[event(5, "UpdateCompleted")]),
    ),
    "a run begins": (
        None,
        Transition(run=after(OPEN, 1), reply={}, events=[event(1, "WorkflowStarted")], is_new_run=True),
    ),
}
BAD = {
    "1": [
        (OPEN, Transition(run=after(OPEN, 5), reply={}, events=[event(5)])),
        (OPEN, Transition(run=after(OPEN, 5), reply={}, events=[event(4)])),
        (OPEN, Transition(run=after(OPEN, 4), reply={}, events=[event(4, run_id="other")])),
        (OPEN, Transition(run=after(OPEN, 2), reply={})),
    ],
    "4": [
        (OPEN, Transition(run=CLOSED, reply={}, events=[event(4)])),
        (
            OPEN,
            Transition(
                run=after(CLOSED, 5), reply={}, events=[event(4, "WorkflowCompleted"), event(5, "WorkflowFailed")]
            ),
        ),
        (OPEN, Transition(run=CLOSED, reply={}, events=[event(4, "WorkflowFailed")])),
        (OPEN, Transition(run=after(OPEN, 4), reply={}, events=[event(4, "WorkflowCompleted")])),
        (CLOSED, Transition(run=after(OPEN, 4), reply={})),
    ],
    "5": [
        (OPEN, Transition(run=after(CLOSED, 5), reply={}, events=[event(4, "WorkflowCompleted"), event(5)])),
        (CLOSED, Transition(run=after(CLOSED, 5), reply={}, events=[event(5)])),
        (CLOSED, Transition(run=after(CLOSED, 5), reply={}, events=[event(5, "WorkflowFailed")])),
    ],
    "17": [(OPEN, Transition(run=OPEN, reply={}, tasks={1: task(1), 2: task(2)}))],
    "24": [(CLOSED, Transition(run=CLOSED, reply={}, tasks={1: task(1)}))],
}  # fmt: skip


@pytest.mark.parametrize("what", GOOD)
def test_what_holds_may_be_written(what: str) -> None:
    before, transition = GOOD[what]
    assert breach(Snapshot(run=before), transition) is None


@pytest.mark.parametrize(("number", "place"), [(number, n) for number, cases in BAD.items() for n in range(len(cases))])
def test_what_does_not_hold_is_named_by_its_number(number: str, place: int) -> None:
    before, transition = BAD[number][place]
    found = breach(Snapshot(run=before), transition)
    assert found is not None and found.partition(":")[0] == number, found


def test_what_a_transition_has_spawned_is_looked_at_too() -> None:
    started = Transition(run=after(OPEN, 1), reply={}, events=[event(2)], is_new_run=True)
    assert breach(Snapshot(run=OPEN), Transition(run=OPEN, reply={}, spawned=[started])) is not None


def test_a_second_workflow_task_beside_the_one_that_is_open_is_found() -> None:
    snapshot = Snapshot(run=OPEN, tasks={1: task(1)})
    assert breach(snapshot, Transition(run=OPEN, reply={}, tasks={2: task(2)})) is not None
    assert breach(snapshot, Transition(run=OPEN, reply={}, tasks={1: None, 2: task(2)})) is None
