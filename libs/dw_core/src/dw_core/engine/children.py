"""Child workflows as their parent sees them: start, events, and what becomes of them after it (engine §6.6, §6.11)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from dw_core.engine.cancellation import forwarded
from dw_core.engine.commands.groups import Path, group_members
from dw_core.engine.commands.parsed import StartChildWorkflow
from dw_core.engine.opening import deadline, open_run
from dw_core.engine.rows import Details, ParentCall, RetryPolicy, Run
from dw_core.engine.run_rows import ChildCall, Delivery
from dw_core.engine.writer import Resume, RunWriter
from dw_core.ids import child_call_id, derived_ulid, link_id
from dw_core.protocol.timestamps import wire_time

ABANDON, ASK = "abandon", "request_cancellation"


def start_child(writer: RunWriter, sequence: int, path: Path | None, command: StartChildWorkflow, source: str) -> None:
    """Start the child in the same transaction; it inherits memo, search attributes and order from its parent."""
    run, now = writer.run, writer.now
    child_run_id = derived_ulid(now, run.run_id, str(sequence), "run")
    call = ChildCall(
        run_id=run.run_id,
        sequence=sequence,
        child_workflow_id=derived_ulid(now, run.run_id, str(sequence), "workflow"),
        child_run_id=child_run_id,
        current_run_id=child_run_id,
        workflow_type=command.workflow_type,
        parent_close_policy=command.parent_close_policy or ABANDON,
        cancellation_policy=command.cancellation_policy,
        retry_policy=command.retry_policy,
        execution_timeout_seconds=command.execution_timeout_seconds,
        run_timeout_seconds=command.run_timeout_seconds,
        parallel_group_path=path,
        group_base=path[0]["parallel_group_base_sequence"] if path else None,
        started_at=now,
    )
    queue = command.queue or run.queue
    child = Run(
        run_id=child_run_id,
        namespace=run.namespace,
        workflow_id=call.child_workflow_id,
        workflow_type=command.workflow_type,
        queue=queue,
        compatibility=run.compatibility if queue == run.queue else None,
        priority=run.priority,
        fairness_key=run.fairness_key,
        fairness_weight=run.fairness_weight,
        trace_context=run.trace_context,
        started_at=now,
        last_progress_at=now,
        execution_deadline_at=deadline(now, command.execution_timeout_seconds),
        run_deadline_at=deadline(now, command.run_timeout_seconds),
        parent=ParentCall(
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            sequence=sequence,
            retry_policy=command.retry_policy or RetryPolicy(),
        ),
    )
    inherited = writer.details
    details = Details(
        run_id=child_run_id,
        arguments=command.arguments,
        memo=inherited.memo,
        memo_blob=inherited.memo_blob,
        search_attributes=inherited.search_attributes,
        search_attribute_types=inherited.search_attribute_types,
        execution_timeout_seconds=command.execution_timeout_seconds,
        run_timeout_seconds=command.run_timeout_seconds,
        command_contract=_contract(writer, child),
    )
    writer.put_child(call, is_new=True)
    run.open_child_count += 1
    writer.append("ChildWorkflowScheduled", call_members(call), workflow_task_id=source)
    writer.append("ChildRunStarted", call_members(call) | run_members(child, details), workflow_task_id=source)
    writer.transition.spawned.append(open_run(child, details, parent_members(child), now))


def _contract(writer: RunWriter, child: Run) -> dict[str, Any] | None:
    """Contracts are offered by queue and type; a child that is pinned to a build takes every signal and update."""
    if child.compatibility is not None:
        return None
    return writer.snapshot.offered_contract(child.queue, child.workflow_type, None)


def call_members(call: ChildCall, run_number: int = 1, current_run_id: str | None = None) -> dict[str, Any]:
    """The members of every event of a call: policies and identity are those of its start (engine §2.10, §3.5).

    ``current_run_id`` is the run an event is about when that is not the first one.
    """
    timeouts = {
        "execution_timeout_seconds": call.execution_timeout_seconds,
        "run_timeout_seconds": call.run_timeout_seconds,
    }
    members: dict[str, Any] = {
        "sequence": call.sequence,
        "child_call_id": child_call_id(call.run_id, call.sequence),
        "workflow_link_id": link_id(call.run_id, call.sequence, run_number),
        "child_workflow_instance_id": call.child_workflow_id,
        "child_workflow_run_id": call.child_run_id,
        "resolved_child_workflow_run_id": current_run_id if current_run_id != call.child_run_id else None,
        "child_workflow_type": call.workflow_type,
        "child_workflow_class": call.workflow_type,
        "child_run_number": run_number,
        "parent_close_policy": call.parent_close_policy,
        "cancellation_policy": call.cancellation_policy,
        "retry_policy": None if call.retry_policy is None else msgspec.structs.asdict(call.retry_policy),
        "timeout_policy": timeouts if any(timeouts.values()) else None,
    }
    known = {key: value for key, value in members.items() if value is not None}
    return known | group_members(call.parallel_group_path)


def run_members(child: Run, details: Details) -> dict[str, Any]:
    """What ``ChildRunStarted`` says about the run."""
    members = {
        "child_status": child.status,
        "execution_timeout_seconds": details.execution_timeout_seconds,
        "run_timeout_seconds": details.run_timeout_seconds,
        "execution_deadline_at": wire_time(child.execution_deadline_at),
        "run_deadline_at": wire_time(child.run_deadline_at),
    }
    return {key: value for key, value in members.items() if value is not None}


def parent_members(child: Run) -> dict[str, Any]:
    """What a child's ``WorkflowStarted`` says about its parent; nothing for a run that has none."""
    parent = child.parent
    if parent is None:
        return {}
    return {
        "parent_workflow_instance_id": parent.workflow_id,
        "parent_workflow_run_id": parent.run_id,
        "parent_sequence": parent.sequence,
        "child_call_id": child_call_id(parent.run_id, parent.sequence),
        "workflow_link_id": link_id(parent.run_id, parent.sequence, child.run_number),
    }


