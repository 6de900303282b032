"""Building a transition: append or buffer events, open and close tasks, wake the run once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from dw_core.engine.commands.groups import Path, is_selection
from dw_core.engine.rows import STANDALONE_ACTIVITY, Details, OpenWait, Run, Task, TaskKind, TaskState
from dw_core.engine.run_rows import Activity, ChildCall, Event, InboxEvent, Receipt, Timer
from dw_core.engine.selections import ENDS_OF_MEMBERS, satisfy, selection_path, settle
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.sticky import reserve
from dw_core.engine.transition import Rejection, Transition, WakeKey
from dw_core.engine.update_rows import Update
from dw_core.engine.update_tasks import UPDATE_ACCEPTED, update_resume
from dw_core.history.event import encode_event, encode_payload, with_member
from dw_core.ids import task_id

SIGNAL_RECEIVED = "SignalReceived"
CANCELLATION_REQUESTED = "CooperativeCancellationRequested"
Resume = dict[str, Any]
"""The resume context of a workflow task: only the members that apply (worker-plane §8.2)."""


class RunWriter:
    """Collects what one decision changes, leaving the snapshot as it is.

    While a workflow task is leased, external events go to the inbox instead of history (engine §4.4); the decision that
    ends the lease calls :meth:`end_lease`, which appends them. :meth:`finish` opens the follow-up task, if the run has
    been woken and has none (engine §4.3).
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        assert snapshot.run is not None, "a writer needs a run"
        self.snapshot = snapshot
        self.run: Run = copy.copy(snapshot.run)
        self.now = max(now, self.run.last_progress_at)
        self.transition = Transition(run=self.run, reply={})
        self.workflow_task: Task | None = snapshot.workflow_task
        self.is_buffering = self.workflow_task is not None and self.workflow_task.state is TaskState.LEASED
        self._resume: Resume = {}
        self._inbox = list(snapshot.inbox)

    # -- history -----------------------------------------------------------------------------------------------------

    def append(
        self,
        event_type: str,
        payload: dict[str, Any] | msgspec.Raw,
        *,
        workflow_task_id: str | None = None,
        workflow_command_id: str | None = None,
        wake: Resume | None = None,
    ) -> int:
        """Append an event now and return its history sequence. ``wake`` makes it a wake event with that context."""
        run = self.run
        run.last_history_sequence += 1
        sequence = run.last_history_sequence
        body = encode_event(
            run.run_id,
            run.namespace,
            sequence,
            event_type,
            payload,
            self.now,
            workflow_task_id=workflow_task_id,
            workflow_command_id=workflow_command_id,
        )
        run.history_bytes += len(body)
        run.last_progress_at = self.now
        self.transition.events.append(Event(run_id=run.run_id, sequence=sequence, event_type=event_type, body=body))
        if wake is not None:
            run.last_wake_sequence = sequence
            self._resume = wake
        return sequence

    def record(
        self,
        event_type: str,
        payload: dict[str, Any],
        *,
        workflow_command_id: str | None = None,
        wake: Resume | None = None,
    ) -> None:
        """Record an external event: appended now, or buffered while a workflow task is leased."""
        if not self.is_buffering:
            self._append_external(event_type, payload, wake, workflow_command_id)
            return
        self.transition.inbox_added.append(
            InboxEvent(
                run_id=self.run.run_id,
                event_type=event_type,
                payload=encode_payload(payload),
                resume=wake,
                workflow_command_id=workflow_command_id,
            )
        )

    def _append_external(
        self,
        event_type: str,
        payload: dict[str, Any] | msgspec.Raw,
        wake: Resume | None,
        workflow_command_id: str | None,
        workflow_task_id: str | None = None,
    ) -> None:
        """A signal belongs to the condition wait that is open, and wakes the run only if there is one (engine §4.3)."""
        woken_by = wake
        wait = self.run.open_wait if event_type == SIGNAL_RECEIVED else None
        if event_type == SIGNAL_RECEIVED and wait is None:
            wake = None
        if wait is not None:
            payload = with_member(payload, "workflow_sequence", wait.sequence)
        selected = None if wait is not None or event_type != SIGNAL_RECEIVED else self.lowest_selected_wait
        if selected is not None:
            payload = with_member(payload, "workflow_sequence", selected.sequence)
        sequence = self.append(
            event_type, payload, workflow_task_id=workflow_task_id, workflow_command_id=workflow_command_id, wake=wake
        )
        if event_type == CANCELLATION_REQUESTED and self.run.cancellation is not None:
            self.run.cancellation = msgspec.structs.replace(self.run.cancellation, history_sequence=sequence)
        if wait is not None:
            self.run.open_wait = msgspec.structs.replace(wait, notified_at=sequence)
        if selected is not None:
            satisfy(self, selected, woken_by or {})
        path = selection_path(payload) if event_type in ENDS_OF_MEMBERS else None
        if path is not None:
            settle(self, path, event_type, payload, woken_by or {})

    def wake_for_recorded(self, sequence: int, resume: Resume) -> None:
        """A batch that only recorded values leaves nothing to wait for: wake the run once more (engine §6.4)."""
        self.run.last_wake_sequence = sequence
        self._resume = resume

    def take_inbox(self) -> list[InboxEvent]:
        """The buffered events, which the caller now owns: append them or drop them."""
        waiting = [*self._inbox, *self.transition.inbox_added]
        self.transition.inbox_taken = self.transition.inbox_taken or bool(self._inbox)
        self.transition.inbox_added = []
        self._inbox = []
        return waiting

    def flush_inbox(self) -> None:
        """Append buffered events in arrival order."""
        for event in self.take_inbox():
            self.append_buffered(event)

    def take_commands(self) -> list[InboxEvent]:
        """The buffered signals and updates; the rest is dropped: the run is about to be closed by its own code."""
        return [e for e in self.take_inbox() if e.event_type in (SIGNAL_RECEIVED, UPDATE_ACCEPTED)]

    def flush_commands(self) -> None:
        """Append buffered signals and updates and drop what else was buffered."""
        for event in self.take_commands():
            self.append_buffered(event)

    def append_waiting(self, is_meant: Callable[[InboxEvent], bool]) -> None:
        """Append the buffered events that are meant ahead of the others, which go on waiting."""
        for event in self.take_inbox():
            if is_meant(event):
                self.append_buffered(event)
            else:
                self.transition.inbox_added.append(event)

    def append_buffered(self, event: InboxEvent) -> None:
        """Append an event that has waited for the end of a lease."""
        self._append_external(
            event.event_type, event.payload, event.resume, event.workflow_command_id, event.workflow_task_id
        )

    @property
    def buffered_signals(self) -> list[str | None]:
        """The commands of the signals that have arrived during the lease: those that no worker has seen yet."""
        waiting = [*self._inbox, *self.transition.inbox_added]
        return [event.workflow_command_id for event in waiting if event.event_type == SIGNAL_RECEIVED]

    # -- tasks -------------------------------------------------------------------------------------------------------

    def put_task(self, task: Task) -> None:
        """Write a task's after image."""
        task.sweep_at = task.next_sweep_at()
        self.transition.tasks[task.task_number] = task
        if task.kind is TaskKind.WORKFLOW:
            self.workflow_task = task

    def open_task(self, task: Task) -> None:
        """Open a new task."""
        self.put_task(task)
        self.transition.created_tasks.add(task.task_number)

    def next_task_number(self) -> int:
        """Allocate a task number."""
        number = self.run.next_task_number
        self.run.next_task_number += 1
        return number

    def close_task(self, task: Task) -> None:
        """Remove an open task; one that this decision has opened leaves no trace."""
        if task.task_number in self.transition.created_tasks:
            self.transition.created_tasks.remove(task.task_number)
            del self.transition.tasks[task.task_number]
        else:
            self.transition.tasks[task.task_number] = None
        if task.kind is TaskKind.WORKFLOW:
            self.workflow_task = None
        elif task.session_id is not None and task.state is TaskState.LEASED:
            self.transition.freed.add(WakeKey(task.namespace, task.kind, task.queue))

    def close_workflow_task(self, task: Task, outcome: str, reply: dict[str, Any] | None) -> None:
        """Close the workflow task and leave its receipt."""
        self.close_task(task)
        self.transition.receipts.append(
            Receipt(
                run_id=task.run_id,
                task_number=task.task_number,
                attempt=task.attempt,
                lease_owner=task.lease_owner,
                outcome=outcome,
                reply=reply,
                closed_at=self.now,
            )
        )

    def open_tasks(self) -> list[Task]:
        """The open tasks of the snapshot as this decision has left them, and those it has opened."""
        return [task for task in (self.snapshot.tasks | self.transition.tasks).values() if task is not None]

    def open_workflow_task(self, resume: Resume, *, available_at: datetime | None = None) -> Task:
        """Open the run's workflow task; there must be none."""
        assert self.workflow_task is None, f"run {self.run.run_id} already has an open workflow task"
        run = self.run
        task = Task(
            run_id=run.run_id,
            task_number=self.next_task_number(),
            kind=TaskKind.WORKFLOW,
            namespace=run.namespace,
            queue=run.queue,
            task_type=run.workflow_type,
            compatibility=run.compatibility,
            priority=run.priority,
            fairness_key=run.fairness_key,
            fairness_weight=run.fairness_weight,
            available_at=available_at or self.now,
            created_at=self.now,
            resume=resume,
            needs_cooperation=run.cancellation is not None,
        )
        reserve(run, task)
        self.open_task(task)
        return task

    def newest_resume(self, earlier: Resume | None) -> Resume:
        """The context of the newest wake: one of this decision, else the ``earlier`` one."""
        return self._resume or earlier or {}

    def end_lease(self) -> None:
        """The workflow task's lease has ended: append what arrived meanwhile."""
        self.is_buffering = False
        self.flush_inbox()

    # -- activities --------------------------------------------------------------------------------------------------

    def put_activity(self, activity: Activity, *, is_new: bool = False) -> None:
        """Write an activity's after image."""
        self.transition.activities[activity.sequence] = activity
        if is_new:
            self.transition.created_activities.add(activity.sequence)

    # -- timers ------------------------------------------------------------------------------------------------------

    def put_timer(self, timer: Timer, *, is_new: bool = False) -> None:
        """Write a timer's after image."""
        self.transition.timers[timer.sequence] = timer
        if is_new:
            self.transition.created_timers.add(timer.sequence)

    def pending_timers(self) -> list[Timer]:
        """The pending timers this decision knows of, in order."""
        known = self.snapshot.timers | self.transition.timers
        return [known[sequence] for sequence in sorted(known) if known[sequence].status == "pending"]

    # -- updates -----------------------------------------------------------------------------------------------------

    def put_update(self, update: Update, *, is_new: bool = False) -> None:
        """Write an update's after image."""
        self.transition.updates[update.update_id] = update
        if is_new:
            self.transition.created_updates.add(update.update_id)

    def open_updates(self) -> list[Update]:
        """The updates that this run is still to apply, in the order of their acceptance."""
        known = (self.snapshot.updates | self.transition.updates).values()
        mine = (update for update in known if update.closed_at is None and update.run_id == self.run.run_id)
        return sorted(mine, key=lambda update: update.command_sequence)

    # -- children ----------------------------------------------------------------------------------------------------

    @property
    def details(self) -> Details:
        """What the start of the run has fixed, with memo and attributes as they are now; for who says it needs them."""
        details = self.snapshot.details
        assert details is not None, f"the details of run {self.run.run_id} were not read"
        changed = self.transition.metadata or self.snapshot.metadata
        if changed is None:
            return details
        return msgspec.structs.replace(
            details,
            memo=changed.memo,
            memo_blob=changed.memo_blob,
            search_attributes=changed.search_attributes,
            search_attribute_types=changed.search_attribute_types,
        )

    def put_child(self, call: ChildCall, *, is_new: bool = False) -> None:
        """Write the after image of a child's call."""
        self.transition.children[call.sequence] = call
        if is_new:
            self.transition.created_children.add(call.sequence)

    def child(self, sequence: int) -> ChildCall | None:
        """A call as this decision has left it."""
        return self.transition.children.get(sequence) or self.snapshot.children.get(sequence)

    def open_children(self) -> list[ChildCall]:
        """The open calls this decision knows of, in order."""
        known = self.snapshot.children | self.transition.children
        return [known[sequence] for sequence in sorted(known) if known[sequence].closed_at is None]

    # -- groups ------------------------------------------------------------------------------------------------------

    def completes_group(self, base: int | None) -> bool:
        """Count one leaf of an outermost group as done; whether it was the last. A lone call is its own last."""
        if base is None:
            return True
        known = self.snapshot.groups | self.transition.groups
        group = copy.copy(known[base])
        group.open_count -= 1
        self.transition.groups[base] = group
        return group.open_count == 0

    def ends_group(self, base: int | None, path: Path | None) -> bool:
        """Whether the end of a leaf wakes the run: the last of its group, or any of a selection (engine §3.5)."""
        return is_selection(path) or self.completes_group(base)

    @property
    def lowest_selected_wait(self) -> OpenWait | None:
        """The selected condition that the next signal or update satisfies; its predicate is not for the worker."""
        return min(self.run.selected_waits, key=lambda wait: wait.sequence, default=None)

    # -- end ---------------------------------------------------------------------------------------------------------

    def finish(self, reply: dict[str, Any] | Rejection) -> Transition:
        """Open the one follow-up task the run needs, and hand over the transition.

        The host of a standalone activity needs none.
        """
        is_host = self.run.workflow_type == STANDALONE_ACTIVITY
        if not self.run.is_terminal and self.workflow_task is None and not is_host:
            self._follow_up()
        self.transition.reply = reply
        return self.transition

    def _follow_up(self) -> None:
        """A wake goes before an update, and so does a plain task that shows a signal the update came after (§4.3)."""
        run = self.run
        if run.last_wake_sequence > run.consumed_wake_sequence:
            self.open_workflow_task(self._resume)
            return
        waiting = self.open_updates()
        if waiting:
            first = waiting[0]
            self.open_workflow_task({} if first.queued_behind is not None else update_resume(first))

    @property
    def new_task_ids(self) -> list[str]:
        """Public ids of the tasks opened so far, in order."""
        return [task_id(self.run.run_id, n) for n in sorted(self.transition.created_tasks)]
