"""Opening a run: what its ``WorkflowStarted`` says, and the first task (engine §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dw_core.contracts.declared import started_members
from dw_core.engine.rows import Details, Run
from dw_core.engine.run_rows import InboxEvent
from dw_core.engine.snapshot import Snapshot
from dw_core.engine.transition import Transition
from dw_core.engine.update_moves import Handed, take_on
from dw_core.engine.writer import RunWriter
from dw_core.payloads.envelope import envelope
from dw_core.protocol.timestamps import wire_time


def deadline(start: datetime, seconds: int | None) -> datetime | None:
    """The moment a timeout that begins at ``start`` passes; None without one."""
    return None if seconds is None else start + timedelta(seconds=seconds)


def identity(run: Run, details: Details) -> dict[str, Any]:
    """The members that the events of a start share; null members are left out."""
    members = {
        "workflow_instance_id": run.workflow_id,
        "workflow_id": run.workflow_id,
        "workflow_run_id": run.run_id,
        "workflow_class": run.workflow_type,
        "workflow_type": run.workflow_type,
        "business_key": details.business_key,
        "memo": details.memo or None,
        "search_attributes": details.search_attributes or None,
    }
    return {key: value for key, value in members.items() if value is not None}


def started(run: Run, details: Details) -> dict[str, Any]:
    """The members of ``WorkflowStarted`` beyond the identity, with what the workers of the run declare."""
    members = {
        "payload_codec": "avro",
        "input": envelope(details.arguments),
        "execution_timeout_seconds": details.execution_timeout_seconds,
        "run_timeout_seconds": details.run_timeout_seconds,
        "execution_deadline_at": wire_time(run.execution_deadline_at),
        "run_deadline_at": wire_time(run.run_deadline_at),
        "compatibility": run.compatibility,
    } | started_members(details.command_contract)
    return {key: value for key, value in members.items() if value is not None}


def open_run(
    run: Run,
    details: Details,
    members: dict[str, Any],
    now: datetime,
    *,
    available_at: datetime | None = None,
    handed: Handed | None = None,
    carried: Sequence[InboxEvent] = (),
    messages: Sequence[InboxEvent] = (),
) -> Transition:
    """A run that another one has caused; its first task can be claimed from ``available_at`` on.

    ``members`` say in ``WorkflowStarted`` where the run comes from. ``handed`` was accepted for its predecessor, which
    had no time to see it; ``carried`` is the cancellation request that it had no time to see, ``messages`` what its
    message streams still hold.
    """
    writer = RunWriter(Snapshot(run=run), now)
    writer.transition.details = details
    writer.transition.is_new_run = True
    writer.append("WorkflowStarted", identity(run, details) | started(run, details) | members, wake={})
    for event in messages:
        writer.append_buffered(event)
    if handed is not None:
        take_on(writer, handed)
    writer.run.pending_signal_count += sum(event.workflow_command_id is not None for event in messages)
    for event in carried:
        writer.append_buffered(event)
    if available_at is not None:
        writer.open_workflow_task({}, available_at=available_at)
    return writer.finish({})