def resume_context(call: ChildCall, event_type: str) -> Resume:
    """Why a child's end wakes its parent (worker-plane §8.2)."""
    named = child_call_id(call.run_id, call.sequence)
    return {
        "workflow_wait_kind": "child",
        "open_wait_id": f"child:{named}",
        "resume_source_kind": "child_workflow_run",
        "resume_source_id": call.current_run_id,
        "child_call_id": named,
        "child_workflow_run_id": call.child_run_id,
        "workflow_sequence": call.sequence,
        "workflow_event_type": event_type,
    }


def tell_parent(writer: RunWriter, kind: str, body: dict[str, Any]) -> None:
    """Leave word with the run that waits for this one; nothing when there is none."""
    parent = writer.run.parent
    if parent is None:
        return
    about = {"run_id": writer.run.run_id, "run_number": writer.run.run_number}
    writer.transition.deliveries.append(
        Delivery(run_id=parent.run_id, kind=kind, sequence=parent.sequence, body=about | body, created_at=writer.now)
    )


def ask_to_cancel(writer: RunWriter, call: ChildCall, reason: str | None) -> None:
    """Send a cancellation request to a child: that of this run when it has one, else one of its own."""
    _tell_child(writer, call, "cancellation", forwarded(writer.run, reason, writer.now))


def cancel_call(writer: RunWriter, call: ChildCall) -> None:
    """The run no longer waits for a child that it has asked to cancel (engine §6.12); the caller counts the leaf."""
    closed = copy.copy(call)
    closed.status, closed.closed_at = "cancelled", writer.now
    writer.put_child(closed)
    writer.run.open_child_count -= 1
    message = "The child workflow was asked to cancel."
    failure = {"failure_category": "cancelled", "exception_class": "ChildWorkflowCancelled", "message": message}
    writer.append("ChildRunCancelled", call_members(call) | failure)


def _closing(run: Run, policy: str) -> dict[str, Any]:
    parent = {"parent_workflow_id": run.workflow_id, "parent_run_id": run.run_id}
    return parent | {"policy": policy, "reason": run.closed_reason}


def _tell_child(writer: RunWriter, call: ChildCall, kind: str, body: dict[str, Any]) -> None:
    writer.transition.deliveries.append(
        Delivery(run_id=call.current_run_id, kind=kind, body=body, created_at=writer.now)
    )


def let_go(writer: RunWriter, *, is_continued: bool) -> None:
    """The run has closed: apply the parent-close policy of every open child, best effort and in order.

    A run that continues as new keeps its children running whatever their policy, and gives up their results.
    """
    for call in writer.open_children():
        policy = ABANDON if is_continued else call.parent_close_policy
        closed = copy.copy(call)
        closed.status, closed.closed_at = "abandoned", writer.now
        writer.put_child(closed)
        if policy == ABANDON:
            continue
        if policy == ASK:
            ask_to_cancel(writer, call, "The parent workflow has closed.")
        else:
            _tell_child(writer, call, "parent_closed", _closing(writer.run, policy))
        writer.append(
            "ParentClosePolicyApplied",
            {
                "child_instance_id": call.child_workflow_id,
                "child_run_id": call.current_run_id,
                "policy": policy,
                "reason": writer.run.closed_reason,
            },
        )
    writer.run.open_child_count = 0
