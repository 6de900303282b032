"""What a decision gives back: a transition to write, or a rejection that leaves everything as it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from dw_core.engine.rows import AttributeType, Details, Metadata, Run, Task, TaskKind
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
from dw_core.engine.update_rows import Update
from dw_core.services.rows import ServiceChanges
from dw_core.sessions.session import SessionRenewal


class WakeKey(NamedTuple):
    """A queue that may have something to claim."""

    namespace: str
    kind: TaskKind
    queue: str


class Rejection(msgspec.Struct, frozen=True):
    """A refusal: ``reason`` is a key of the table of reasons, ``fields`` the extra members the contract names."""

    reason: str
    message: str
    fields: dict[str, Any] = {}


class Transition(msgspec.Struct, kw_only=True):
    """After images and appended rows of one decision, in no particular order except ``events``.

    ``reply`` is what the caller is told: a mapping of response members, or a :class:`Rejection` whose cause was itself
    recorded (a completion that finds its run past the deadline). ``tasks`` maps a task number to its after image, or
    to None when the task has closed. ``created`` lists the numbers that are new in this transition;
    ``acknowledged`` are closed attempts whose ``cancellation`` has changed. ``spawned`` are the runs that this one has
    started: children and successors. ``deliveries`` are for other runs, ``services`` what changes about service calls.
    ``streams`` and ``outputs`` are after images of message streams and output streams by name. ``session_renewals``
    follow heartbeats; ``freed`` are queues on which the end of an attempt may let another activity of its session
    start.
    """

    run: Run
    reply: dict[str, Any] | Rejection
    details: Details | None = None
    is_new_run: bool = False
    events: list[Event] = []
    tasks: dict[int, Task | None] = {}
    created_tasks: set[int] = set()
    activities: dict[int, Activity] = {}
    created_activities: set[int] = set()
    attempts: list[Attempt] = []
    acknowledged: list[Attempt] = []
    receipts: list[Receipt] = []
    timers: dict[int, Timer] = {}
    created_timers: set[int] = set()
    children: dict[int, ChildCall] = {}
    created_children: set[int] = set()
    groups: dict[int, Group] = {}
    created_groups: set[int] = set()
    updates: dict[str, Update] = {}
    created_updates: set[str] = set()
    markers: list[VersionMarker] = []
    commands: list[Command] = []
    metadata: Metadata | None = None
    attribute_types: list[AttributeType] = []
    streams: dict[str, MessageStream] = {}
    messages: list[StreamMessage] = []
    outputs: dict[str, OutputStream] = {}
    output_items: list[OutputItem] = []
    inbox_added: list[InboxEvent] = []
    inbox_taken: bool = False
    deliveries: list[Delivery] = []
    deliveries_taken: list[int] = []
    services: ServiceChanges | None = None
    spawned: list[Transition] = []
    session_renewals: list[SessionRenewal] = []
    freed: set[WakeKey] = set()

    @property
    def service_changes(self) -> ServiceChanges:
        """Where to note what changes about service calls."""
        if self.services is None:
            self.services = ServiceChanges()
        return self.services

    @property
    def changes_anything(self) -> bool:
        """False for a reply that was read and not decided: a status, or an answer given before."""
        rows = (self.events, self.tasks, self.timers, self.commands, self.inbox_added, self.attempts, self.acknowledged)
        return self.is_new_run or any(rows) or bool(self.deliveries_taken or self.streams or self.outputs)


Outcome = Transition | Rejection
