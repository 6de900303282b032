"""The documents of runs: one described, one in a list of runs, one row of a listing (control-plane §10.1-10.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dw_core.engine.cancellation import is_undelivered, observation
from dw_core.engine.rows import Run
from dw_core.payloads.codec import CODEC
from dw_core.payloads.envelope import envelope, inline_json
from dw_core.protocol.timestamps import wire_time
from dw_runtime.store.reads.rows import DescribedRun, InstanceRun, ListedRun, TerminalEvent

PREVIEW_BYTES_MAX = 262_144
"""A payload whose blob is longer is shown as its envelope only."""

_BUCKETS = {"pending": "running", "running": "running", "waiting": "running", "completed": "completed"}


def status_bucket(status: str) -> str:
    """running, completed or failed (control-plane §8.1)."""
    return _BUCKETS.get(status, "failed")


def compatibility(build: str | None, *, is_supported: bool) -> dict[str, Any]:
    """Whether a live worker can take a run that may be pinned to a build."""
    return {
        "compatibility": build,
        "compatibility_status": "compatible" if is_supported else "no_compatible_worker",
        "compatibility_supported_in_fleet": is_supported,
        "compatibility_fleet_reason": None if is_supported else f"No live worker on the queue runs the build {build}.",
    }


def listed(row: ListedRun) -> dict[str, Any]:
    """A row of ``GET /workflows``."""
    summary = row.summary
    return {
        "workflow_id": summary.workflow_id,
        "run_id": summary.run_id,
        "workflow_type": summary.workflow_type,
        "namespace": summary.namespace,
        "business_key": summary.business_key,
        "status": row.status,
        "status_bucket": status_bucket(row.status),
        "is_terminal": summary.closed_at is not None,
        "task_queue": summary.queue,
        "payload_codec": CODEC,
        **compatibility(summary.compatibility, is_supported=row.is_supported),
        "memo": summary.memo,
        "search_attributes": summary.shown_attributes,
        "started_at": wire_time(summary.started_at),
        "closed_at": wire_time(summary.closed_at),
    }


def of_instance(row: InstanceRun) -> dict[str, Any]:
    """An item of ``GET /workflows/{workflow_id}/runs``."""
    run = row.run
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "run_number": run.run_number,
        "is_current_run": row.is_current,
        "workflow_type": run.workflow_type,
        "business_key": row.business_key,
        "status": run.status,
        "status_bucket": status_bucket(run.status),
        "task_queue": run.queue,
        **compatibility(run.compatibility, is_supported=row.is_supported),
        "started_at": wire_time(run.started_at),
        "closed_at": wire_time(run.closed_at),
    }


def described(row: DescribedRun, loaded: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The description of a run (control-plane §10.2); members of later features are null, empty or false.

    ``loaded`` are the blobs of its payloads by their stored form, None when they are not asked for.
    """
    run, summary = row.run, row.summary
    wait_kind, wait_reason = _wait(row)
    return {
        "workflow_id": run.workflow_id,
        "run_id": run.run_id,
        "namespace": run.namespace,
        "workflow_type": run.workflow_type,
        "business_key": summary.business_key,
        "run_number": run.run_number,
        "run_count": row.run_count,
        "is_current_run": row.is_current,
        "status": run.status,
        "status_bucket": status_bucket(run.status),
        "is_terminal": run.is_terminal,
        "closed_reason": run.closed_reason,
        "started_at": wire_time(run.started_at),
        "closed_at": wire_time(run.closed_at),
        "last_progress_at": wire_time(run.last_progress_at),
        "wait_kind": wait_kind,
        "wait_reason": wait_reason,
        "task_queue": run.queue,
        **compatibility(run.compatibility, is_supported=row.is_supported),
        "priority": run.priority,
        "fairness_key": run.fairness_key,
        "fairness_weight": run.fairness_weight,
        "execution_timeout_seconds": summary.execution_timeout_seconds,
        "run_timeout_seconds": summary.run_timeout_seconds,
        "execution_deadline_at": wire_time(run.execution_deadline_at),
        "run_deadline_at": wire_time(run.run_deadline_at),
        **_payloads(summary.arguments, summary.output, loaded or {}),
        "memo": summary.memo,
        "search_attributes": summary.shown_attributes,
        "actions": _actions(run, is_current=row.is_current),
        **_failure(row.terminal_event),
        "cancellation_request": observation(run.cancellation),
    }


