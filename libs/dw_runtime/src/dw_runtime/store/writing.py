"""Transitions of a batch, merged per run and written with set-based statements."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from dw_core.engine.rows import AttributeType, Details, Metadata, Run, Task
from dw_core.engine.run_rows import (
    Activity,
    Attempt,
    ChildCall,
    Command,
    Delivery,
    Event,
    Group,
    InboxEvent,
    Receipt,
    Timer,
    VersionMarker,
)
from dw_core.engine.stream_rows import MessageStream, OutputItem, OutputStream, StreamMessage
from dw_core.engine.transition import Transition, WakeKey
from dw_core.engine.update_rows import Update
from dw_core.services.rows import ServiceChanges
from dw_core.sessions.session import SessionRenewal
from dw_core.visibility.rows import search_rows
from dw_runtime.store.encoding import encode_rows
from dw_runtime.store.link import Call
from dw_runtime.store.payload_uses import named_payloads
from dw_runtime.store.services import service_writes

TaskKey = tuple[str, int]


class WriteSet(msgspec.Struct):
    """After images of everything a batch has changed; a row that opens and closes within the batch is never written."""

    runs: dict[str, Run] = {}
    new_runs: dict[str, Run] = {}
    details: dict[str, Details] = {}
    events: list[Event] = []
    opened: dict[TaskKey, Task] = {}
    changed: dict[TaskKey, Task] = {}
    gone: dict[TaskKey, None] = {}
    new_activities: dict[TaskKey, Activity] = {}
    activities: dict[TaskKey, Activity] = {}
    new_timers: dict[TaskKey, Timer] = {}
    timers: dict[TaskKey, Timer] = {}
    new_children: dict[TaskKey, ChildCall] = {}
    children: dict[TaskKey, ChildCall] = {}
    attempts: list[Attempt] = []
    acknowledged: list[Attempt] = []
    receipts: list[Receipt] = []
    new_groups: dict[TaskKey, Group] = {}
    groups: dict[TaskKey, Group] = {}
    new_updates: dict[str, Update] = {}
    updates: dict[str, Update] = {}
    markers: list[VersionMarker] = []
    commands: list[Command] = []
    metadata: dict[str, Metadata] = {}
    attribute_types: list[AttributeType] = []
    streams: dict[tuple[str, str, str], MessageStream] = {}
    messages: list[StreamMessage] = []
    outputs: dict[tuple[str, str], OutputStream] = {}
    output_items: list[OutputItem] = []
    emptied: dict[str, None] = {}
    inbox: dict[str, list[InboxEvent]] = {}
    deliveries: list[Delivery] = []
    taken: list[TaskKey] = []
    session_renewals: list[SessionRenewal] = []
    freed: set[WakeKey] = set()
    services: ServiceChanges | None = None
    payload_uses: dict[tuple[str, str], str] = {}

    def add(self, transition: Transition) -> None:
        """Merge one more transition; transitions of one run come in the order they were decided."""
        run = transition.run
        run_id = run.run_id
        if transition.is_new_run:
            assert transition.details is not None
            self.new_runs[run_id] = run
            self.details[run_id] = transition.details
        elif run_id in self.new_runs:
            self.new_runs[run_id] = run
        else:
            self.runs[run_id] = run
        self.events.extend(transition.events)
        self.attempts.extend(transition.attempts)
        self.acknowledged.extend(transition.acknowledged)
        self.receipts.extend(transition.receipts)
        self.markers.extend(transition.markers)
        self.commands.extend(transition.commands)
        if transition.metadata is not None:
            self.metadata[run_id] = transition.metadata
        self.attribute_types.extend(transition.attribute_types)
        self._add_tasks(transition)
        for sequence, activity in transition.activities.items():
            is_new = sequence in transition.created_activities or (run_id, sequence) in self.new_activities
            (self.new_activities if is_new else self.activities)[run_id, sequence] = activity
        for sequence, timer in transition.timers.items():
            is_new = sequence in transition.created_timers or (run_id, sequence) in self.new_timers
            (self.new_timers if is_new else self.timers)[run_id, sequence] = timer
        for sequence, call in transition.children.items():
            is_new = sequence in transition.created_children or (run_id, sequence) in self.new_children
            (self.new_children if is_new else self.children)[run_id, sequence] = call
        self.deliveries.extend(transition.deliveries)
        self.session_renewals.extend(transition.session_renewals)
        self.freed |= transition.freed
        self.taken.extend((run_id, ordinal) for ordinal in transition.deliveries_taken)
        for base, group in transition.groups.items():
            is_new = base in transition.created_groups or (run_id, base) in self.new_groups
            (self.new_groups if is_new else self.groups)[run_id, base] = group
        for update_id, update in transition.updates.items():
            is_new = update_id in transition.created_updates or update_id in self.new_updates
            (self.new_updates if is_new else self.updates)[update_id] = update
        for name, stream in transition.streams.items():
            self.streams[run.namespace, run.workflow_id, name] = stream
        self.messages.extend(transition.messages)
        self.outputs.update(((run_id, name), output) for name, output in transition.outputs.items())
        self.output_items.extend(transition.output_items)
        if transition.inbox_taken:
            self.inbox.pop(run_id, None)
            self.emptied[run_id] = None
        if transition.inbox_added:
            self.inbox.setdefault(run_id, []).extend(transition.inbox_added)
        if transition.services is not None:
            self.services = self.services or ServiceChanges()
            self.services.extend(transition.services)
        for reference_id in named_payloads(transition):
            self.payload_uses[run_id, reference_id] = run.namespace
        for spawned in transition.spawned:
            self.add(spawned)

    def _add_tasks(self, transition: Transition) -> None:
        run_id = transition.run.run_id
        for number, task in transition.tasks.items():
            key = (run_id, number)
            if task is None:
                self.changed.pop(key, None)
                if self.opened.pop(key, None) is None:
                    self.gone[key] = None
            elif number in transition.created_tasks or key in self.opened:
                self.opened[key] = task
            else:
                self.changed[key] = task

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.runs or self.new_runs or self.changed or self.commands)

    def calls(self) -> list[Call]:
        """The statements that write all of it; what there is most of is in one."""
        calls: list[Call] = []
        if self.new_runs:
            # In key order, so that two processes that start the same workflow ids wait for each other in one direction.
            runs = sorted(self.new_runs.values(), key=lambda run: (run.namespace, run.workflow_id))
            started = [msgspec.structs.asdict(run) | msgspec.structs.asdict(self.details[run.run_id]) for run in runs]
            calls.append(("start_runs", encode_rows(started)))
        if self.emptied:
            calls.append(("empty_inboxes", encode_rows(self.emptied)))
        calls.append(
            (
                "advance",
                encode_rows(self.events),
                encode_rows(self.runs.values()),
                encode_rows({"run_id": run_id, "task_number": number} for run_id, number in self.gone),
                encode_rows(self.opened.values()),
                encode_rows(self.changed.values()),
                encode_rows(self.receipts),
                encode_rows(self.new_activities.values()),
                encode_rows(self.activities.values()),
                encode_rows(self.attempts),
                encode_rows(self.commands),
            )
        )
        calls += [(name, encode_rows(rows)) for name, rows in self._parts() if rows]
        calls += self._search_calls()
        if self.services is not None:
            calls += service_writes(self.services)
        return calls

    def _parts(self) -> Iterator[tuple[str, Collection[object]]]:
        """What most batches have none of, each with the statement that writes it."""
        yield "open_timers", self.new_timers.values()
        yield "end_timers", self.timers.values()
        yield "open_updates", self.new_updates.values()
        yield "settle_updates", self.updates.values()
        yield "open_child_calls", self.new_children.values()
        yield "move_child_calls", self.children.values()
        yield "take_deliveries", [{"run_id": run_id, "ordinal": ordinal} for run_id, ordinal in self.taken]
        yield "leave_deliveries", self.deliveries
        yield "open_groups", self.new_groups.values()
        yield "count_groups", self.groups.values()
        yield "record_markers", self.markers
        yield "acknowledge_attempts", self.acknowledged
        yield "write_metadata", self.metadata.values()
        yield "fix_attribute_types", self.attribute_types
        yield "write_streams", self.streams.values()
        yield "record_messages", self.messages
        yield "write_outputs", self.outputs.values()
        yield "append_outputs", self.output_items
        yield "renew_sessions", self.session_renewals
        yield "fill_inboxes", [event for events in self.inbox.values() for event in events]
        yield (
            "use_payloads",
            [
                {"run_id": run_id, "reference_id": reference_id, "namespace": namespace}
                for (run_id, reference_id), namespace in self.payload_uses.items()
            ],
        )

    def _search_calls(self) -> list[Call]:
        """The statement that writes by which attributes the runs of the batch are found; a new run may have none."""
        known: dict[str, Details | Metadata] = {k: d for k, d in self.details.items() if d.search_attributes}
        known |= self.metadata
        if not known:
            return []
        found = (
            row
            for run_id, holder in known.items()
            for row in search_rows(run_id, holder.search_attributes, holder.search_attribute_types)
        )
        return [("index_attributes", encode_rows({"run_id": run_id} for run_id in known), encode_rows(found))]
