"""A workflow that never ends by itself: it is asked to cancel, is told of it, cleans up and ends as cancelled."""

from __future__ import annotations

import zlib
from typing import Any

Json = dict[str, Any]

CANCELLED_TYPE = "chaos.cancelled"
CANCELLED_CHILD_TYPE = "chaos.cancelled-child"
CLEANUP_SECONDS = 600
"""Longer than a test: a run that ends at its deadline has not been told."""
FIRST_CALLS: tuple[tuple[str, Json], ...] = (
    ("activity", {"type": "schedule_activity", "cancellation_policy": "try_cancel"}),
    ("activity", {"type": "schedule_activity", "cancellation_policy": "wait_cancellation_completed"}),
    (
        "activity",
        {"type": "schedule_activity", "cancellation_policy": "abandon", "schedule_to_close_timeout": CLEANUP_SECONDS},
    ),
    ("child", {"type": "start_child_workflow", "cancellation_policy": "try_cancel"}),
    ("child", {"type": "start_child_workflow", "cancellation_policy": "wait_cancellation_completed"}),
    ("timer", {"type": "start_timer", "delay_seconds": 1}),
)
"""What such a workflow may do first, and of which kind of call that is."""
LAST_CALL: tuple[str, Json] = ("timer", {"type": "start_timer", "delay_seconds": 3600})
"""What it waits for then, until it is asked to cancel."""
OUTCOMES = {
    "activity": ("ActivityCompleted", "ActivityFailed", "ActivityTimedOut", "ActivityCancelled"),
    "child": ("ChildRunCompleted", "ChildRunFailed", "ChildRunCancelled", "ChildRunTerminated"),
    "timer": ("TimerFired", "TimerCancelled"),
}


def calls(history: list[Json], activity: Json) -> list[tuple[str, Json]]:
    """The calls of the workflow before it is asked to cancel; ``activity`` is the command for its activities."""
    start = history_start(history)
    if start["workflow_type"] == CANCELLED_CHILD_TYPE:
        return [LAST_CALL]
    kind, command = FIRST_CALLS[zlib.crc32(start["workflow_id"].encode()) % len(FIRST_CALLS)]
    common = {"activity": activity, "child": {"workflow_type": CANCELLED_CHILD_TYPE}, "timer": {}}
    return [(kind, common[kind] | command), LAST_CALL]


def history_start(history: list[Json]) -> Json:
    """The members of ``WorkflowStarted``."""
    start: Json = next(event["payload"] for event in history if event["event_type"] == "WorkflowStarted")
    return start


def is_cancellable(history: list[Json]) -> bool:
    """Whether the run is one of these."""
    return history_start(history)["workflow_type"] in (CANCELLED_TYPE, CANCELLED_CHILD_TYPE)


def waits_for(history: list[Json], activity: Json) -> tuple[int, str]:
    """Sequence and kind of the call that the workflow's code is blocked on."""
    for sequence, (kind, _) in enumerate(calls(history, activity), 1):
        if not _has(history, sequence, OUTCOMES[kind]):
            return sequence, kind
    raise AssertionError("the last timer never fires")


def cancelled_commands(history: list[Json], activity: Json) -> list[Json]:
    """What the workflow does next; nothing when it waits."""
    told = next((e["payload"] for e in history if e["event_type"] == "CooperativeCancellationDelivered"), None)
    if told is None:
        sequence, _ = waits_for(history, activity)
        is_open = _has(history, sequence, ("ActivityScheduled", "ChildWorkflowScheduled", "TimerScheduled"))
        return [] if is_open else [calls(history, activity)[sequence - 1][1]]
    cleanup = told["sequence"] + 1
    if not _has(history, cleanup, ("ActivityScheduled",)):
        return [activity]
    if not _has(history, cleanup, OUTCOMES["activity"]):
        return []
    return [{"type": "fail_workflow", "message": "cancelled", "exception_type": "WorkflowCancelled"}]


def check_cancelled(history: list[Json]) -> None:
    """One request, one delivery, and a clean-up that was done after it."""
    types = [event["event_type"] for event in history]
    for kind in ("CooperativeCancellationRequested", "CooperativeCancellationDelivered", "WorkflowCancelled"):
        assert types.count(kind) == 1, f"one {kind}"
    told = types.index("CooperativeCancellationDelivered")
    assert types.index("CooperativeCancellationRequested") < told, "nobody is told of what was not asked"
    cleanup = history[told]["payload"]["sequence"] + 1
    assert _has(history[told:], cleanup, ("ActivityCompleted",)), "the clean-up is done"


def request_body() -> Json:
    """What asks for the cancellation."""
    return {"reason": "enough", "cleanup_timeout_seconds": CLEANUP_SECONDS}


def start_body(workflow_id: str, queue: str) -> Json:
    """What starts such a workflow."""
    return {"workflow_id": workflow_id, "workflow_type": CANCELLED_TYPE, "task_queue": queue}


def _has(history: list[Json], sequence: int, kinds: tuple[str, ...]) -> bool:
    return any(
        event["event_type"] in kinds
        and event["payload"].get("sequence") == sequence
        and event["payload"].get("timer_kind") is None
        for event in history
    )
