"""Putting the rows that a batch has read into the snapshots of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dw_core.engine.rows import AttributeType, Details, Metadata, Task
from dw_core.engine.run_rows import (
    Activity,
    ChildCall,
    Delivery,
    Group,
    InboxEvent,
    Timer,
    VersionMarker,
)
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.update_rows import OfferedContract, Update
from dw_core.workers.routing import QueueRoutes
from dw_runtime.store.link import Rows

InstanceKey = tuple[str, str]
"""Namespace and workflow id."""


class RecordedContract(msgspec.Struct, frozen=True):
    """The command contract that a run declared at its start."""

    run_id: str
    contract: dict[str, Any]


_decode_tasks = msgspec.json.Decoder(list[Task]).decode
_decode_activities = msgspec.json.Decoder(list[Activity]).decode
_decode_timers = msgspec.json.Decoder(list[Timer]).decode
_decode_children = msgspec.json.Decoder(list[ChildCall]).decode
_decode_deliveries = msgspec.json.Decoder(list[Delivery]).decode
_decode_details = msgspec.json.Decoder(list[Details]).decode
_decode_groups = msgspec.json.Decoder(list[Group]).decode
_decode_markers = msgspec.json.Decoder(list[VersionMarker]).decode
_decode_inbox = msgspec.json.Decoder(list[InboxEvent]).decode
_decode_updates = msgspec.json.Decoder(list[Update]).decode
_decode_contracts = msgspec.json.Decoder(list[RecordedContract]).decode
_decode_offered = msgspec.json.Decoder(list[OfferedContract]).decode
_decode_metadata = msgspec.json.Decoder(list[Metadata]).decode
_decode_types = msgspec.json.Decoder(list[AttributeType]).decode
_decode_routes = msgspec.json.Decoder(list[QueueRoutes]).decode


def fill(by_run: dict[str, Snapshot], parts: Sequence[bytes | None]) -> None:
    """Rows of runs that are not in ``by_run`` belong to a workflow id that was started after the locks were taken; it
    counts as free, and the attempt to take it is what fails."""
    tasks, activities, timers, children, deliveries, details, groups, markers, inbox, updates = parts
    for task in _decode_tasks(tasks) if tasks else ():
        if task.run_id in by_run:
            by_run[task.run_id].tasks[task.task_number] = task
    for activity in _decode_activities(activities) if activities else ():
        if activity.run_id in by_run:
            by_run[activity.run_id].activities[activity.sequence] = activity
    for timer in _decode_timers(timers) if timers else ():
        if timer.run_id in by_run:
            by_run[timer.run_id].timers[timer.sequence] = timer
    for call in _decode_children(children) if children else ():
        if call.run_id in by_run:
            by_run[call.run_id].children[call.sequence] = call
    for delivery in _decode_deliveries(deliveries) if deliveries else ():
        by_run[delivery.run_id].deliveries.append(delivery)
    for detail in _decode_details(details) if details else ():
        if detail.run_id in by_run:
            by_run[detail.run_id].details = detail
    for group in _decode_groups(groups) if groups else ():
        if group.run_id in by_run:
            by_run[group.run_id].groups[group.base_sequence] = group
    for marker in _decode_markers(markers) if markers else ():
        by_run[marker.run_id].markers[marker.change_id] = marker
    for event in _decode_inbox(inbox) if inbox else ():
        if event.run_id in by_run:
            by_run[event.run_id].inbox.append(event)
    for update in _decode_updates(updates) if updates else ():
        if update.run_id in by_run:
            by_run[update.run_id].updates[update.update_id] = update


def fill_contracts(
    by_run: dict[str, Snapshot],
    by_instance: dict[InstanceKey, Snapshot],
    contracts: bytes | None,
    offered: bytes | None,
) -> None:
    for recorded in _decode_contracts(contracts) if contracts else ():
        if recorded.run_id in by_run:
            by_run[recorded.run_id].contract = recorded.contract
    found = _decode_offered(offered) if offered else []
    if found:
        for (namespace, _), snapshot in by_instance.items():
            snapshot.offered = [one for one in found if one.namespace == namespace]
        for snapshot in by_run.values():
            if snapshot.run is not None:
                snapshot.offered = [one for one in found if one.namespace == snapshot.run.namespace]


def fill_routes(by_instance: dict[InstanceKey, Snapshot], rows: Rows) -> None:
    for (found,) in rows:
        known = _decode_routes(found) if found else []
        for (namespace, _), snapshot in by_instance.items():
            snapshot.routes = {routes.queue: routes for routes in known if routes.namespace == namespace}


def fill_metadata(by_run: dict[str, Snapshot], rows: Rows) -> None:
    """Each run also gets the attribute types of its namespace, a copy of its own."""
    for metadata, types in rows:
        fixed = _decode_types(types) if types else []
        for found in _decode_metadata(metadata) if metadata else ():
            snapshot = by_run[found.run_id]
            snapshot.metadata = found
            if snapshot.run is not None:
                namespace = snapshot.run.namespace
                snapshot.attribute_types = {known.name: known.type for known in fixed if known.namespace == namespace}
