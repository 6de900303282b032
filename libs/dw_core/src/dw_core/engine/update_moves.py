"""What a run that continues as new hands to its successor: unseen signals and unapplied updates (engine §6.7)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dw_core.engine.rows import Run
from dw_core.engine.run_rows import InboxEvent
from dw_core.engine.update_rows import Update
from dw_core.engine.update_tasks import UPDATE_ACCEPTED, accepted_members
from dw_core.engine.writer import SIGNAL_RECEIVED, RunWriter


class Handed(msgspec.Struct, frozen=True):
    """Updates the predecessor had in its history, then what arrived while its last task was leased, in order."""

    accepted: Sequence[Update]
    arrived: Sequence[InboxEvent]
    arrived_updates: dict[str, Update]


def hand_over(writer: RunWriter, follower: Run, arrived: Sequence[InboxEvent]) -> Handed:
    """Move open updates to the follower. One that was sent to this very run stays, and fails with it."""
    moved: dict[str, Update] = {}
    for update in writer.open_updates():
        if update.target_scope == "run":
            continue
        moved[update.command_id] = msgspec.structs.replace(update, run_id=follower.run_id)
        writer.put_update(moved[update.command_id])
        writer.run.open_update_count -= 1
    commands = {event.workflow_command_id for event in arrived}
    kept = [e for e in arrived if e.event_type == UPDATE_ACCEPTED and e.workflow_command_id not in moved]
    for event in kept:
        writer.append_buffered(event)
    return Handed(
        accepted=[update for command_id, update in moved.items() if command_id not in commands],
        arrived=[event for event in arrived if event not in kept],
        arrived_updates={command_id: moved[command_id] for command_id in moved if command_id in commands},
    )


def take_on(writer: RunWriter, handed: Handed) -> None:
    """Record what the predecessor has handed over; a signal it had seen no longer holds an update up."""
    signals = {e.workflow_command_id for e in handed.arrived if e.event_type == SIGNAL_RECEIVED}
    writer.run.pending_signal_count = len(signals)
    for update in handed.accepted:
        _accept(writer, update, signals)
    for event in handed.arrived:
        if event.event_type == SIGNAL_RECEIVED:
            writer.append_buffered(event)
        else:
            _accept(writer, handed.arrived_updates[event.workflow_command_id or ""], signals)


def _accept(writer: RunWriter, update: Update, signals: set[str | None]) -> None:
    behind = update.queued_behind if update.queued_behind in signals else None
    taken = msgspec.structs.replace(update, queued_behind=behind)
    writer.put_update(taken)
    writer.run.open_update_count += 1
    writer.append(UPDATE_ACCEPTED, accepted_members(writer.run, taken), workflow_command_id=update.command_id)
