"""Applying the one command of an update task, and keeping such commands out of plain tasks (engine §0.1 rule 8)."""

from __future__ import annotations

from dw_core.engine.commands.metadata_fields import MEMO_FIELD
from dw_core.engine.commands.parsed import UPDATES, CompleteUpdate, FailUpdate, Parsed
from dw_core.engine.message_streams import advance_streams
from dw_core.engine.rows import Task
from dw_core.engine.transition import Rejection
from dw_core.engine.update_outcomes import complete_update, fail_update
from dw_core.engine.update_tasks import update_of
from dw_core.engine.writer import RunWriter
from dw_core.ids import task_id


def invalid_commands(errors: dict[str, list[str]]) -> Rejection:
    """The refusal of a batch; ``errors`` has messages by field (worker-plane §8.8, for memo entries §9.3)."""
    is_memo_only = bool(errors) and all(field.rpartition(".")[2] == MEMO_FIELD for field in errors)
    reason = "workflow_memo_validation_failed" if is_memo_only else "validation_failed"
    return Rejection(reason, "The request is invalid.", {"errors": errors, "validation_errors": errors})


def apply_update(writer: RunWriter, task: Task, batch: Parsed) -> Rejection | None:
    """Record what the handler of the task's update did; its worker has not advanced the workflow itself.

    Anything but exactly one command for that update refuses the batch.
    """
    misplaced = misplaced_update(task, batch)
    if misplaced:
        return invalid_commands(misplaced)
    command = batch.commands[0]
    update = writer.snapshot.updates.get(update_of(task) or "")
    assert update is not None and update.closed_at is None, f"task {task.run_id}.t{task.task_number} has an open update"
    source = task_id(task.run_id, task.task_number)
    advance_streams(writer, batch)
    if isinstance(command, CompleteUpdate):
        complete_update(writer, update, command, source)
    elif isinstance(command, FailUpdate):
        fail_update(writer, update, command, source)
    return None


def misplaced_update(task: Task, batch: Parsed) -> dict[str, list[str]]:
    """What is wrong with the update commands of a batch: a plain task has none, an update task exactly its own."""
    update_id = update_of(task)
    errors: dict[str, list[str]] = {}
    for index, command in enumerate(batch.commands):
        if isinstance(command, UPDATES):
            if command.update_id != update_id:
                errors[f"commands.{index}.update_id"] = ["is not the update of this task"]
            elif index:
                errors[f"commands.{index}.type"] = ["reports on the update a second time"]
        elif update_id is not None:
            errors[f"commands.{index}.type"] = ["is not allowed on the task of an update"]
    return errors
