"""The locked rows of one run, as one decision sees them."""

from __future__ import annotations

from typing import Any

import msgspec

from dw_core.engine.rows import Details, Metadata, Run, Task, TaskKind
from dw_core.engine.run_rows import (
    Activity,
    Attempt,
    ChildCall,
    Command,
    Delivery,
    Group,
    InboxEvent,
    Receipt,
    RecordedActivity,
    Timer,
    VersionMarker,
)
from dw_core.engine.stream_rows import MessageStream, OutputStream, StreamMessage
from dw_core.engine.transition import Transition
from dw_core.engine.update_rows import OfferedContract, Update
from dw_core.services.rows import Operation, OperationKey, ServiceCall
from dw_core.sessions.session import Session
from dw_core.workers.routing import QueueRoutes


class Snapshot(msgspec.Struct, kw_only=True):
    """Sparse: holds the run and the rows its inputs asked for. ``run`` is None when there is no such run; ``sessions``
    are those of attempts that report, by id.

    ``tasks`` are open tasks by number; ``activities``, ``timers``, ``children`` and ``groups`` go by workflow sequence;
    ``receipts`` and ``attempts`` are answers already given, ``kept`` commands by the request ids that inputs repeat,
    ``deliveries`` what other runs have left for this one, ``details`` what its start has fixed, ``metadata`` and the
    ``attribute_types`` of the namespace are there for updates of them. ``updates`` are the open ones by id,
    ``streams`` are all message streams of the workflow id, ``messages`` the named or unconsumed ones by their key,
    ``has_no_reader`` says that workers are there for a new message and none of them understands message streams,
    ``outputs`` all output streams of the run, ``output_items`` offsets by the key of an item that may be repeated.
    ``contract`` what the run declared at its start, ``offered`` what a new run would. ``operations`` and
    ``service_calls`` (by id) are there for commands that call them and for runs that answer calls. ``routes`` are the
    queues of starts about whose builds operators have a wish, ``redriven`` by sequence the activities of the run that
    this one follows. :meth:`fold` replaces rows by a transition's after images, so that the next input of the same
    batch decides on what the previous one did.
    """

    run: Run | None = None
    tasks: dict[int, Task] = {}
    activities: dict[int, Activity] = {}
    timers: dict[int, Timer] = {}
    children: dict[int, ChildCall] = {}
    groups: dict[int, Group] = {}
    markers: dict[str, VersionMarker] = {}
    kept: dict[str, Command] = {}
    inbox: list[InboxEvent] = []
    updates: dict[str, Update] = {}
    contract: dict[str, Any] | None = None
    offered: list[OfferedContract] = []
    deliveries: list[Delivery] = []
    details: Details | None = None
    receipts: dict[int, Receipt] = {}
    attempts: dict[tuple[int, int], Attempt] = {}
    metadata: Metadata | None = None
    attribute_types: dict[str, str] = {}
    operations: dict[OperationKey, Operation] = {}
    service_calls: dict[str, ServiceCall] = {}
    streams: dict[str, MessageStream] = {}
    messages: dict[str, StreamMessage] = {}
    has_no_reader: bool = False
    outputs: dict[str, OutputStream] = {}
    output_items: dict[str, int] = {}
    sessions: dict[str, Session] = {}
    routes: dict[str, QueueRoutes] = {}
    redriven: dict[int, RecordedActivity] = {}

    @property
    def workflow_task(self) -> Task | None:
        """The open workflow task; a run has at most one."""
        for task in self.tasks.values():
            if task.kind is TaskKind.WORKFLOW:
                return task
        return None

    def activity_task(self, sequence: int) -> Task | None:
        """The open task of an activity execution."""
        for task in self.tasks.values():
            if task.kind is TaskKind.ACTIVITY and task.activity_sequence == sequence:
                return task
        return None

    def offered_contract(self, queue: str, workflow_type: str, build_id: str | None) -> dict[str, Any] | None:
        """What live workers declare for a new run; one without a contract takes every signal and update."""
        asked = (queue, workflow_type, build_id)
        found = (o.contract for o in self.offered if (o.queue, o.workflow_type, o.build_id) == asked)
        return next(found, None)

    def fold(self, transition: Transition) -> None:
        """Take over the after images of a transition decided on this snapshot."""
        self.run = transition.run
        for number, task in transition.tasks.items():
            if task is None:
                self.tasks.pop(number, None)
            else:
                self.tasks[number] = task
        self.activities.update(transition.activities)
        self.timers.update(transition.timers)
        self.children.update(transition.children)
        self.groups.update(transition.groups)
        self.updates.update(transition.updates)
        if transition.details is not None:
            self.contract = transition.details.command_contract
        self.markers.update((m.change_id, m) for m in transition.markers)
        self.kept.update((c.request_id, c) for c in transition.commands if c.request_id is not None)
        self.receipts.update((r.task_number, r) for r in transition.receipts)
        closed = (*transition.attempts, *transition.acknowledged)
        self.attempts.update(((a.sequence, a.attempt), a) for a in closed)
        self.metadata = transition.metadata or self.metadata
        self.attribute_types.update((known.name, known.type) for known in transition.attribute_types)
        self.streams.update(transition.streams)
        self.messages.update((message.key, message) for message in transition.messages)
        self.outputs.update(transition.outputs)
        self.output_items.update((i.key, i.item_offset) for i in transition.output_items if i.key is not None)
        if transition.inbox_taken:
            self.inbox = []
        self.inbox = [*self.inbox, *transition.inbox_added]
        self.deliveries = [d for d in self.deliveries if d.ordinal not in transition.deliveries_taken]
        self.details = transition.details or self.details
        if transition.services is not None:
            self.service_calls.update((call.service_call_id, call) for call in transition.services.calls)
