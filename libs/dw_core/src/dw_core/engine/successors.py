"""The run after this one: by continue-as-new, or because a failed child is tried again (engine §6.6, §6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dw_core.engine.cancellation import carry_over
from dw_core.engine.children import parent_members, run_members, tell_parent
from dw_core.engine.commands.parsed import ContinueAsNew
from dw_core.engine.message_streams import carry_messages, consumed_commands
from dw_core.engine.opening import deadline, open_run
from dw_core.engine.rows import Details, ParentCall, Run
from dw_core.engine.run_rows import InboxEvent
from dw_core.engine.service_calls import hand_over_calls
from dw_core.engine.update_moves import hand_over
from dw_core.engine.writer import RunWriter
from dw_core.ids import derived_ulid


def succeed(writer: RunWriter, command: ContinueAsNew, arrived: Sequence[InboxEvent]) -> Run:
    """Open the run that continues this one; what the command does not name stays as it is.

    ``arrived`` are the signals and updates that this run's code has not seen. Updates for one of them that name this
    run stay with it (engine §6.7).
    """
    run = writer.run
    follower = _follower(writer, command, writer.now, run.parent)
    details = _details(writer, follower, command)
    members = {"continued_from_run_id": run.run_id} | parent_members(follower)
    consumed = consumed_commands(writer)
    arrived = [event for event in arrived if event.workflow_command_id not in consumed]
    messages = carry_messages(writer, follower, {event.workflow_command_id for event in arrived})
    handed, carried = hand_over(writer, follower, arrived), carry_over(run, follower)
    spawned = open_run(follower, details, members, writer.now, handed=handed, carried=carried, messages=messages)
    writer.transition.spawned.append(spawned)
    tell_parent(writer, "child_continued", _about(follower, details))
    return follower


def retry(writer: RunWriter, *error_types: str | None) -> bool:
    """Open the next attempt of a failed child, unless its policy says no (engine §6.6); whether there is one.

    A run that was asked to cancel is not tried again.

    ``error_types`` are the names a policy may rule out. The execution deadline spans all attempts.
    """
    run, parent = writer.run, writer.run.parent
    if parent is None or run.cancellation is not None:
        return False
    if any(name in parent.retry_policy.non_retryable_error_types for name in error_types):
        return False
    pause = parent.retry_policy.pause_after(parent.attempt)
    if pause is None:
        return False
    due = writer.now + timedelta(seconds=pause)
    if run.execution_deadline_at is not None and due >= run.execution_deadline_at:
        return False
    parent = msgspec.structs.replace(parent, attempt=parent.attempt + 1)
    follower = _follower(writer, ContinueAsNew(), due, parent)
    details = _details(writer, follower, ContinueAsNew())
    tried = {"retry_attempt": parent.attempt, "retry_of_child_workflow_run_id": run.run_id}
    members = tried | parent_members(follower)
    messages = carry_messages(writer, follower)
    spawned = open_run(follower, details, members, writer.now, available_at=due, messages=messages)
    writer.transition.spawned.append(spawned)
    tell_parent(writer, "child_continued", _about(follower, details) | tried | {"retry_backoff_seconds": pause})
    return True


def _follower(writer: RunWriter, command: ContinueAsNew, starts_at: datetime, parent: ParentCall | None) -> Run:
    run = writer.run
    details = writer.details
    follower = Run(
        run_id=derived_ulid(writer.now, run.run_id, "next"),
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        run_number=run.run_number + 1,
        workflow_type=command.workflow_type or run.workflow_type,
        queue=command.queue or run.queue,
        compatibility=run.compatibility,
        priority=run.priority,
        fairness_key=run.fairness_key,
        fairness_weight=run.fairness_weight,
        trace_context=run.trace_context,
        started_at=writer.now,
        last_progress_at=writer.now,
        execution_deadline_at=run.execution_deadline_at,
        run_deadline_at=deadline(starts_at, details.run_timeout_seconds),
        next_command_sequence=run.next_command_sequence,
        newest_signal=run.newest_signal,
        parent=parent,
    )
    run.continued_to_run_id = follower.run_id
    hand_over_calls(writer, follower)
    return follower


def _details(writer: RunWriter, follower: Run, command: ContinueAsNew) -> Details:
    details = writer.details
    arguments = command.arguments or details.arguments
    contract = details.command_contract
    if follower.workflow_type != writer.run.workflow_type:
        contract = writer.snapshot.offered_contract(follower.queue, follower.workflow_type, follower.compatibility)
    return msgspec.structs.replace(details, run_id=follower.run_id, arguments=arguments, command_contract=contract)


def _about(follower: Run, details: Details) -> dict[str, Any]:
    """What a parent is told of the run it now waits for."""
    about = {"run_id": follower.run_id, "run_number": follower.run_number}
    return about | run_members(follower, details)
