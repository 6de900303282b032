"""What must hold for every transition before it is written (engine §8.2); the numbers are those of the contract.

These are the invariants that cost next to nothing to check, because they look at one transition and the rows it was
decided on. Those that need a whole history are checked by the model tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dw_core.engine.rows import Run, Task, TaskKind
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Transition

CLOSINGS: Final = {
    "WorkflowCompleted": ("completed", "completed"),
    "WorkflowFailed": ("failed", "failed"),
    "WorkflowTimedOut": ("failed", "timed_out"),
    "WorkflowTerminated": ("terminated", "terminated"),
    "WorkflowCancelled": ("cancelled", "cancelled"),
    "WorkflowContinuedAsNew": ("completed", "continued"),
}
"""The event that ends a run, with the status and the reason that the run then has."""
AFTER_THE_END: Final = frozenset(
    {"UpdateCompleted", "ParentClosePolicyApplied", "ArchiveRequested", "WorkflowArchived"}
)
"""What may follow it in a history."""


def breach(snapshot: Snapshot, transition: Transition) -> str | None:
    """The first invariant that writing ``transition`` would break, in words; None when it may be written.

    ``snapshot`` is what the transition was decided on. The runs that it has spawned are looked at as well.
    """
    run, before = transition.run, None if transition.is_new_run else snapshot.run
    found = _positions(before, transition) or _end(before, transition)
    if found is None:
        found = _tasks(run, {} if before is None else snapshot.tasks, transition)
    if found is not None:
        return found
    for spawned in transition.spawned:
        found = breach(Snapshot(run=None if spawned.is_new_run else spawned.run), spawned)
        if found is not None:
            return found
    return None


def _positions(before: Run | None, transition: Transition) -> str | None:
    """1: events are numbered without gaps, and the run knows the last of them."""
    last = 0 if before is None else before.last_history_sequence
    for event in transition.events:
        last += 1
        if event.sequence != last or event.run_id != transition.run.run_id:
            return f"1: event {event.event_type} has the position {event.sequence} instead of {last}"
    if transition.run.last_history_sequence != last:
        return f"1: the run counts {transition.run.last_history_sequence} events of {last}"
    return None


def _end(before: Run | None, transition: Transition) -> str | None:
    """4 and 5: a run ends once, with the event of its end, and next to nothing follows it."""
    run = transition.run
    types = [event.event_type for event in transition.events]
    closings = [kind for kind in types if kind in CLOSINGS]
    if before is not None and before.is_terminal:
        if closings or not AFTER_THE_END.issuperset(types):
            return f"5: {', '.join(types)} after the end of the run"
        return None if run.status == before.status else "4: a closed run has changed its status"
    if not run.is_terminal:
        return f"4: {closings[0]} in a run that stays open" if closings else None
    if [CLOSINGS[kind] for kind in closings] != [(run.status, run.closed_reason)]:
        return f"4: the run is {run.status} ({run.closed_reason}) with {closings or 'no event of its end'}"
    if not AFTER_THE_END.issuperset(types[types.index(closings[0]) + 1 :]):
        return f"5: {', '.join(types)} after the end of the run"
    return None


def _tasks(run: Run, known: Mapping[int, Task], transition: Transition) -> str | None:
    """17 and 24: one open workflow task at most, and none of any kind once the run has closed."""
    still_open = [task for task in {**known, **transition.tasks}.values() if task is not None]
    if run.is_terminal and still_open:
        return f"24: a closed run with {len(still_open)} open tasks"
    if sum(task.kind is TaskKind.WORKFLOW for task in still_open) > 1:
        return "17: two open workflow tasks"
    return None