def _wait(row: DescribedRun) -> tuple[str | None, str | None]:
    """What the run waits for; null when it is closed, or its code has yet to say."""
    if row.run.is_terminal:
        return None, None
    run = row.run
    if row.has_workflow_task:
        return "workflow_task", _open_task(run)
    if run.open_activity_count:
        return "activity", _count(run.open_activity_count, "activity is open.", "activities are open.")
    waits = ([] if run.open_wait is None else [run.open_wait]) + run.selected_waits
    if waits:
        return "condition", f"Condition {waits[0].key or 'without a key'} is not met yet."
    if run.service_wait is not None:
        call = run.service_wait
        return "service_call", f"{call.endpoint_name}/{call.service_name}/{call.operation_name} has not answered yet."
    if run.open_child_count:
        return "child", _count(run.open_child_count, "child workflow is running.", "child workflows are running.")
    if run.open_timer_count:
        return "timer", _count(run.open_timer_count, "timer is pending.", "timers are pending.")
    return None, None


def _open_task(run: Run) -> str:
    failures = run.task_failure_count
    if not failures and is_undelivered(run):
        return (
            "A cancellation request waits for a worker that declares cooperative_cancellation; the run is cancelled at"
            f" {wire_time(run.cleanup_deadline_at)}."
        )
    if not failures:
        return "A workflow task is open."
    if run.replay_blocked:
        times = _count(failures, "failure", "failures")
        return f"Replay is blocked after {times} in a row; repair the run, or start workers of another build."
    return f"The workflow task has failed {_count(failures, 'time', 'times')} in a row; the log of its worker says why."


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _payloads(arguments: str, output: str | None, loaded: Mapping[str, str]) -> dict[str, Any]:
    shown_input = loaded.get(arguments, arguments)
    shown_output = None if output is None else loaded.get(output, output)
    input_omitted = len(shown_input) > PREVIEW_BYTES_MAX
    output_omitted = shown_output is not None and len(shown_output) > PREVIEW_BYTES_MAX
    return {
        "payload_codec": CODEC,
        "input": None if input_omitted else inline_json(shown_input),
        "output": None if shown_output is None or output_omitted else inline_json(shown_output),
        "input_envelope": envelope(arguments),
        "output_envelope": None if output is None else envelope(output),
        "payload_previews": {
            "input_omitted": input_omitted,
            "output_omitted": output_omitted,
            "max_encoded_bytes": PREVIEW_BYTES_MAX,
        },
    }


def _actions(run: Run, *, is_current: bool) -> dict[str, bool]:
    is_open = is_current and not run.is_terminal
    return {
        "can_signal": is_open,
        "can_query": is_open or run.status == "completed",
        "can_update": is_open,
        "can_cancel": is_open,
        "can_terminate": is_open,
        "can_repair": is_open,
        "can_archive": is_current and run.is_terminal and run.archive is None,
    }


def _failure(event: TerminalEvent | None) -> dict[str, Any]:
    if event is None:
        return {"error": None, "failure": None, "exception": None, "failures": []}
    payload = event.payload
    failure = {
        "message": payload.get("message"),
        "exception_type": payload.get("exception_type"),
        "exception_class": payload.get("exception_class"),
        "failure_category": payload.get("failure_category"),
        "non_retryable": payload.get("non_retryable", False),
        "source_kind": payload.get("source_kind", "workflow_run"),
        "source_id": payload.get("source_id"),
        "event_sequence": event.sequence,
        "exception": payload.get("exception"),
    }
    return {
        "error": failure["message"],
        "failure": failure | {"activity_failures": [], "failures": [failure]},
        "exception": failure["exception"],
        "failures": [failure],
    }
